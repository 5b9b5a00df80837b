/*
 * gguf_impl.h - an open GGUF: what gguf.c fills and gguf_get.c looks up.
 */
#ifndef FORMAT_GGUF_IMPL_H
#define FORMAT_GGUF_IMPL_H

#include "format/gguf.h"
#include "util/arena.h"
#include "util/file.h"

struct gguf {
    struct file_map map; /* zeroed when parsed from memory */
    struct arena arena;
    const char *path;
    size_t n_kv, n_tensor;
    struct gguf_kv *kv;
    struct gguf_tensor *tensor;
    struct gguf_kv **by_key; /* sorted, for look-up */
    struct gguf_tensor **by_name;
    uint64_t *off; /* [n_tensor] offset in the data section */
    /* the other files of a split model, by number; their tensors are in
     * tensor, too */
    struct gguf **part; /* [n_part] */
    int n_part;
};

/* One file, whatever it is a part of. */
cag_status gguf_open_one(const char *path, struct gguf **out, cag_error *err);

/* The orders of by_key and by_name, for qsort and bsearch. */
int gguf_by_key(const void *a, const void *b);
int gguf_by_name(const void *a, const void *b);

#endif
