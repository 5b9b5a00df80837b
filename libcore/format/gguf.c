/*
 * gguf.c - reader of GGUF v2 and v3.
 *
 *   | "GGUF" u32 version | u64 n_tensor | u64 n_kv |
 *   | n_kv x: string key, u32 type, value           |
 *   | n_tensor x: string name, u32 n_dims, u64 dims[], u32 type, u64 offset |
 *   | padding to general.alignment | tensor data    |
 *   string = u64 length, bytes.   array = u32 type, u64 n, elements.
 *
 * Every number is hostile.  Counts are believed only as far as the bytes
 * after them could hold so many entries (a key needs 14 bytes, a tensor
 * 33), so memory is bounded by a small multiple of the file's size; lengths
 * are compared with what is left before anything is touched; products are
 * overflow-checked.  When gguf_parse succeeds all accessors can run without
 * a check.
 */
#include "format/gguf_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/sniff.h"
#include "util/mem.h"
#include "util/rd.h"

#define MIN_KV_BYTES     14    /* 8 + 1 name, 4 type, 1 value              */
#define MIN_TENSOR_BYTES 33    /* 8 + 1 name, 4 n_dims, 8 dim, 4 type, 8   */
#define MAX_NAME         65535 /* the specification's limit on keys        */
#define MAX_ENTRY        (1u << 20)
#define MAX_DIM          ((uint64_t)1 << 48)
#define SHOWN            96 /* bytes of a name that a message shows     */

/* ---------------------------------------------------------------- parsing */

static const char *read_str(struct rd *r, const char *what, uint64_t max,
                            size_t *n)
{
    uint64_t len = rd_u64(r, what, 0, UINT64_MAX);

    *n = 0;
    if (r->status)
        return NULL;
    if (len > rd_left(r) || len > max) {
        rd_fail(r, CAG_E_FORMAT,
                "%s is %llu bytes long, but %llu are left in the file", what,
                (unsigned long long)len, (unsigned long long)rd_left(r));
        return NULL;
    }
    *n = (size_t)len;
    return (const char *)rd_bytes(r, what, *n);
}

static void bad_value(struct rd *r, const struct gguf_kv *kv, const char *what)
{
    char key[SHOWN];

    sniff_printable(key, sizeof key, kv->key.s, kv->key.n);
    rd_fail(r, CAG_E_FORMAT, "key %s: %s", key, what);
}

/* Elements of an array, or the one value; leaves r after them. */
static void read_elems(struct rd *r, struct gguf_kv *kv, int type, uint64_t n)
{
    size_t begin = r->pos, len, total;
    uint64_t i;

    if (type == GGUF_V_STR) {
        for (i = 0; i < n && !r->status; i++)
            read_str(r, "string value", SIZE_MAX, &len);
        total = r->pos - begin;
    } else if (n > rd_left(r) / gguf_value_size(type)) {
        char what[96];

        snprintf(what, sizeof what,
                 "%llu values of type %s do not fit the file",
                 (unsigned long long)n, gguf_value_name(type));
        bad_value(r, kv, what);
        return;
    } else {
        total = (size_t)n * gguf_value_size(type);
        rd_bytes(r, "value", total);
        for (i = 0; type == GGUF_V_BOOL && i < n && !r->status; i++)
            if (r->data[begin + i] > 1)
                bad_value(r, kv, "a bool is neither 0 nor 1");
    }
    kv->data = r->data + begin;
    kv->size = total;
}

