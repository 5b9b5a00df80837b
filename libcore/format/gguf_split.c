/*
 * gguf_split.c - a GGUF in several files, as llama.cpp's gguf-split writes it.
 *
 *   NAME-00001-of-00003.gguf   all keys; tensors, or none
 *   NAME-00002-of-00003.gguf   split.* keys alone; tensors
 *
 * Each file is a GGUF of its own that says which part it is: split.no (from
 * 0), split.count, split.tensors.count (of all parts).  The others are found
 * by the name, so name and keys must agree; the model may be opened by any
 * part.  What comes out is the first part with everybody's tensors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/gguf_impl.h"
#include "util/mem.h"
#include "util/sniff.h"

#define MAX_PART 1024
#define TAIL     "-00001-of-00001.gguf"

/* What a file says of the set it belongs to. */
struct place {
    int64_t no, count, n_tensor;
};

/* Five digits at s; -1 if they are not. */
static int number(const char *s)
{
    int n = 0;

    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        n = 10 * n + (s[i] - '0');
    }
    return n;
}

bool gguf_part_name(const char *path, int *no, int *count)
{
    size_t n = strlen(path), k = strlen(TAIL);
    const char *s = path + n - k;

    if (n <= k || s[-1] == '/' || s[0] != '-' || memcmp(s + 6, "-of-", 4) ||
        strcmp(s + 15, ".gguf"))
        return false;
    *no = number(s + 1);
    *count = number(s + 10);
    return *no >= 1 && *count > 1 && *no <= *count;
}

/* The name of part no of the set that path belongs to. */
static char *part_path(const char *path, int no)
{
    size_t n = strlen(path);
    char *name = mem_strdup(path), digits[12];

    if (name) {
        snprintf(digits, sizeof digits, "%05d", no);
        memcpy(name + n - strlen(TAIL) + 1, digits, 5);
    }
    return name;
}

static cag_status read_place(const struct gguf *g, struct place *p,
                             cag_error *err)
{
    cag_status st;

    *p = (struct place){ 0, 1, (int64_t)g->n_tensor };
    if (!gguf_find(g, "split.count"))
        return CAG_OK;
    st = gguf_get_int(g, "split.count", true, 0, MAX_PART, &p->count, err);
    if (!st && p->count > 1)
        st = gguf_get_int(g, "split.no", true, 0, p->count - 1, &p->no, err);
    if (!st && p->count > 1)
        st = gguf_get_int(g, "split.tensors.count", true, 0, INT32_MAX,
                          &p->n_tensor, err);
    return st;
}

/* Part no (from 1) of the set that path belongs to, parsed. */
static cag_status open_part(const char *path, int no, const struct place *set,
                            struct gguf **out, cag_error *err)
{
    char *name = part_path(path, no);
    struct gguf *g = NULL;
    struct place p;
    cag_status st;

    if (!name)
        return cag_fail_nomem(err, "GGUF parts");
    st = file_exists(name)
             ? gguf_open_one(name, &g, err)
             : cag_fail(err, CAG_E_MISSING, name, -1,
                        "part %d of %lld of the model is not there", no,
                        (long long)set->count);
    if (!st)
        st = read_place(g, &p, err);
    if (!st && (p.count != set->count || p.no != no - 1 ||
                p.n_tensor != set->n_tensor))
        st = cag_fail(err, CAG_E_FORMAT, name, -1,
                      "is a part of another model: it is part %lld of %lld "
                      "with %lld tensors in all, expected part %d of %lld with "
                      "%lld",
                      (long long)p.no + 1, (long long)p.count,
                      (long long)p.n_tensor, no, (long long)set->count,
                      (long long)set->n_tensor);
    mem_free(name);
    if (st)
        gguf_close(g);
    else
        *out = g;
    return st;
}

