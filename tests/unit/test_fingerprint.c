/*
 * test_fingerprint.c - digests are right, remembered when that is safe, and
 * a damaged or contended memory costs time only.
 *
 * Whether a digest came from the memory is seen by planting a wrong one
 * there: nothing else can tell.
 */
#include <fcntl.h>
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "model/fingerprint.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/rd.h"

#define LARGE  ((16 << 20) + 4096) /* above what is remembered */
#define HEADER 32
#define RECORD 96

static char root[64], cache[96], memory[128];

static int teardown(void **state)
{
    char cmd[256];

    (void)state;
    snprintf(cmd, sizeof cmd, "chmod -R u+rwx '%s'; rm -rf '%s'", root, root);
    return system(cmd);
}

/* A sparse file of n bytes that ends in c. */
static void make(char path[128], const char *name, off_t n, char c)
{
    int fd;

    snprintf(path, 128, "%s/%s", root, name);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &c, 1, n - 1), 1);
    close(fd);
}

/* The large files of all tests; ctime cannot be set, so wait once until they
 * are old enough to be remembered. */
enum { N_PROC = 4, N_EACH = 3 };
static char large[5][128], shared[N_PROC * N_EACH][128], medium[128];

static int setup(void **state)
{
    struct timespec t = { 2, 100000000 };
    char name[32];
    int i;

    (void)state;
    snprintf(root, sizeof root, "/tmp/cag-fp-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    snprintf(cache, sizeof cache, "%s/deep/cache", root);
    snprintf(memory, sizeof memory, "%s/fingerprints", cache);
    for (i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "large%d", i);
        make(large[i], name, LARGE, (char)('a' + i));
    }
    make(medium, "medium", 100 << 10, 'm');
    for (i = 0; i < N_PROC * N_EACH; i++) {
        snprintf(name, sizeof name, "shared%d", i);
        make(shared[i], name, LARGE, (char)i);
    }
    return nanosleep(&t, NULL);
}

static void plain(const char *path, uint8_t out[SHA256_SIZE])
{
    struct file_map m = { 0 };

    assert_int_equal(file_map(&m, path, NULL), CAG_OK);
    assert_int_equal(sha256_buf(m.data, m.size, out, NULL), CAG_OK);
    file_unmap(&m);
}

static bool is_plain(const char *path, const struct fingerprint_memory *mem)
{
    uint8_t a[SHA256_SIZE], b[SHA256_SIZE];
    cag_error err = CAG_ERROR_INIT;

    plain(path, a);
    assert_int_equal(fingerprint_file(path, mem, b, &err), CAG_OK);
    return memcmp(a, b, SHA256_SIZE) == 0;
}

static size_t n_record(const char *file)
{
    struct stat s;

    if (stat(file, &s) != 0)
        return 0;
    assert_int_equal((s.st_size - HEADER) % RECORD, 0);
    return (size_t)(s.st_size - HEADER) / RECORD;
}

/* Change one byte of record i; with a right check if sound. */
static void bend(const char *file, size_t i, size_t byte, bool sound)
{
    uint8_t rec[RECORD], check[8];
    int fd = open(file, O_RDWR);
    off_t off = (off_t)(HEADER + i * RECORD);

    assert_int_equal(pread(fd, rec, RECORD, off), RECORD);
    rec[byte] ^= 1;
    if (sound) {
        rd_put64(check, xxh3_64(rec, RECORD - 8));
        memcpy(rec + RECORD - 8, check, 8);
    }
    assert_int_equal(pwrite(fd, rec, RECORD, off), RECORD);
    close(fd);
}

static void hashes_small_files(void **state)
{
    struct fingerprint_memory mem = { cache, NULL, false, NULL, NULL, 0 };
    cag_error err = CAG_ERROR_INIT;
    uint8_t out[SHA256_SIZE];
    char path[128], hex[65];
    int fd;

    (void)state;
    snprintf(path, sizeof path, "%s/abc", root);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "abc", 3), 3);
    close(fd);
    assert_int_equal(fingerprint_file(path, NULL, out, &err), CAG_OK);
    hash_hex(out, SHA256_SIZE, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223"
                             "b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(fingerprint_file(path, &mem, out, &err), CAG_OK);
    assert_int_equal(n_record(memory), 0);
    assert_int_equal(fingerprint_file(root, &mem, out, &err), CAG_E_MISSING);
    assert_int_equal(fingerprint_file("/nonexistent", &mem, out, &err),
                     CAG_E_MISSING);
}

