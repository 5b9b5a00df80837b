/*
 * safetensors.c - reader of safetensors files.
 *
 *   | u64 header length | JSON header | tensor data |
 *   header: { "name": { "dtype": "BF16", "shape": [..],
 *                       "data_offsets": [begin, end] }, "__metadata__": .. }
 *   offsets count from the end of the header.
 *
 * A model of many files has an index, model.safetensors.index.json, whose
 * weight_map says which shard holds which tensor; it must agree with the
 * shards in both directions.  Writers may leave the data unaligned (MLX
 * does), so nothing here or after it casts a data pointer.
 *
 * The header is read only after its length was compared with the file's and
 * with the format's own limit of 100 MB; jansson's tree of it is the only
 * large allocation, some ten times the header.
 */
#include "format/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/gguf.h"
#include "util/sniff.h"
#include "util/arena.h"
#include "util/file.h"
#include "util/json.h"
#include "util/mem.h"
#include "util/rd.h"

#define MAX_HEADER ((uint64_t)100 * 1000 * 1000)
#define MAX_INDEX  ((size_t)100 * 1000 * 1000)
#define MAX_SHARD  4096
#define SHOWN      96

struct st_shard {
    char *name;       /* path, arena */
    const char *base; /* its last component, as the index says it */
    struct file_map map;
};

struct st {
    struct arena arena;
    struct st_shard *shard; /* [n_shard], in C order of their names */
    size_t n_shard;
    struct st_tensor *tensor; /* [n_tensor], sorted by name */
    size_t n_tensor;
};

static const struct {
    const char *name;
    int type, bytes;
} dtypes[] = {
    { "F32", GGUF_F32, 4 },
    { "F16", GGUF_F16, 2 },
    { "BF16", GGUF_BF16, 2 },
};

/* ------------------------------------------------------------ one tensor */

/* shape -> dims and the bytes they need */
static cag_status read_shape(const jv *v, struct st_tensor *t, int elem,
                             const char *shown, cag_error *err)
{
    size_t n = 1, i, n_dims = jv_count(v);

    if (jv_type(v) != JV_ARRAY)
        return cag_fail(err, CAG_E_FORMAT, t->file, -1, "tensor %s: no shape",
                        shown);
    if (n_dims > 4)
        return cag_fail(err, CAG_E_UNSUPPORTED, t->file, -1,
                        "tensor %s has %zu dimensions, cag reads up to 4",
                        shown, n_dims);
    for (i = 0; i < n_dims; i++) {
        const jv *d = jv_at(v, i);
        int64_t x = jv_int(d, -1);

        if (jv_type(d) != JV_INT || x < 0)
            return cag_fail(err, CAG_E_FORMAT, t->file, -1,
                            "tensor %s: dimension %zu is no whole number",
                            shown, i);
        t->dims[i] = (uint64_t)x;
        if (!mem_mul(&n, n, (size_t)x))
            return cag_fail(err, CAG_E_FORMAT, t->file, -1,
                            "tensor %s: its shape overflows", shown);
    }
    for (; i < 4; i++)
        t->dims[i] = 1;
    t->n_dims = (int)n_dims;
    if (!mem_mul(&t->size_bytes, n, (size_t)elem))
        return cag_fail(err, CAG_E_FORMAT, t->file, -1,
                        "tensor %s: its shape overflows", shown);
    return CAG_OK;
}