static void read_kv(struct rd *r, struct gguf_kv *kv)
{
    kv->key.s = read_str(r, "key", MAX_NAME, &kv->key.n);
    if (r->status)
        return;
    if (kv->key.n == 0) {
        rd_fail(r, CAG_E_FORMAT, "a key without a name");
        return;
    }
    kv->type = (int)rd_u32(r, "value type", 0, GGUF_V_F64);
    kv->n_elem = 1;
    if (r->status)
        return;
    if (kv->type != GGUF_V_ARRAY) {
        read_elems(r, kv, kv->type, 1);
        return;
    }
    kv->elem_type = (int)rd_u32(r, "array type", 0, GGUF_V_F64);
    kv->n_elem = rd_u64(r, "array length", 0, UINT64_MAX);
    if (r->status)
        return;
    if (kv->elem_type == GGUF_V_ARRAY) {
        char key[SHOWN];

        sniff_printable(key, sizeof key, kv->key.s, kv->key.n);
        rd_fail(r, CAG_E_UNSUPPORTED, "key %s: an array of arrays", key);
        return;
    }
    read_elems(r, kv, kv->elem_type, kv->n_elem);
}

/* Shape and type -> size_bytes. */
static void size_tensor(struct rd *r, struct gguf_tensor *t, const char *name)
{
    int elems, bytes, i;
    size_t n = 1;

    if (!gguf_type_block(t->type, &elems, &bytes)) {
        rd_fail(r, CAG_E_UNSUPPORTED,
                "tensor %s has type %d (%s); cag reads F32 F16 BF16 Q8_0 "
                "Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K",
                name, t->type, gguf_type_name(t->type));
        return;
    }
    if (t->dims[0] % (unsigned)elems) {
        rd_fail(r, CAG_E_FORMAT,
                "tensor %s has rows of %llu elements, not a multiple of %d "
                "as %s needs",
                name, (unsigned long long)t->dims[0], elems,
                gguf_type_name(t->type));
        return;
    }
    for (i = 0; i < t->n_dims; i++)
        if (!mem_mul(&n, n, (size_t)t->dims[i]))
            n = SIZE_MAX;
    if (!mem_mul(&t->size_bytes, n / (unsigned)elems, (size_t)bytes))
        t->size_bytes = SIZE_MAX;
    if (t->size_bytes > r->size)
        rd_fail(r, CAG_E_FORMAT, "tensor %s is larger than the file", name);
}

static void read_tensor(struct rd *r, struct gguf *g, size_t i, cag_error *err)
{
    struct gguf_tensor *t = &g->tensor[i];
    char shown[SHOWN];
    const char *name;
    size_t n;
    int d;

    name = read_str(r, "tensor name", MAX_NAME, &n);
    if (r->status)
        return;
    sniff_printable(shown, sizeof shown, name, n);
    if (n == 0 || memchr(name, '\0', n)) {
        rd_fail(r, CAG_E_FORMAT, "tensor name \"%s\" is empty or holds a NUL",
                shown);
        return;
    }
    t->name = arena_strndup(&g->arena, name, n);
    if (!t->name) {
        r->status = cag_fail_nomem(err, "tensor name");
        return;
    }
    t->n_dims = (int)rd_u32(r, "n_dims", 1, 4);
    for (d = 0; d < 4; d++)
        t->dims[d] =
            d < t->n_dims ? rd_u64(r, "tensor dimension", 1, MAX_DIM) : 1;
    t->type = (int)rd_u32(r, "tensor type", 0, INT32_MAX);
    if (r->status)
        return;
    size_tensor(r, t, shown);
    g->off[i] = rd_u64(r, "tensor offset", 0, UINT64_MAX);
}

static int cmp_data(const void *a, const void *b)
{
    const struct gguf_tensor *x = *(struct gguf_tensor *const *)a;
    const struct gguf_tensor *y = *(struct gguf_tensor *const *)b;

    return (x->data > y->data) - (x->data < y->data);
}

/* Sorted indices; a name that occurs twice is refused. */
static cag_status index_keys(struct gguf *g, cag_error *err)
{
    char shown[SHOWN];
    size_t i;

    g->by_key = arena_array(&g->arena, g->n_kv + 1, sizeof *g->by_key);
    if (!g->by_key)
        return cag_fail_nomem(err, "GGUF keys");
    for (i = 0; i < g->n_kv; i++)
        g->by_key[i] = &g->kv[i];
    qsort(g->by_key, g->n_kv, sizeof *g->by_key, gguf_by_key);
    for (i = 1; i < g->n_kv; i++)
        if (gguf_by_key(&g->by_key[i - 1], &g->by_key[i]) == 0) {
            sniff_printable(shown, sizeof shown, g->by_key[i]->key.s,
                            g->by_key[i]->key.n);
            return cag_fail(err, CAG_E_FORMAT, g->path, -1,
                            "key %s occurs twice", shown);
        }
    return CAG_OK;
}