static void remembers_old_large_files(void **state)
{
    struct fingerprint_memory mem = { cache, NULL, false, NULL, NULL, 0 };
    struct fingerprint_memory full = { cache, NULL, true, NULL, NULL, 0 };
    const char *a = large[0], *b = large[1];
    char young[128];

    (void)state;
    make(young, "young", LARGE, 'y');
    assert_true(is_plain(young, &mem));
    assert_int_equal(n_record(memory), 0);
    assert_true(is_plain(a, &mem));
    assert_true(is_plain(b, &mem));
    assert_int_equal(n_record(memory), 2);
    assert_true(is_plain(a, &mem)); /* not twice */
    assert_int_equal(n_record(memory), 2);

    bend(memory, 0, 40, true); /* a wrong digest: it is used */
    assert_false(is_plain(a, &mem));
    assert_true(is_plain(a, &full)); /* but not by --verify full */
    assert_true(is_plain(a, &mem));  /* which has mended it */
    assert_int_equal(n_record(memory), 2);

    bend(memory, 0, 40, false); /* damage is ignored */
    assert_true(is_plain(b, &mem));
    bend(memory, 1, 95, false);
    assert_true(is_plain(a, &mem));
    assert_true(is_plain(b, &mem));
}

static void notices_changes(void **state)
{
    struct fingerprint_memory mem = { cache, NULL, false, NULL, NULL, 0 };
    struct timespec times[2];
    const char *a = large[2];
    struct stat s;
    int fd;

    (void)state;
    assert_true(is_plain(a, &mem));
    /* same size, same mtime, other content: ctime tells */
    assert_int_equal(stat(a, &s), 0);
    fd = open(a, O_WRONLY);
    assert_int_equal(pwrite(fd, "z", 1, 100), 1);
    times[0] = s.st_atim;
    times[1] = s.st_mtim;
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
    assert_true(is_plain(a, &mem));
}

/* Any damage to the file: right digests, and it is written anew. */
static void survives_damage(void **state)
{
    struct fingerprint_memory mem = { cache, NULL, false, NULL, NULL, 0 };
    static const off_t sizes[] = { 0, 1, 31, 32, 127, 1 << 20 };
    const char *a = large[3];
    size_t i;
    int fd;

    (void)state;
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_true(is_plain(a, &mem));
        assert_true(n_record(memory) >= 1);
        assert_int_equal(truncate(memory, sizes[i]), 0);
        assert_true(is_plain(a, &mem));
        assert_true(n_record(memory) >= 1);
    }
    fd = open(memory, O_WRONLY); /* another version */
    assert_int_equal(pwrite(fd, "\2", 1, 8), 1);
    close(fd);
    assert_true(is_plain(a, &mem));
    assert_int_equal(n_record(memory), 1);
}

static void uses_the_read_only_one(void **state)
{
    const char *a = large[4];
    char ro[96], file[128], path[128], none[96];
    struct fingerprint_memory mem = { NULL, NULL, false, NULL, NULL, 0 };

    (void)state;
    snprintf(ro, sizeof ro, "%s/ro", root);
    snprintf(file, sizeof file, "%s/fingerprints", ro);
    snprintf(none, sizeof none, "%s/a/file/is/no/directory", root);
    mem.dir = ro;
    assert_true(is_plain(a, &mem));
    assert_int_equal(n_record(file), 1);
    bend(file, 0, 40, true);
    mem.dir = NULL;
    mem.dir_ro = ro;
    assert_false(is_plain(a, &mem)); /* asked */
    mem.ignore = true;
    assert_true(is_plain(a, &mem));
    mem.ignore = false;
    assert_false(is_plain(a, &mem)); /* and never written */
    mem.dir_ro = NULL;
    assert_true(is_plain(a, &mem));
    make(path, "a", 1, 'x'); /* no place for the directory */
    mem.dir = none;
    assert_true(is_plain(a, &mem));
}

