/*
 * rope_scale.h - rotary frequencies with their scaling applied; internal to
 * the config readers.
 */
#ifndef MODEL_ROPE_SCALE_H
#define MODEL_ROPE_SCALE_H

#include "model/config.h"

enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN };

struct rope_spec {
    enum rope_kind kind;
    double theta;
    double factor;               /* linear, llama3, yarn: > 0              */
    double orig_ctx;             /* llama3, yarn                           */
    double low_freq, high_freq;  /* llama3                                 */
    double beta_fast, beta_slow; /* yarn                                   */
    double attention_factor;     /* yarn; 0 = derive it from factor        */
    double mscale, mscale_all;   /* yarn; 0 = absent                       */
    bool truncate;               /* yarn                                   */
    /* [d_head / 2] divisors of the frequencies (GGUF's rope_freqs.weight,
     * unaligned f32), or NULL */
    const uint8_t *divisor;
};
#define ROPE_SPEC_INIT                                                       \
    {                                                                        \
        ROPE_DEFAULT, 10000.0, 1.0, 0.0, 0.0, 0.0, 32.0, 1.0, 0.0, 0.0, 0.0, \
            true, NULL                                                       \
    }

/*
 * Fill c->inv_freq, rope_mscale and rope_text; c->d_head is set.  file is
 * for messages.  CAG_E_FORMAT when a parameter makes no sense.
 */
cag_status rope_scale(const struct rope_spec *s, const char *file,
                      struct model_config *c, cag_error *err);

#endif