static cag_status read_offsets(const jv *v, struct st_tensor *t,
                               const uint8_t *data, size_t size,
                               const char *shown, cag_error *err)
{
    int64_t begin = jv_int(jv_at(v, 0), -1), end = jv_int(jv_at(v, 1), -1);

    if (jv_type(v) != JV_ARRAY || jv_count(v) != 2 || begin < 0 || end < 0)
        return cag_fail(err, CAG_E_FORMAT, t->file, -1,
                        "tensor %s: data_offsets are not two whole numbers",
                        shown);
    if (end < begin)
        return cag_fail(err, CAG_E_FORMAT, t->file, -1,
                        "tensor %s: data_offsets [%lld, %lld] are reversed",
                        shown, (long long)begin, (long long)end);
    if ((uint64_t)end > size)
        return cag_fail(err, CAG_E_FORMAT, t->file, -1,
                        "tensor %s: data_offsets [%lld, %lld] lie beyond the "
                        "%llu bytes of data: the file is truncated or its "
                        "header is wrong",
                        shown, (long long)begin, (long long)end,
                        (unsigned long long)size);
    if ((uint64_t)(end - begin) != t->size_bytes)
        return cag_fail(err, CAG_E_FORMAT, t->file, -1,
                        "tensor %s: data_offsets [%lld, %lld] hold %lld "
                        "bytes, its shape needs %llu",
                        shown, (long long)begin, (long long)end,
                        (long long)(end - begin),
                        (unsigned long long)t->size_bytes);
    t->data = data + begin;
    return CAG_OK;
}

static cag_status add_tensor(struct st *s, const char *file, const char *name,
                             size_t n, const jv *v, const uint8_t *data,
                             size_t size, cag_error *err)
{
    struct st_tensor *t = &s->tensor[s->n_tensor];
    const char *dtype = jv_get_str(v, "dtype", NULL);
    char shown[SHOWN];
    size_t i;
    cag_status st;

    sniff_printable(shown, sizeof shown, name, n);
    if (n == 0 || memchr(name, '\0', n))
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "tensor name \"%s\" is empty or holds a NUL", shown);
    t->file = file;
    t->name = arena_strndup(&s->arena, name, n);
    if (!t->name)
        return cag_fail_nomem(err, "tensor name");
    if (jv_type(v) != JV_OBJECT || !dtype)
        return cag_fail(err, CAG_E_FORMAT, file, -1, "tensor %s: no dtype",
                        shown);
    for (i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtype, dtypes[i].name) == 0)
            break;
    if (i == sizeof dtypes / sizeof *dtypes) {
        char type[32];

        sniff_printable(type, sizeof type, dtype, strlen(dtype));
        return cag_fail(err, CAG_E_UNSUPPORTED, file, -1,
                        "tensor %s has dtype %s; cag reads F32, F16 and BF16",
                        shown, type);
    }
    t->type = dtypes[i].type;
    st = read_shape(jv_get(v, "shape"), t, dtypes[i].bytes, shown, err);
    if (!st)
        st = read_offsets(jv_get(v, "data_offsets"), t, data, size, shown, err);
    if (!st)
        s->n_tensor++;
    return st;
}

/* ----------------------------------------------------------- one file */

static cag_status check_head(const uint8_t *data, size_t size, const char *file,
                             uint64_t *n_header, cag_error *err)
{
    const char *kind = size ? cag_file_kind(data, size) : "an empty file";

    if (kind && strcmp(kind, "a safetensors file") != 0)
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "not a safetensors file but %s", kind);
    if (size < 8)
        return cag_fail(err, CAG_E_FORMAT, file, (int64_t)size,
                        "the file ends inside the header length");
    *n_header = rd_le64(data);
    if (*n_header > MAX_HEADER)
        return cag_fail(err, CAG_E_FORMAT, file, 0,
                        "a header of %llu bytes; the format's limit is "
                        "100 MB",
                        (unsigned long long)*n_header);
    if (*n_header > size - 8)
        return cag_fail(err, CAG_E_FORMAT, file, 0,
                        "a header of %llu bytes in a file of %llu",
                        (unsigned long long)*n_header,
                        (unsigned long long)size);
    if (*n_header < 2 || data[8] != '{')
        return cag_fail(err, CAG_E_FORMAT, file, 8,
                        "the header does not begin with '{'");
    return CAG_OK;
}

