/*
 * kvc_impl.h - an open cache from the inside.
 *
 * Everything but `lazy` is written once by kvc_parse and then only read, so
 * that any number of threads may use it.  lazy holds what is made on demand
 * behind a lock: decoders that are idle, and the tokenizer.
 */
#ifndef KVC_KVC_IMPL_H
#define KVC_KVC_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kvc/kvc_codec.h"
#include "kvc/kvc_meta.h"
#include "kvc/kvc_read.h"
#include "kvc/kvc_write.h"
#include "util/file.h"

struct kvc_section {
    char name[5];
    bool required;
    uint64_t off, size;
    uint8_t sha256[SHA256_SIZE];
};

#define KVC_MAX_IDLE 64 /* decoders kept for the next chunk */

struct kvc_lazy {
    pthread_mutex_t lock;
    struct kvc_coder *idle[KVC_MAX_IDLE];
    int n_idle;
    cag_tokenizer *tok;
    void *tok_copy;        /* TKNZ, when its memory is not aligned */
    atomic_uchar *checked; /* [chunks of the file] 1: was intact   */
    atomic_bool verified;  /* by cag_kvc_verify                    */
};

struct cag_kvc {
    const uint8_t *data;
    size_t size;
    const char *name;    /* for messages, in the arena */
    struct file_map map; /* zero when parsed from memory */
    struct kvc_told told;
    struct arena arena;
    struct kvc_section section[KVC_MAX_SECTION];
    int n_section;
    const struct kvc_section *core[KVC_N_CORE];
    jv *meta, *srcs, *prmt;
    cag_kvc_info info;
    cag_kvc_source *source; /* [info.n_source] */
    char *text;             /* [text_size] and a NUL */
    size_t text_size;
    int32_t *ids;    /* [shape.n_tok] */
    int64_t *id_off; /* [shape.n_tok] */
    struct kvc_shape shape;
    enum kvc_codec codec;
    struct kvc_lazy *lazy;
    cag_kvc_receipt *receipt;     /* of a lossy codec; in the arena */
    cag_kvc_attention *attention; /* or NULL; in the arena */
    bool is_draft;                /* being written: no receipt yet */
};

/* One entry of CHNK; was checked when the file was opened. */
struct kvc_chunk_ref {
    const uint8_t *stored; /* in the map */
    uint64_t off;          /* in the file */
    size_t n_stored, n_raw;
    uint64_t xxh3;
    const uint8_t *sha256;
};
void kvc_chunk_ref(const cag_kvc *k, int layer, int chunk,
                   struct kvc_chunk_ref *out);
/* CAG_E_CORRUPT: a chunk is damaged; what says how, and the message ends with
 * the command that repairs it. */
cag_status kvc_fail_damaged(const cag_kvc *k, uint64_t off, int layer,
                            int chunk, const char *what, cag_error *err);
/* The two steps of kvc_parse; k->data, size and name are set. */
cag_status kvc_read_header(cag_kvc *k, cag_error *err);
cag_status kvc_read_sections(cag_kvc *k, cag_error *err);
/* NULL if the file has none of that name. */
const struct kvc_section *kvc_find_section(const cag_kvc *k, const char *name);
/* kvc_parse of a file whose receipt is still to be measured. */
cag_status kvc_parse_draft(const void *data, size_t size, const char *name,
                           cag_kvc **out, cag_error *err);
struct kvc_lazy *kvc_lazy_new(void);
/* Releases lazy; NULL is fine. */
void kvc_lazy_free(struct kvc_lazy *l);
/* Room to remember which chunks were checked; false when out of memory. */
bool kvc_lazy_chunks(struct kvc_lazy *l, size_t n_chunk);
/* An idle decoder or a new one, NULL when out of memory; give it back. */
struct kvc_coder *kvc_lazy_take(struct kvc_lazy *l);
void kvc_lazy_give(struct kvc_lazy *l, struct kvc_coder *c);

#endif
