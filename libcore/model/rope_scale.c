/*
 * rope_scale.c - inv_freq as transformers computes it.
 *
 * transformers works in f32 tensors with Python scalars: a scalar is rounded
 * to f32 when it meets a tensor, and `scalar / tensor` is a reciprocal times
 * the scalar.  Both are copied here step by step, because a last bit of
 * inv_freq times a position of 10^4 shows in the logits.  One step cannot be
 * copied: torch's powf is a vector routine within 1 ulp, which this code
 * replaces by pow in double rounded to f32, so single frequencies may differ
 * in the last bit (tests/unit/test_config.c counts them).
 *
 * llama3 is the scheme of Llama 3.1 (low frequencies divided, a smooth band
 * between); yarn is Peng et al. 2023, arXiv:2309.00071.  GGUF files carry
 * llama3 as a tensor of divisors instead of parameters.
 */
#include "model/rope_scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "util/hash.h"
#include "util/rd.h"

static const double pi = 3.14159265358979323846;

/* theta^(2i/d), and its reciprocal: the two tensors everything starts from */
static float pos_freq(const struct rope_spec *s, int i, int d)
{
    float e = (float)(2 * i) / (float)d;

    return (float)pow((double)(float)s->theta, (double)e);
}

static float llama3_freq(const struct rope_spec *s, float f)
{
    float factor = (float)s->factor, low = (float)s->low_freq;
    float wavelen = 1.0f / f * (float)(2.0 * pi);
    float smooth, a;

    if (wavelen > (float)(s->orig_ctx / s->low_freq))
        return f / factor;
    if (wavelen < (float)(s->orig_ctx / s->high_freq))
        return f;
    smooth = 1.0f / wavelen * (float)s->orig_ctx - low;
    smooth /= (float)(s->high_freq - s->low_freq);
    a = (1.0f - smooth) * f / factor;
    return a + smooth * f;
}

static double yarn_dim(const struct rope_spec *s, double rotations, int d)
{
    return d * log(s->orig_ctx / (rotations * 2.0 * pi)) /
           (2.0 * log(s->theta));
}

static double yarn_mscale(double scale, double mscale)
{
    return scale <= 1.0 ? 1.0 : 0.1 * mscale * log(scale) + 1.0;
}

static void yarn(const struct rope_spec *s, struct model_config *c)
{
    double low = yarn_dim(s, s->beta_fast, c->d_head);
    double high = yarn_dim(s, s->beta_slow, c->d_head);
    double attention = s->attention_factor;
    int i;

    if (s->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0.0 ? low : 0.0;
    high = high < c->d_head - 1 ? high : c->d_head - 1;
    if (low == high)
        high += 0.001;
    for (i = 0; i < c->d_head / 2; i++) {
        float p = pos_freq(s, i, c->d_head);
        float extra = 1.0f / p, inter = 1.0f / ((float)s->factor * p);
        float ramp = ((float)i - (float)low) / (float)(high - low);
        float keep, a, b;

        ramp = ramp < 0.0f ? 0.0f : ramp > 1.0f ? 1.0f : ramp;
        keep = 1.0f - ramp;
        a = inter * (1.0f - keep);
        b = extra * keep;
        c->inv_freq[i] = a + b;
    }
    if (attention == 0.0) {
        if (s->mscale != 0.0 && s->mscale_all != 0.0)
            attention = yarn_mscale(s->factor, s->mscale) /
                        yarn_mscale(s->factor, s->mscale_all);
        else
            attention = yarn_mscale(s->factor, 1.0);
    }
    c->rope_mscale = (float)attention;
}

static bool positive(double v)
{
    return isfinite(v) && v > 0.0;
}

static cag_status check(const struct rope_spec *s, const char *file,
                        cag_error *err)
{
    if (!positive(s->theta) || s->theta <= 1.0)
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "rope theta is %g, expected more than 1", s->theta);
    if (s->kind != ROPE_DEFAULT && !positive(s->factor))
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "rope scaling factor is %g, expected more than 0",
                        s->factor);
    if (s->kind == ROPE_LLAMA3 || s->kind == ROPE_YARN)
        if (!positive(s->orig_ctx))
            return cag_fail(err, CAG_E_FORMAT, file, -1,
                            "rope scaling's original context length is %g, "
                            "expected more than 0",
                            s->orig_ctx);
    if (s->kind == ROPE_LLAMA3 &&
        (!positive(s->low_freq) || !positive(s->high_freq) ||
         s->low_freq >= s->high_freq))
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "low_freq_factor %g and high_freq_factor %g, "
                        "expected 0 < low < high",
                        s->low_freq, s->high_freq);
    if (s->kind == ROPE_YARN &&
        (!positive(s->beta_fast) || !positive(s->beta_slow) ||
         !isfinite(s->attention_factor) || s->attention_factor < 0.0 ||
         !isfinite(s->mscale) || !isfinite(s->mscale_all)))
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "yarn's beta_fast %g, beta_slow %g or attention "
                        "factor %g is out of range",
                        s->beta_fast, s->beta_slow, s->attention_factor);
    return CAG_OK;
}

static cag_status divide(const struct rope_spec *s, const char *file,
                         struct model_config *c, cag_error *err)
{
    int i;

    for (i = 0; i < c->d_head / 2; i++) {
        uint32_t bits = rd_le32(s->divisor + 4 * (size_t)i);
        float f;

        memcpy(&f, &bits, sizeof f);
        if (!isfinite(f) || f <= 0.0f)
            return cag_fail(err, CAG_E_FORMAT, file, -1,
                            "tensor rope_freqs.weight: element %d is %g, "
                            "expected more than 0",
                            i, (double)f);
        c->inv_freq[i] /= f;
    }
    return CAG_OK;
}

/* What is computed, not how it was written down: equal for both containers. */
static void describe(const struct rope_spec *s, struct model_config *c)
{
    uint8_t le[4 * MODEL_MAX_D_HEAD / 2];
    uint32_t bits;
    int i, n = c->d_head / 2;

    for (i = 0; i < n; i++) {
        memcpy(&bits, &c->inv_freq[i], sizeof bits);
        rd_put32(le + 4 * i, bits);
    }
    memcpy(&bits, &c->rope_mscale, sizeof bits);
    snprintf(c->rope_text, sizeof c->rope_text,
             "half-split d_head=%d theta=%.9g mscale=%08x "
             "inv_freq=xxh3:%016llx",
             c->d_head, (double)(float)s->theta, (unsigned)bits,
             (unsigned long long)xxh3_64(le, 4 * (size_t)n));
}

cag_status rope_scale(const struct rope_spec *s, const char *file,
                      struct model_config *c, cag_error *err)
{
    cag_status st = check(s, file, err);
    int i;

    if (st)
        return st;
    c->rope_mscale = 1.0f;
    if (s->kind == ROPE_YARN) {
        yarn(s, c);
    } else {
        for (i = 0; i < c->d_head / 2; i++) {
            float f = 1.0f / pos_freq(s, i, c->d_head);

            if (s->kind == ROPE_LINEAR)
                f /= (float)s->factor;
            else if (s->kind == ROPE_LLAMA3)
                f = llama3_freq(s, f);
            c->inv_freq[i] = f;
        }
        if (s->divisor) {
            st = divide(s, file, c, err);
            if (st)
                return st;
        }
    }
    for (i = 0; i < c->d_head / 2; i++)
        if (!isfinite(c->inv_freq[i]))
            return cag_fail(err, CAG_E_FORMAT, file, -1,
                            "the rope parameters give a frequency that is "
                            "not finite");
    describe(s, c);
    return CAG_OK;
}
