/*
 * fingerprint.h - the SHA-256 identities that bind a cache to a model.
 *
 * Large files, and those of models, are hashed once and remembered in the
 * user's cache directory by (device, inode, size, mtime_ns, ctime_ns); a file
 * younger than two seconds is never remembered.  The memory is one file of
 * fixed-size records, replaced atomically under a lock: concurrent writers
 * lose nothing but time.
 */
#ifndef MODEL_FINGERPRINT_H
#define MODEL_FINGERPRINT_H

#include <stdbool.h>
#include <stdint.h>

#include <cag/model.h>

#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"

struct fingerprint_memory {
    const char *dir;    /* writable cache directory, or NULL: no memory  */
    const char *dir_ro; /* read-only one asked second, or NULL           */
    bool ignore;        /* --verify full: hash whatever is remembered    */
    /* called once for a file whose hash takes over a second, or NULL */
    void (*announce)(void *ctx, const char *path, uint64_t size_bytes);
    void *ctx;
    uint64_t min_bytes; /* smaller files are not remembered; 0 = 16 MiB  */
};

/* For min_bytes: below this, looking a digest up costs more than making it. */
#define FINGERPRINT_MODEL_BYTES ((uint64_t)64 << 10)

/* SHA-256 of one file's bytes; remembered unless small. */
cag_status fingerprint_file(const char *path,
                            const struct fingerprint_memory *mem,
                            uint8_t out[SHA256_SIZE], cag_error *err);

/* Changed so lately that another change would not show in its times. */
bool fingerprint_is_young(const struct file_id *id);

struct model_fingerprint {
    uint8_t weights[SHA256_SIZE]; /* of the weight files' digests         */
    uint8_t config[SHA256_SIZE];  /* of the canonical hyper-parameters    */
};
/* Remembers files from FINGERPRINT_MODEL_BYTES on, whatever mem says. */
cag_status fingerprint_model(const cag_model *m,
                             const struct fingerprint_memory *mem,
                             struct model_fingerprint *out, cag_error *err);

#endif
