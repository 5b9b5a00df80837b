/*
 * safetensors.h - reader of safetensors files, single or sharded.
 *
 * st_open takes a directory (model.safetensors, or
 * model.safetensors.index.json with its shards) or one file.  Everything but
 * the data is validated: header size, JSON, dtype, shape against offsets,
 * offsets inside the file and not overlapping.  Tensor data may be
 * unaligned.  A Git-LFS pointer is recognised and named.
 */
#ifndef FORMAT_SAFETENSORS_H
#define FORMAT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "util/error.h"
#include "util/file.h"

struct st_tensor {
    const char *name; /* owned by the reader */
    const char *file; /* shard it lies in, owned by the reader */
    int type;         /* GGUF_F32, GGUF_F16, GGUF_BF16 */
    int n_dims;
    uint64_t dims[4]; /* outermost first, as in the file */
    const uint8_t *data;
    size_t size_bytes;
};

struct st;

cag_status st_open(const char *path, struct st **out, cag_error *err);
cag_status st_parse(const void *data, size_t size, const char *name,
                    struct st **out, cag_error *err); /* one file, memory */
void st_close(struct st *s);
size_t st_n_tensor(const struct st *s);
const struct st_tensor *st_at(const struct st *s, size_t i);
const struct st_tensor *st_find(const struct st *s, const char *name);
/* The files behind it, in C order of their names. */
size_t st_n_file(const struct st *s);
const char *st_file(const struct st *s, size_t i);
/* What stat said when it was mapped; zeros after st_parse. */
const struct file_id *st_file_id(const struct st *s, size_t i);

#endif
