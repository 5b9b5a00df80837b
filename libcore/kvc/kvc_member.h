/*
 * kvc_member.h - members of a JSON section that holds figures: read by name,
 * with what the number may be.
 *
 * Nothing is shown or compared before it is known to be finite and in range.
 */
#ifndef KVC_KVC_MEMBER_H
#define KVC_KVC_MEMBER_H

#include <cag/error.h>

#include "util/json.h"

struct kvc_members {
    const char *file;    /* for messages, or NULL         */
    const char *section; /* "RCPT"                        */
    cag_error *err;
    cag_status st; /* the first failure; later ones are not told */
};

/* CAG_E_FORMAT: `name' of `object' ("" at the top) is missing or wrong. */
void kvc_member_bad(struct kvc_members *r, const char *object, const char *name,
                    const char *expected);
int64_t kvc_member_int(struct kvc_members *r, const jv *o, const char *object,
                       const char *name, int64_t min, int64_t max);
/* Not a number is in no range. */
float kvc_member_f32(struct kvc_members *r, const jv *o, const char *object,
                     const char *name, double min, double max);
const jv *kvc_member_object(struct kvc_members *r, const jv *v,
                            const char *name);

/* An f32 as 8 hex digits of its bits, as canonical JSON holds it. */
void kvc_f32_hex(float x, char hex[9]);
bool kvc_f32_unhex(const char *hex, float *out);

#endif
