/*
 * kvc_receipt.h - the section RCPT: what a lossy codec lost, as canonical
 * JSON (kvc(5)).  Who measures it: build/measure_loss.c.
 */
#ifndef KVC_KVC_RECEIPT_H
#define KVC_KVC_RECEIPT_H

#include <cag/kvc.h>

#include "kvc/kvc_format.h"
#include "util/arena.h"
#include "util/json.h"

#define KVC_RECEIPT_VERSION 1 /* of q8h's coder */

/* The section of a measured receipt; codec is META's kv.codec. */
cag_status kvc_receipt_to_json(const cag_kvc_receipt *r, const char *codec,
                               int n_layer, jv **out, cag_error *err);
/*
 * The receipt of a file of this shape, in the arena.  A member that is
 * missing, of another type or impossible is CAG_E_FORMAT, with its name.
 */
cag_status kvc_receipt_from_json(const jv *v, const char *file,
                                 const char *codec,
                                 const struct kvc_shape *shape, struct arena *a,
                                 cag_kvc_receipt **out, cag_error *err);
/* Bytes the section takes at most. */
uint64_t kvc_receipt_bound(int n_layer);

#endif
