/*
 * config.c - what both config readers share: the relations that must hold
 * between the numbers whatever file they came from.
 */
#include "model/config_check.h"

cag_status config_check(const struct model_config *c, const char *file,
                        cag_error *err)
{
    if (c->d_head % 8 || c->d_head > MODEL_MAX_D_HEAD)
        return cag_fail(err, CAG_E_UNSUPPORTED, file, -1,
                        "a head size of %d, expected a multiple of 8 up to "
                        "%d",
                        c->d_head, MODEL_MAX_D_HEAD);
    if (c->n_head % c->n_kv_head)
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "%d attention heads do not divide into groups of %d "
                        "key/value heads",
                        c->n_head, c->n_kv_head);
    if (!(c->rms_eps >= 0.0f && c->rms_eps < 1.0f))
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "rms_norm_eps is %g, expected 0..1",
                        (double)c->rms_eps);
    return CAG_OK;
}

bool config_add_eos(struct model_config *c, int64_t id)
{
    int i;

    if (id < 0 || id >= c->n_vocab)
        return false;
    for (i = 0; i < c->n_eos; i++)
        if (c->eos[i] == id)
            return true;
    if (c->n_eos == MODEL_MAX_EOS)
        return false;
    c->eos[c->n_eos++] = (int32_t)id;
    return true;
}