/* With a wrong digest planted in ro's memory, is it used? */
static bool believed(const char *a, const char *ro)
{
    struct fingerprint_memory mem = { NULL, ro, false, NULL, NULL, 0 };

    return !is_plain(a, &mem);
}

/* What another user can have written is not believed; nothing waits. */
static void believes_nobody_else(void **state)
{
    struct fingerprint_memory mem = { NULL, NULL, false, NULL, NULL, 0 };
    const char *a = large[4];
    char dir[96], file[128], lock[160];
    struct timespec begin, end;

    (void)state;
    snprintf(dir, sizeof dir, "%s/trust", root);
    snprintf(file, sizeof file, "%s/fingerprints", dir);
    snprintf(lock, sizeof lock, "%s.lock", file);
    mem.dir = dir;
    assert_true(is_plain(a, &mem));
    assert_int_equal(n_record(file), 1);
    bend(file, 0, 40, true);
    assert_true(believed(a, dir));
    assert_int_equal(chmod(file, 0620), 0);
    assert_false(believed(a, dir));
    assert_int_equal(chmod(file, 0602), 0);
    assert_false(believed(a, dir));
    assert_int_equal(chmod(file, 0644), 0);
    assert_true(believed(a, dir));
    assert_int_equal(chmod(dir, 0777), 0);
    assert_false(believed(a, dir));
    assert_int_equal(chmod(dir, 01777), 0);
    assert_false(believed(a, dir));
    assert_int_equal(chmod(dir, 0770), 0);
    assert_false(believed(a, dir));
    assert_int_equal(unlink(file), 0); /* nor is anything written there */
    assert_true(is_plain(a, &mem));
    assert_int_equal(n_record(file), 0);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_true(is_plain(a, &mem));
    assert_int_equal(n_record(file), 1);
    bend(file, 0, 40, true);
    if (chown(file, 65534, (gid_t)-1) == 0) { /* as root */
        assert_false(believed(a, dir));
        assert_int_equal(chown(file, 0, (gid_t)-1), 0);
        assert_true(believed(a, dir));
        assert_int_equal(chown(dir, 65534, (gid_t)-1), 0);
        assert_false(believed(a, dir));
        assert_int_equal(chown(dir, 0, (gid_t)-1), 0);
    }
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_true(is_plain(a, &mem));
    unlink(lock);
    assert_int_equal(symlink("/nowhere", lock), 0);
    assert_true(is_plain(a, &mem));
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(mkfifo(lock, 0600), 0);
    assert_true(is_plain(a, &mem));
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(end.tv_sec - begin.tv_sec < 30);
}

/* What is large is the caller's to say: a tokenizer.json is a model's. */
static void remembers_from_min_bytes_on(void **state)
{
    char dir[96], file[128];
    struct fingerprint_memory mem = { dir, NULL, false, NULL, NULL, 0 };

    (void)state;
    snprintf(dir, sizeof dir, "%s/min", root);
    snprintf(file, sizeof file, "%s/fingerprints", dir);
    assert_true(is_plain(medium, &mem));
    assert_int_equal(n_record(file), 0);
    mem.min_bytes = FINGERPRINT_MODEL_BYTES;
    assert_true(is_plain(medium, &mem));
    assert_int_equal(n_record(file), 1);
    bend(file, 0, 40, true);
    assert_false(is_plain(medium, &mem));
    mem.min_bytes = 1 << 20;
    assert_true(is_plain(medium, &mem));
}

