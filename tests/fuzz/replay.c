/*
 * replay.c - run a fuzz target over its corpus without a fuzzer.
 *
 * Each file is one TAP test: the file whole, cut at 16 places, and with 32
 * bytes changed, one at a time; always the same ones.  A fault ends the
 * program (it is built with ASan and UBSan), which the harness sees.  Every
 * input is a block of its own size, so that a read past its end is caught.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const uint8_t *data, size_t n, size_t flip, uint8_t with)
{
    uint8_t *copy = malloc(n ? n : 1);

    if (!copy)
        abort();
    if (n)
        memcpy(copy, data, n);
    if (n && with)
        copy[flip % n] ^= with;
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static uint8_t *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t got, cap = 0;

    *n = 0;
    if (!f)
        return NULL;
    do {
        cap = cap ? cap * 2 : 65536;
        data = realloc(data, cap);
        if (!data)
            abort();
        got = fread(data + *n, 1, cap - *n, f);
        *n += got;
    } while (*n == cap);
    fclose(f);
    return data;
}

static void replay(const char *path)
{
    size_t n;
    uint8_t *data = read_all(path, &n);
    uint64_t x = 88172645463325252u;

    if (!data)
        return;
    run(data, n, 0, 0);
    for (size_t i = 0; i < 16; i++)
        run(data, n * i / 16, 0, 0);
    for (int i = 0; i < 32; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        run(data, n, (size_t)(x >> 8), (uint8_t)(1u << (x & 7)));
    }
    free(data);
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    struct dirent **names = NULL;
    char path[4096];
    int n = argc == 2 ? scandir(argv[1], &names, visible, alphasort) : -1;

    /* nothing to replay is a fault of the corpus, not a success */
    if (n <= 0) {
        printf("1..1\nnot ok 1 - corpus %s is empty\n",
               argc > 1 ? argv[1] : "");
        return 1;
    }
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", argv[1], names[i]->d_name);
        replay(path);
        printf("ok %d - %s\n", i + 1, names[i]->d_name);
        fflush(stdout);
        free(names[i]);
    }
    free(names);
    return 0;
}