static cag_status index_tensors(struct gguf *g, cag_error *err)
{
    char shown[SHOWN];
    size_t i;

    g->by_name = arena_array(&g->arena, g->n_tensor + 1, sizeof *g->by_name);
    if (!g->by_name)
        return cag_fail_nomem(err, "GGUF tensors");
    for (i = 0; i < g->n_tensor; i++)
        g->by_name[i] = &g->tensor[i];
    qsort(g->by_name, g->n_tensor, sizeof *g->by_name, cmp_data);
    for (i = 1; i < g->n_tensor; i++) {
        const struct gguf_tensor *a = g->by_name[i - 1], *b = g->by_name[i];

        if ((size_t)(b->data - a->data) < a->size_bytes) {
            sniff_printable(shown, sizeof shown, b->name, strlen(b->name));
            return cag_fail(err, CAG_E_FORMAT, g->path, -1,
                            "the data of tensor %s overlaps another's", shown);
        }
    }
    qsort(g->by_name, g->n_tensor, sizeof *g->by_name, gguf_by_name);
    for (i = 1; i < g->n_tensor; i++)
        if (gguf_by_name(&g->by_name[i - 1], &g->by_name[i]) == 0) {
            sniff_printable(shown, sizeof shown, g->by_name[i]->name,
                            strlen(g->by_name[i]->name));
            return cag_fail(err, CAG_E_FORMAT, g->path, -1,
                            "tensor %s occurs twice", shown);
        }
    return CAG_OK;
}

/* Offsets -> pointers, once the alignment and the data section are known. */
static cag_status place_tensors(struct gguf *g, const uint8_t *data,
                                size_t size, size_t pos, cag_error *err)
{
    int64_t align = 32;
    cag_status st;
    size_t i, begin;

    st = gguf_get_int(g, "general.alignment", false, 0, INT64_MAX, &align, err);
    if (st)
        return st;
    if (align < 8 || align > (1 << 20) || (align & (align - 1)))
        return cag_fail(err, CAG_E_FORMAT, g->path, -1,
                        "general.alignment is %lld, expected a power of two "
                        "of at least 8",
                        (long long)align);
    begin = (pos + (size_t)align - 1) & ~((size_t)align - 1);
    for (i = 0; i < g->n_tensor; i++) {
        struct gguf_tensor *t = &g->tensor[i];
        char shown[SHOWN];

        sniff_printable(shown, sizeof shown, t->name, strlen(t->name));
        if (g->off[i] % (uint64_t)align)
            return cag_fail(err, CAG_E_FORMAT, g->path, -1,
                            "the offset of tensor %s is %llu, not a multiple "
                            "of the alignment %lld",
                            shown, (unsigned long long)g->off[i],
                            (long long)align);
        if (begin > size || g->off[i] > size - begin ||
            t->size_bytes > size - begin - g->off[i])
            return cag_fail(err, CAG_E_FORMAT, g->path, -1,
                            "the data of tensor %s (%llu bytes) lies beyond "
                            "the end of the file: the file is truncated or "
                            "its table is wrong",
                            shown, (unsigned long long)t->size_bytes);
        t->data = data + begin + g->off[i];
        t->file = g->path;
    }
    return CAG_OK;
}