static int cmp_data(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;

    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

static int cmp_name(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/*
 * The tensors of one file share its data out: none overlaps another, and
 * every byte belongs to one, as the format has it (a byte without an owner is
 * a cut header, or something smuggled in).  Empty ones may lie anywhere.
 */
static cag_status check_data(struct st_tensor *t, size_t n, const char *file,
                             const uint8_t *data, size_t size, cag_error *err)
{
    const uint8_t *at = data, *end = data + size;
    char shown[SHOWN];

    qsort(t, n, sizeof *t, cmp_data);
    for (size_t i = 0; i < n; i++) {
        if (!t[i].size_bytes)
            continue;
        if (t[i].data < at) {
            sniff_printable(shown, sizeof shown, t[i].name, strlen(t[i].name));
            return cag_fail(err, CAG_E_FORMAT, file, -1,
                            "the data of tensor %s overlaps another's", shown);
        }
        if (t[i].data > at) {
            end = t[i].data;
            break;
        }
        at += t[i].size_bytes;
    }
    if (at != end)
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "bytes %zu to %zu of the data belong to no tensor",
                        (size_t)(at - data), (size_t)(end - data) - 1);
    return CAG_OK;
}

static cag_status grow(struct st *s, size_t more, cag_error *err)
{
    struct st_tensor *p;
    size_t n;

    if (!mem_add(&n, s->n_tensor, more) || !mem_mul(&n, n, sizeof *p))
        return cag_fail_nomem(err, "safetensors table");
    p = mem_realloc(s->tensor, n);
    if (!p)
        return cag_fail_nomem(err, "safetensors table");
    s->tensor = p;
    return CAG_OK;
}

static cag_status add_file(struct st *s, const uint8_t *data, size_t size,
                           const char *file, cag_error *err)
{
    size_t first = s->n_tensor, n;
    uint64_t n_header = 0;
    jv *header = NULL;
    const char *name;
    cag_status st;
    void *it;

    st = check_head(data, size, file, &n_header, err);
    if (st)
        return st;
    st = jv_parse((const char *)data + 8, (size_t)n_header, file, &header, err);
    if (st)
        return st;
    st = grow(s, jv_count(header) + 1, err);
    data += 8 + n_header;
    size -= 8 + (size_t)n_header;
    for (it = jv_iter(header); it && !st; it = jv_next(header, it)) {
        name = jv_iter_key(it, &n);
        if (n == 12 && memcmp(name, "__metadata__", 12) == 0)
            continue;
        st = add_tensor(s, file, name, n, jv_iter_value(it), data, size, err);
    }
    jv_free(header);
    if (!st)
        st = check_data(s->tensor + first, s->n_tensor - first, file, data,
                        size, err);
    return st;
}

/* --------------------------------------------------------- whole models */

static cag_status sort_all(struct st *s, cag_error *err)
{
    char shown[SHOWN];
    size_t i;

    qsort(s->tensor, s->n_tensor, sizeof *s->tensor, cmp_name);
    for (i = 1; i < s->n_tensor; i++)
        if (cmp_name(&s->tensor[i - 1], &s->tensor[i]) == 0) {
            sniff_printable(shown, sizeof shown, s->tensor[i].name,
                            strlen(s->tensor[i].name));
            return cag_fail(err, CAG_E_FORMAT, s->tensor[i].file, -1,
                            "tensor %s occurs in two shards", shown);
        }
    return CAG_OK;
}

static cag_status new_reader(struct st **out, size_t n_shard, cag_error *err)
{
    struct st *s = mem_zalloc(sizeof *s);

    if (!s)
        return cag_fail_nomem(err, "safetensors reader");
    s->shard = arena_array(&s->arena, n_shard + 1, sizeof *s->shard);
    if (!s->shard) {
        st_close(s);
        return cag_fail_nomem(err, "safetensors reader");
    }
    *out = s;
    return CAG_OK;
}

/* Copy a path into the next shard slot. */
static cag_status name_shard(struct st *s, const char *path, cag_error *err)
{
    struct st_shard *f = &s->shard[s->n_shard];
    const char *slash;

    f->name = arena_strndup(&s->arena, path, strlen(path));
    if (!f->name)
        return cag_fail_nomem(err, "safetensors reader");
    slash = strrchr(f->name, '/');
    f->base = slash ? slash + 1 : f->name;
    s->n_shard++;
    return CAG_OK;
}

static cag_status map_shard(struct st *s, struct st_shard *f, cag_error *err)
{
    cag_status st = file_map(&f->map, f->name, err);

    return st ? st : add_file(s, f->map.data, f->map.size, f->name, err);
}

static int cmp_shard(const void *a, const void *b)
{
    const struct st_shard *x = a, *y = b;

    return strcmp(x->base, y->base);
}

/* The shards an index names, each once, in C order. */
static cag_status list_shards(struct st *s, const jv *map, const char *dir,
                              const char *index, cag_error *err)
{
    char shown[SHOWN];
    cag_status st;
    void *it;
    size_t i;

    for (it = jv_iter(map); it; it = jv_next(map, it)) {
        size_t n = 0;
        const char *name = jv_str(jv_iter_value(it), &n);
        char *path;

        if (!name || n == 0 || strlen(name) != n || strchr(name, '/')) {
            sniff_printable(shown, sizeof shown, name ? name : "", n);
            return cag_fail(err, CAG_E_FORMAT, index, -1,
                            "weight_map names the shard \"%s\", expected a "
                            "file name",
                            shown);
        }
        for (i = 0; i < s->n_shard; i++)
            if (strcmp(s->shard[i].base, name) == 0)
                break;
        if (i < s->n_shard)
            continue;
        if (s->n_shard == MAX_SHARD)
            return cag_fail(err, CAG_E_LIMIT, index, -1, "more than %d shards",
                            MAX_SHARD);
        path = file_join(dir, name);
        if (!path)
            return cag_fail_nomem(err, "safetensors reader");
        st = name_shard(s, path, err);
        mem_free(path);
        if (st)
            return st;
    }
    qsort(s->shard, s->n_shard, sizeof *s->shard, cmp_shard);
    return CAG_OK;
}

/* Index and shards must say the same. */
static cag_status check_index(const struct st *s, const jv *map,
                              const char *index, cag_error *err)
{
    char shown[SHOWN];
    void *it;
    size_t i;

    for (it = jv_iter(map); it; it = jv_next(map, it)) {
        size_t n;
        const char *name = jv_iter_key(it, &n);
        const char *shard = jv_str(jv_iter_value(it), NULL), *slash;
        const struct st_tensor *t = strlen(name) == n ? st_find(s, name) : NULL;

        slash = t ? strrchr(t->file, '/') : NULL;
        if (t && strcmp(slash ? slash + 1 : t->file, shard) == 0)
            continue;
        sniff_printable(shown, sizeof shown, name, n);
        return cag_fail(err, CAG_E_FORMAT, index, -1,
                        "tensor %s is not in the shard %s that the index "
                        "names",
                        shown, shard);
    }
    for (i = 0; i < s->n_tensor; i++)
        if (!jv_get(map, s->tensor[i].name)) {
            sniff_printable(shown, sizeof shown, s->tensor[i].name,
                            strlen(s->tensor[i].name));
            return cag_fail(err, CAG_E_FORMAT, s->tensor[i].file, -1,
                            "tensor %s is not in the index", shown);
        }
    return CAG_OK;
}

static cag_status open_index(const char *dir, const char *index,
                             struct st **out, cag_error *err)
{
    struct st *s = NULL;
    jv *root = NULL;
    const jv *map;
    cag_status st;
    size_t i;

    st = jv_parse_object(index, MAX_INDEX, &root, err);
    if (st)
        return st;
    map = jv_get(root, "weight_map");
    if (jv_type(map) != JV_OBJECT || !jv_count(map)) {
        st = cag_fail(err, CAG_E_FORMAT, index, -1, "no weight_map");
        goto out;
    }
    st = new_reader(&s, jv_count(map) < MAX_SHARD ? jv_count(map) : MAX_SHARD,
                    err);
    if (!st)
        st = list_shards(s, map, dir, index, err);
    for (i = 0; !st && i < s->n_shard; i++) {
        if (!file_exists(s->shard[i].name)) {
            st = cag_fail(err, CAG_E_MISSING, index, -1,
                          "the shard %s is missing", s->shard[i].base);
            break;
        }
        st = map_shard(s, &s->shard[i], err);
    }
    if (!st)
        st = sort_all(s, err);
    if (!st)
        st = check_index(s, map, index, err);
    if (!st) {
        *out = s;
        s = NULL;
    }
out:
    st_close(s);
    jv_free(root);
    return st;
}

/* The last step of opening one file, if the others went well. */
static cag_status hand_over(struct st *s, cag_status st, struct st **out,
                            cag_error *err)
{
    if (!st)
        st = sort_all(s, err);
    if (st)
        st_close(s);
    else
        *out = s;
    return st;
}

static cag_status open_file(const char *path, struct st **out, cag_error *err)
{
    struct st *s = NULL;
    cag_status st = new_reader(&s, 1, err);

    if (!st)
        st = name_shard(s, path, err);
    if (!st)
        st = map_shard(s, &s->shard[0], err);
    return hand_over(s, st, out, err);
}

cag_status st_parse(const void *data, size_t size, const char *name,
                    struct st **out, cag_error *err)
{
    struct st *s = NULL;
    cag_status st = new_reader(&s, 1, err);

    if (!st)
        st = name_shard(s, name, err);
    if (!st)
        st = add_file(s, data, size, s->shard[0].name, err);
    return hand_over(s, st, out, err);
}

cag_status st_open(const char *path, struct st **out, cag_error *err)
{
    char *single = NULL, *index = NULL;
    cag_status st;

    if (!file_is_dir(path))
        return open_file(path, out, err);
    single = file_join(path, "model.safetensors");
    index = file_join(path, "model.safetensors.index.json");
    if (!single || !index)
        st = cag_fail_nomem(err, "safetensors reader");
    else if (file_exists(single))
        st = open_file(single, out, err);
    else if (file_exists(index))
        st = open_index(path, index, out, err);
    else
        st = cag_fail(err, CAG_E_MISSING, path, -1,
                      "holds neither model.safetensors nor "
                      "model.safetensors.index.json");
    mem_free(single);
    mem_free(index);
    return st;
}

void st_close(struct st *s)
{
    size_t i;

    if (!s)
        return;
    for (i = 0; s->shard && i < s->n_shard; i++)
        file_unmap(&s->shard[i].map);
    mem_free(s->tensor);
    arena_release(&s->arena);
    mem_free(s);
}

size_t st_n_tensor(const struct st *s)
{
    return s->n_tensor;
}

const struct st_tensor *st_at(const struct st *s, size_t i)
{
    return i < s->n_tensor ? &s->tensor[i] : NULL;
}

const struct st_tensor *st_find(const struct st *s, const char *name)
{
    struct st_tensor key = { .name = name };

    return s->n_tensor ? bsearch(&key, s->tensor, s->n_tensor,
                                 sizeof *s->tensor, cmp_name)
                       : NULL;
}

size_t st_n_file(const struct st *s)
{
    return s->n_shard;
}

const char *st_file(const struct st *s, size_t i)
{
    return i < s->n_shard ? s->shard[i].name : NULL;
}

const struct file_id *st_file_id(const struct st *s, size_t i)
{
    return i < s->n_shard ? &s->shard[i].map.id : NULL;
}
