/*
 * gguf_get.c - what an open GGUF holds: keys and tensors by name, and values
 * with the type and range asked for.
 */
#include "format/gguf_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/mem.h"
#include "util/rd.h"

/* ------------------------------------------------------------- look-up */

int gguf_by_key(const void *a, const void *b)
{
    const struct gguf_kv *x = *(struct gguf_kv *const *)a;
    const struct gguf_kv *y = *(struct gguf_kv *const *)b;
    size_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
    int c = memcmp(x->key.s, y->key.s, n);

    return c ? c : (x->key.n > y->key.n) - (x->key.n < y->key.n);
}

int gguf_by_name(const void *a, const void *b)
{
    const struct gguf_tensor *x = *(struct gguf_tensor *const *)a;
    const struct gguf_tensor *y = *(struct gguf_tensor *const *)b;

    return strcmp(x->name, y->name);
}

const char *gguf_path(const struct gguf *g)
{
    return g->path;
}

size_t gguf_n_kv(const struct gguf *g)
{
    return g->n_kv;
}

const struct gguf_kv *gguf_kv_at(const struct gguf *g, size_t i)
{
    return i < g->n_kv ? &g->kv[i] : NULL;
}

size_t gguf_n_tensor(const struct gguf *g)
{
    return g->n_tensor;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
    return i < g->n_tensor ? &g->tensor[i] : NULL;
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g,
                                           const char *name)
{
    struct gguf_tensor want = { .name = name }, *key = &want, **hit;

    hit = bsearch(&key, g->by_name, g->n_tensor, sizeof *g->by_name,
                  gguf_by_name);
    return hit ? *hit : NULL;
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *name)
{
    struct gguf_kv want = { .key = { name, strlen(name) } };
    struct gguf_kv *key = &want, **hit;

    hit = bsearch(&key, g->by_key, g->n_kv, sizeof *g->by_key, gguf_by_key);
    return hit ? *hit : NULL;
}

/* -------------------------------------------------------- typed values */

/* The value of key, or NULL with *st set: absent (an error if required). */
static const struct gguf_kv *need(const struct gguf *g, const char *key,
                                  bool required, cag_status *st, cag_error *err)
{
    const struct gguf_kv *kv = gguf_find(g, key);

    *st = CAG_OK;
    if (!kv && required)
        *st = cag_fail(err, CAG_E_FORMAT, gguf_path(g), -1, "key %s is missing",
                       key);
    return kv;
}

static cag_status wrong_type(const struct gguf *g, const char *key,
                             const struct gguf_kv *kv, const char *want,
                             cag_error *err)
{
    return cag_fail(
        err, CAG_E_FORMAT, gguf_path(g), -1,
        "key %s is of type %s%s, expected %s", key,
        kv->type == GGUF_V_ARRAY ? "array of " : "",
        gguf_value_name(kv->type == GGUF_V_ARRAY ? kv->elem_type : kv->type),
        want);
}

/* false: not an integer type, or a u64 above INT64_MAX (then *big) */
static bool load_int(const uint8_t *p, int type, int64_t *v, bool *big)
{
    *big = false;
    switch (type) {
    case GGUF_V_U8:
        *v = p[0];
        return true;
    case GGUF_V_I8:
        *v = (int8_t)p[0];
        return true;
    case GGUF_V_U16:
        *v = rd_le16(p);
        return true;
    case GGUF_V_I16:
        *v = (int16_t)rd_le16(p);
        return true;
    case GGUF_V_U32:
        *v = rd_le32(p);
        return true;
    case GGUF_V_I32:
        *v = (int32_t)rd_le32(p);
        return true;
    case GGUF_V_I64:
        *v = (int64_t)rd_le64(p);
        return true;
    case GGUF_V_U64:
        *v = (int64_t)rd_le64(p);
        *big = *v < 0;
        return !*big;
    default:
        return false;
    }
}

static bool load_float(const uint8_t *p, int type, float *v)
{
    uint64_t u64;
    uint32_t u32;
    double d;

    if (type == GGUF_V_F32) {
        u32 = rd_le32(p);
        memcpy(v, &u32, sizeof *v);
        return true;
    }
    if (type == GGUF_V_F64) {
        u64 = rd_le64(p);
        memcpy(&d, &u64, sizeof d);
        *v = (float)d;
        return true;
    }
    return false;
}

cag_status gguf_get_int(const struct gguf *g, const char *key, bool required,
                        int64_t min, int64_t max, int64_t *out, cag_error *err)
{
    const struct gguf_kv *kv;
    cag_status st;
    int64_t v;
    bool big;

    kv = need(g, key, required, &st, err);
    if (!kv)
        return st;
    if (!load_int(kv->data, kv->type, &v, &big) && !big)
        return wrong_type(g, key, kv, "an integer", err);
    if (big || v < min || v > max)
        return cag_fail(err, CAG_E_FORMAT, gguf_path(g), -1,
                        big ? "key %s is %llu, expected %lld..%lld"
                            : "key %s is %lld, expected %lld..%lld",
                        key, (long long)v, (long long)min, (long long)max);
    *out = v;
    return CAG_OK;
}