/* All tensors into one table, by name; twice is an error. */
static cag_status join_tensors(struct gguf *g, const struct place *set,
                               cag_error *err)
{
    size_t n = g->n_tensor, k = n;
    struct gguf_tensor *all;
    char shown[96];

    for (int i = 0; i < g->n_part; i++)
        n += g->part[i]->n_tensor;
    if (n != (size_t)set->n_tensor)
        return cag_fail(err, CAG_E_FORMAT, g->path, -1,
                        "its %lld parts hold %zu tensors, split.tensors.count "
                        "is %lld",
                        (long long)set->count, n, (long long)set->n_tensor);
    all = arena_array(&g->arena, n + 1, sizeof *all);
    g->by_name = arena_array(&g->arena, n + 1, sizeof *g->by_name);
    if (!all || !g->by_name)
        return cag_fail_nomem(err, "GGUF tensors");
    memcpy(all, g->tensor, k * sizeof *all);
    for (int i = 0; i < g->n_part; i++) {
        const struct gguf *p = g->part[i];

        memcpy(all + k, p->tensor, p->n_tensor * sizeof *all);
        k += p->n_tensor;
    }
    g->tensor = all;
    g->n_tensor = n;
    for (size_t i = 0; i < n; i++)
        g->by_name[i] = &all[i];
    qsort(g->by_name, n, sizeof *g->by_name, gguf_by_name);
    for (size_t i = 1; i < n; i++)
        if (gguf_by_name(&g->by_name[i - 1], &g->by_name[i]) == 0) {
            sniff_printable(shown, sizeof shown, g->by_name[i]->name,
                            strlen(g->by_name[i]->name));
            return cag_fail(err, CAG_E_FORMAT, g->by_name[i]->file, -1,
                            "tensor %s occurs in two parts", shown);
        }
    return CAG_OK;
}

/* The set that *one, opened from path, is a part of; *one is taken over. */
static cag_status open_set(const char *path, struct gguf **one,
                           const struct place *set, struct gguf **out,
                           cag_error *err)
{
    struct gguf *first = set->no == 0 ? *one : NULL;
    cag_status st = CAG_OK;

    if (!first)
        st = open_part(path, 1, set, &first, err);
    if (!st) {
        first->part = arena_array(&first->arena, (size_t)set->count - 1,
                                  sizeof *first->part);
        st = first->part ? CAG_OK : cag_fail_nomem(err, "GGUF parts");
    }
    for (int no = 2; !st && no <= set->count; no++) {
        struct gguf **slot = &first->part[first->n_part];

        if (no - 1 == set->no) {
            *slot = *one;
            *one = NULL;
        } else {
            st = open_part(path, no, set, slot, err);
        }
        if (!st)
            first->n_part++;
    }
    if (!st)
        st = join_tensors(first, set, err);
    if (set->no == 0)
        *one = NULL;
    if (st)
        gguf_close(first);
    else
        *out = first;
    return st;
}

cag_status gguf_open(const char *path, struct gguf **out, cag_error *err)
{
    struct gguf *g = NULL;
    struct place set;
    int no = 0, count = 0;
    cag_status st = gguf_open_one(path, &g, err);

    if (!st)
        st = read_place(g, &set, err);
    if (!st && set.count <= 1) {
        *out = g;
        return CAG_OK;
    }
    if (!st && (!gguf_part_name(path, &no, &count) || no != set.no + 1 ||
                count != set.count))
        st = cag_fail(err, CAG_E_FORMAT, path, -1,
                      "is part %lld of %lld of a model, so its name must end "
                      "in -%05lld-of-%05lld.gguf: the other parts are found "
                      "by it",
                      (long long)set.no + 1, (long long)set.count,
                      (long long)set.no + 1, (long long)set.count);
    if (!st)
        st = open_set(path, &g, &set, out, err);
    gguf_close(g);
    return st;
}

size_t gguf_n_file(const struct gguf *g)
{
    return (size_t)g->n_part + 1;
}

const char *gguf_file(const struct gguf *g, size_t i)
{
    return i ? g->part[i - 1]->path : g->path;
}

const struct file_id *gguf_file_id(const struct gguf *g, size_t i)
{
    return i ? &g->part[i - 1]->map.id : &g->map.id;
}
