/*
 * kvc_attention.h - the section ATTN: heads of the model that look where the
 * text says what comes next, and what they look like without it, as canonical
 * JSON (kvc(5)).  Who finds them: build/copy_heads.c.
 */
#ifndef KVC_KVC_ATTENTION_H
#define KVC_KVC_ATTENTION_H

#include <cag/kvc.h>

#include "kvc/kvc_format.h"
#include "util/arena.h"
#include "util/json.h"

#define KVC_ATTENTION_VERSION 1
#define KVC_MAX_COPY_HEAD     32
/* Bytes the section takes at most: a head takes 60. */
#define KVC_ATTENTION_BOUND   4096

cag_status kvc_attention_to_json(const cag_kvc_attention *a, jv **out,
                                 cag_error *err);
/*
 * What a file of this shape says, in the arena.  A member that is missing, of
 * another type or impossible is CAG_E_FORMAT, with its name.
 */
cag_status kvc_attention_from_json(const jv *v, const char *file,
                                   const struct kvc_shape *shape,
                                   struct arena *a, cag_kvc_attention **out,
                                   cag_error *err);

/* The bytes of the section, checked as a reader will.  CAG_E_USAGE. */
cag_status kvc_attention_section(const cag_kvc_attention *a,
                                 const struct kvc_shape *shape, struct buf *out,
                                 cag_error *err);
/*
 * Put another ATTN into the cache at path, in place of the one it has: the
 * same file else, written aside and renamed; identity and all other sections
 * stay what they are.  CAG_E_USAGE (a is not what a reader takes),
 * CAG_E_LOCKED while it is built, errors of cag_kvc_open, CAG_E_CREATE,
 * CAG_E_IO, CAG_E_NOMEM.
 */
cag_status kvc_set_attention(const char *path, const cag_kvc_attention *a,
                             double lock_timeout_s, cag_error *err);

#endif
