/*
 * kvc_member.c - see kvc_member.h.
 */
#include "kvc/kvc_member.h"

#include <stdio.h>
#include <string.h>

#include "util/error.h"

void kvc_f32_hex(float x, char hex[9])
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    snprintf(hex, 9, "%08x", (unsigned)bits);
}

bool kvc_f32_unhex(const char *hex, float *out)
{
    uint32_t bits = 0;

    if (strlen(hex) != 8)
        return false;
    for (int i = 0; i < 8; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *d = strchr(digits, hex[i]);

        if (!d)
            return false;
        bits = bits << 4 | (uint32_t)(d - digits);
    }
    memcpy(out, &bits, sizeof bits);
    return true;
}

void kvc_member_bad(struct kvc_members *r, const char *object, const char *name,
                    const char *expected)
{
    if (r->st)
        return;
    r->st = cag_fail(r->err, CAG_E_FORMAT, r->file, -1,
                     "%s: %s%s%s is missing or wrong, expected %s", r->section,
                     object, *object ? "." : "", name, expected);
}

int64_t kvc_member_int(struct kvc_members *r, const jv *o, const char *object,
                       const char *name, int64_t min, int64_t max)
{
    const jv *v = jv_get(o, name);
    char want[64];
    int64_t i = jv_int(v, min);

    if (jv_type(v) == JV_INT && i >= min && i <= max)
        return i;
    snprintf(want, sizeof want, "an integer in %lld..%lld", (long long)min,
             (long long)max);
    kvc_member_bad(r, object, name, want);
    return min;
}

float kvc_member_f32(struct kvc_members *r, const jv *o, const char *object,
                     const char *name, double min, double max)
{
    size_t n;
    const char *s = jv_str(jv_get(o, name), &n);
    float x = 0;
    char want[96];

    if (s && n == 8 && kvc_f32_unhex(s, &x) && (double)x >= min &&
        (double)x <= max)
        return x;
    snprintf(want, sizeof want, "8 hex digits of an f32 in %.4g..%.4g", min,
             max);
    kvc_member_bad(r, object, name, want);
    return 0;
}

const jv *kvc_member_object(struct kvc_members *r, const jv *v,
                            const char *name)
{
    const jv *o = jv_get(v, name);

    if (jv_type(o) != JV_OBJECT)
        kvc_member_bad(r, "", name, "an object");
    return o;
}
