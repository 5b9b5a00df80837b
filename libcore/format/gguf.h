/*
 * gguf.h - reader of GGUF v2 and v3 files (little-endian).
 *
 * gguf_open maps the file and validates all of it but the tensor data: every
 * key, every string, every tensor's type, shape, offset and size lies inside
 * the file, before anything is handed out.  Views are valid until
 * gguf_close.
 */
#ifndef FORMAT_GGUF_H
#define FORMAT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"
#include "util/file.h"

/* Weight types, numbered as in GGUF; also used for safetensors data. */
enum gguf_type {
    GGUF_F32 = 0,
    GGUF_F16 = 1,
    GGUF_Q4_0 = 2,
    GGUF_Q4_1 = 3,
    GGUF_Q5_0 = 6,
    GGUF_Q5_1 = 7,
    GGUF_Q8_0 = 8,
    GGUF_Q4_K = 12,
    GGUF_Q5_K = 13,
    GGUF_Q6_K = 14,
    GGUF_BF16 = 30
};
const char *gguf_type_name(int type); /* "Q4_1"; "unknown"; static */
/* Block geometry; false for a type cag does not read. */
bool gguf_type_block(int type, int *block_elems, int *block_bytes);

enum gguf_value {
    GGUF_V_U8,
    GGUF_V_I8,
    GGUF_V_U16,
    GGUF_V_I16,
    GGUF_V_U32,
    GGUF_V_I32,
    GGUF_V_F32,
    GGUF_V_BOOL,
    GGUF_V_STR,
    GGUF_V_ARRAY,
    GGUF_V_U64,
    GGUF_V_I64,
    GGUF_V_F64
};
const char *gguf_value_name(int type); /* "u32"; "unknown"; static */
/* Bytes of one value; 0 for strings, arrays and unknown types. */
size_t gguf_value_size(int type);

struct gguf_str {
    const char *s;
    size_t n;
}; /* not NUL-terminated */

struct gguf_kv {
    struct gguf_str key;
    int type;            /* enum gguf_value */
    int elem_type;       /* of an array */
    uint64_t n_elem;     /* of an array */
    const uint8_t *data; /* value or first element, unaligned */
    size_t size;         /* bytes of value or of all elements */
};

struct gguf_tensor {
    const char *name; /* NUL-terminated copy, owned by the gguf */
    const char *file; /* that holds it, the same */
    int type;
    int n_dims;
    uint64_t dims[4]; /* dims[0] is the contiguous one; 1 beyond */
    const uint8_t *data;
    size_t size_bytes;
};

struct gguf;

/* Of a model in several files path is any one; all are opened, and must belong
 * together (gguf_split.c).  Keys are the first one's. */
cag_status gguf_open(const char *path, struct gguf **out, cag_error *err);
/* Same over memory (fuzzing); name is used in messages, data is borrowed. */
cag_status gguf_parse(const void *data, size_t size, const char *name,
                      struct gguf **out, cag_error *err);
void gguf_close(struct gguf *g);

const char *gguf_path(const struct gguf *g); /* of the keys */
size_t gguf_n_file(const struct gguf *g);    /* parts; 1 if not split */
const char *gguf_file(const struct gguf *g, size_t i);
/* What stat said when it was mapped; zeros after gguf_parse. */
const struct file_id *gguf_file_id(const struct gguf *g, size_t i);
/* Is path called like part *no (from 1) of *count > 1? */
bool gguf_part_name(const char *path, int *no, int *count);
size_t gguf_n_kv(const struct gguf *g);
const struct gguf_kv *gguf_kv_at(const struct gguf *g, size_t i);
size_t gguf_n_tensor(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i);
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g,
                                           const char *name);
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key);

/*
 * Typed values.  Any integer type is accepted for an integer in [min, max].
 * required: absent is CAG_E_FORMAT naming the key; else *out is unchanged
 * when absent.  Wrong type or range is always an error.
 */
cag_status gguf_get_int(const struct gguf *g, const char *key, bool required,
                        int64_t min, int64_t max, int64_t *out, cag_error *err);
cag_status gguf_get_float(const struct gguf *g, const char *key, bool required,
                          float *out, cag_error *err);
cag_status gguf_get_bool(const struct gguf *g, const char *key, bool required,
                         bool *out, cag_error *err);
cag_status gguf_get_str(const struct gguf *g, const char *key, bool required,
                        struct gguf_str *out, cag_error *err);
/* Array of strings: fills out[n_elem] (allocated with mem_, caller frees). */
cag_status gguf_get_strs(const struct gguf *g, const char *key, bool required,
                         struct gguf_str **out, size_t *n, cag_error *err);
/* Arrays of numbers, converted; allocated with mem_, the caller frees. */
cag_status gguf_get_floats(const struct gguf *g, const char *key, bool required,
                           float **out, size_t *n, cag_error *err);
cag_status gguf_get_ints(const struct gguf *g, const char *key, bool required,
                         int64_t **out, size_t *n, cag_error *err);

#endif