/* Several processes, each with files of its own: nobody's record is lost. */
static void survives_writers(void **state)
{
    char dir[96], file[128];
    struct fingerprint_memory mem = { dir, NULL, false, NULL, NULL, 0 };
    int i, j, status;
    pid_t pid[N_PROC];

    (void)state;
    snprintf(dir, sizeof dir, "%s/shared", root);
    snprintf(file, sizeof file, "%s/fingerprints", dir);
    for (i = 0; i < N_PROC; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0) {
            uint8_t out[SHA256_SIZE];
            int bad = 0;

            for (j = 0; j < N_EACH; j++)
                bad |= fingerprint_file(shared[i * N_EACH + j], &mem, out,
                                        NULL) != CAG_OK;
            _exit(bad);
        }
    }
    for (i = 0; i < N_PROC; i++) {
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(n_record(file), N_PROC * N_EACH);
    for (i = 0; i < N_PROC * N_EACH; i++)
        assert_true(is_plain(shared[i], &mem));
    assert_int_equal(n_record(file), N_PROC * N_EACH);
}

static void identifies_models(void **state)
{
    static const char *const paths[] = {
        "tests/golden/models/llama.F16.gguf",
        "tests/golden/models/llama.Q4_1.gguf",
        "tests/golden/models/llama",
        "tests/golden/models/qwen3",
    };
    struct model_fingerprint f[4], again;
    cag_error err = CAG_ERROR_INIT;
    cag_model *m;
    size_t i, j;

    (void)state;
    for (i = 0; i < 4; i++) {
        assert_int_equal(
            cag_model_open(paths[i],
                           CAG_MODEL_NO_TOKENIZER | CAG_MODEL_NO_WEIGHTS, &m,
                           &err),
            CAG_OK);
        assert_int_equal(fingerprint_model(m, NULL, &f[i], &err), CAG_OK);
        cag_model_close(m);
        assert_int_equal(
            cag_model_open(paths[i], CAG_MODEL_NO_TOKENIZER, &m, &err), CAG_OK);
        assert_int_equal(fingerprint_model(m, NULL, &again, &err), CAG_OK);
        assert_memory_equal(&f[i], &again, sizeof again);
        cag_model_close(m);
        for (j = 0; j < i; j++)
            assert_memory_not_equal(f[i].weights, f[j].weights, SHA256_SIZE);
    }
    /* one configuration whatever the weights' type or the container */
    assert_memory_equal(f[0].config, f[1].config, SHA256_SIZE);
    assert_memory_equal(f[0].config, f[2].config, SHA256_SIZE);
    assert_memory_not_equal(f[0].config, f[3].config, SHA256_SIZE);
}

/* The digest must be that of the bytes that are mapped. */
static void notices_a_swapped_model(void **state)
{
    struct model_fingerprint f;
    cag_error err = CAG_ERROR_INIT;
    struct buf b = BUF_INIT;
    struct file_out o;
    char path[128];
    cag_model *m;

    (void)state;
    assert_int_equal(
        file_read("tests/golden/models/llama.F16.gguf", 1 << 20, &b, &err),
        CAG_OK);
    snprintf(path, sizeof path, "%s/m.gguf", root);
    assert_int_equal(file_out_open(&o, path, -1, &err), CAG_OK);
    assert_int_equal(file_out_write(&o, b.data, b.size, &err), CAG_OK);
    assert_int_equal(file_out_commit(&o, &err), CAG_OK);
    assert_int_equal(cag_model_open(path, CAG_MODEL_NO_TOKENIZER, &m, &err),
                     CAG_OK);
    assert_int_equal(fingerprint_model(m, NULL, &f, &err), CAG_OK);
    assert_int_equal(file_out_open(&o, path, -1, &err), CAG_OK);
    assert_int_equal(file_out_write(&o, b.data, b.size, &err), CAG_OK);
    assert_int_equal(file_out_commit(&o, &err), CAG_OK);
    assert_int_equal(fingerprint_model(m, NULL, &f, &err), CAG_E_CHANGED);
    cag_model_close(m);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_small_files),
        cmocka_unit_test(remembers_old_large_files),
        cmocka_unit_test(notices_changes),
        cmocka_unit_test(survives_damage),
        cmocka_unit_test(uses_the_read_only_one),
        cmocka_unit_test(believes_nobody_else),
        cmocka_unit_test(remembers_from_min_bytes_on),
        cmocka_unit_test(survives_writers),
        cmocka_unit_test(identifies_models),
        cmocka_unit_test(notices_a_swapped_model),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