cag_status gguf_get_float(const struct gguf *g, const char *key, bool required,
                          float *out, cag_error *err)
{
    const struct gguf_kv *kv;
    cag_status st;
    float v;

    kv = need(g, key, required, &st, err);
    if (!kv)
        return st;
    if (!load_float(kv->data, kv->type, &v))
        return wrong_type(g, key, kv, "a float", err);
    if (!isfinite(v))
        return cag_fail(err, CAG_E_FORMAT, gguf_path(g), -1,
                        "key %s is not a finite number", key);
    *out = v;
    return CAG_OK;
}

cag_status gguf_get_bool(const struct gguf *g, const char *key, bool required,
                         bool *out, cag_error *err)
{
    const struct gguf_kv *kv;
    cag_status st;

    kv = need(g, key, required, &st, err);
    if (!kv)
        return st;
    if (kv->type != GGUF_V_BOOL)
        return wrong_type(g, key, kv, "a bool", err);
    *out = kv->data[0] != 0;
    return CAG_OK;
}

cag_status gguf_get_str(const struct gguf *g, const char *key, bool required,
                        struct gguf_str *out, cag_error *err)
{
    const struct gguf_kv *kv;
    cag_status st;

    kv = need(g, key, required, &st, err);
    if (!kv)
        return st;
    if (kv->type != GGUF_V_STR)
        return wrong_type(g, key, kv, "a string", err);
    out->s = (const char *)kv->data + 8;
    out->n = kv->size - 8;
    return CAG_OK;
}

cag_status gguf_get_strs(const struct gguf *g, const char *key, bool required,
                         struct gguf_str **out, size_t *n, cag_error *err)
{
    const struct gguf_kv *kv;
    struct gguf_str *v;
    const uint8_t *p;
    cag_status st;
    size_t i;

    kv = need(g, key, required, &st, err);
    if (!kv)
        return st;
    if (kv->type != GGUF_V_ARRAY || kv->elem_type != GGUF_V_STR)
        return wrong_type(g, key, kv, "an array of strings", err);
    v = mem_alloc_array((size_t)kv->n_elem + 1, sizeof *v);
    if (!v)
        return cag_fail_nomem(err, key);
    p = kv->data;
    for (i = 0; i < kv->n_elem; i++) {
        v[i].n = (size_t)rd_le64(p);
        v[i].s = (const char *)p + 8;
        p += 8 + v[i].n;
    }
    *out = v;
    *n = (size_t)kv->n_elem;
    return CAG_OK;
}

cag_status gguf_get_floats(const struct gguf *g, const char *key, bool required,
                           float **out, size_t *n, cag_error *err)
{
    const struct gguf_kv *kv;
    cag_status st;
    float *v;
    size_t i;

    kv = need(g, key, required, &st, err);
    if (!kv)
        return st;
    if (kv->type != GGUF_V_ARRAY ||
        (kv->elem_type != GGUF_V_F32 && kv->elem_type != GGUF_V_F64))
        return wrong_type(g, key, kv, "an array of floats", err);
    v = mem_alloc_array((size_t)kv->n_elem + 1, sizeof *v);
    if (!v)
        return cag_fail_nomem(err, key);
    for (i = 0; i < kv->n_elem; i++)
        load_float(kv->data + i * gguf_value_size(kv->elem_type), kv->elem_type,
                   &v[i]);
    *out = v;
    *n = (size_t)kv->n_elem;
    return CAG_OK;
}

cag_status gguf_get_ints(const struct gguf *g, const char *key, bool required,
                         int64_t **out, size_t *n, cag_error *err)
{
    const struct gguf_kv *kv;
    cag_status st;
    int64_t *v;
    size_t i;
    bool big;

    kv = need(g, key, required, &st, err);
    if (!kv)
        return st;
    if (kv->type != GGUF_V_ARRAY || kv->elem_type == GGUF_V_STR ||
        kv->elem_type == GGUF_V_F32 || kv->elem_type == GGUF_V_F64 ||
        kv->elem_type == GGUF_V_BOOL)
        return wrong_type(g, key, kv, "an array of integers", err);
    v = mem_alloc_array((size_t)kv->n_elem + 1, sizeof *v);
    if (!v)
        return cag_fail_nomem(err, key);
    for (i = 0; i < kv->n_elem; i++)
        if (!load_int(kv->data + i * gguf_value_size(kv->elem_type),
                      kv->elem_type, &v[i], &big)) {
            mem_free(v);
            return cag_fail(err, CAG_E_FORMAT, gguf_path(g), -1,
                            "key %s: element %zu is beyond 2^63", key, i);
        }
    *out = v;
    *n = (size_t)kv->n_elem;
    return CAG_OK;
}
