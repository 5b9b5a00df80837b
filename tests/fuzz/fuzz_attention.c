/*
 * fuzz_attention.c - the section ATTN: what is read is written again, and is
 * the same.
 */
#include <string.h>

#include "kvc/kvc_attention.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct kvc_shape shape = { 30, 3, 64, KVC_CLASS_F16, 1000, 64 };
    struct arena a = { NULL };
    struct buf was = BUF_INIT, is = BUF_INIT;
    cag_kvc_attention *x = NULL;
    cag_error err = CAG_ERROR_INIT;
    jv *v = NULL;

    if (!jv_parse((const char *)data, size, NULL, &v, &err) &&
        !kvc_attention_from_json(v, "fuzz.kvc", &shape, &a, &x, &err)) {
        cag_kvc_attention *y = NULL;
        jv *w = NULL;

        if (kvc_attention_section(x, &shape, &was, &err) ||
            jv_parse(was.data, was.size, NULL, &w, &err) ||
            kvc_attention_from_json(w, NULL, &shape, &a, &y, &err) ||
            kvc_attention_section(y, &shape, &is, &err) ||
            was.size > KVC_ATTENTION_BOUND || was.size != is.size ||
            memcmp(was.data, is.data, is.size))
            __builtin_trap();
        jv_free(w);
    }
    buf_free(&was);
    buf_free(&is);
    jv_free(v);
    arena_release(&a);
    return 0;
}