static cag_status check_magic(const uint8_t *data, size_t size,
                              const char *name, cag_error *err)
{
    const char *kind;
    uint32_t version;

    if (size < 4 || memcmp(data, "GGUF", 4) != 0) {
        kind = size ? cag_file_kind(data, size) : "an empty file";
        if (kind)
            return cag_fail(err, CAG_E_FORMAT, name, -1,
                            "not a GGUF model but %s", kind);
        return cag_fail(err, CAG_E_FORMAT, name, 0,
                        "not a GGUF model: it "
                        "does not begin with the letters GGUF");
    }
    if (size < 24)
        return cag_fail(err, CAG_E_FORMAT, name, (int64_t)size,
                        "the file ends inside the GGUF header");
    version = rd_le32(data + 4);
    if (version != 2 && version != 3) {
        if (version == 0x02000000u || version == 0x03000000u)
            return cag_fail(err, CAG_E_UNSUPPORTED, name, 4,
                            "a big-endian GGUF file");
        return cag_fail(err, CAG_E_UNSUPPORTED, name, 4,
                        "GGUF version %u, cag reads 2 and 3",
                        (unsigned)version);
    }
    return CAG_OK;
}

static cag_status read_tables(struct gguf *g, struct rd *r, cag_error *err)
{
    uint64_t n_tensor, n_kv;
    size_t i;

    rd_seek(r, "header", 8);
    n_tensor = rd_u64(r, "n_tensors", 0, MAX_ENTRY);
    n_kv = rd_u64(r, "n_kv", 0, MAX_ENTRY);
    if (r->status)
        return r->status;
    if (n_kv > rd_left(r) / MIN_KV_BYTES ||
        n_tensor > (rd_left(r) - n_kv * MIN_KV_BYTES) / MIN_TENSOR_BYTES)
        return cag_fail(err, CAG_E_FORMAT, g->path, 8,
                        "%llu tensors and %llu keys do not fit a file of "
                        "%llu bytes",
                        (unsigned long long)n_tensor, (unsigned long long)n_kv,
                        (unsigned long long)r->size);
    g->n_kv = (size_t)n_kv;
    g->n_tensor = (size_t)n_tensor;
    g->kv = arena_array(&g->arena, g->n_kv + 1, sizeof *g->kv);
    g->tensor = arena_array(&g->arena, g->n_tensor + 1, sizeof *g->tensor);
    g->off = arena_array(&g->arena, g->n_tensor + 1, sizeof *g->off);
    if (!g->kv || !g->tensor || !g->off)
        return cag_fail_nomem(err, "GGUF tables");
    for (i = 0; i < g->n_kv && !r->status; i++)
        read_kv(r, &g->kv[i]);
    for (i = 0; i < g->n_tensor && !r->status; i++)
        read_tensor(r, g, i, err);
    return r->status;
}

cag_status gguf_parse(const void *data, size_t size, const char *name,
                      struct gguf **out, cag_error *err)
{
    struct gguf *g = NULL;
    struct rd r;
    cag_status st;

    st = check_magic(data, size, name, err);
    if (st)
        return st;
    g = mem_zalloc(sizeof *g);
    if (!g)
        return cag_fail_nomem(err, "GGUF reader");
    g->path = arena_strndup(&g->arena, name, strlen(name));
    if (!g->path) {
        st = cag_fail_nomem(err, "GGUF reader");
        goto out;
    }
    rd_init(&r, data, size, g->path, 0, err);
    st = read_tables(g, &r, err);
    if (st)
        goto out;
    st = index_keys(g, err);
    if (st)
        goto out;
    st = place_tensors(g, data, size, r.pos, err);
    if (st)
        goto out;
    st = index_tensors(g, err);
    if (st)
        goto out;
    *out = g;
    g = NULL;
out:
    gguf_close(g);
    return st;
}

cag_status gguf_open_one(const char *path, struct gguf **out, cag_error *err)
{
    struct file_map map = { 0 };
    cag_status st;

    st = file_map(&map, path, err);
    if (st)
        return st;
    st = gguf_parse(map.data, map.size, path, out, err);
    if (st)
        file_unmap(&map);
    else
        (*out)->map = map;
    return st;
}

void gguf_close(struct gguf *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_part; i++)
        gguf_close(g->part[i]);
    file_unmap(&g->map);
    arena_release(&g->arena);
    mem_free(g);
}
