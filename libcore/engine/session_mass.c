/*
 * session_mass.c - whose attention is measured, and where it adds up.
 *
 * A backend adds the shares of a row to where the row says.  That is the
 * caller's sum, but for drafts: which of them stay is known after the step, so
 * each has room of its own until the next call says.
 */
#include <limits.h>
#include <string.h>

#include "engine/engine.h"
#include "util/error.h"
#include "util/mem.h"

cag_status engine_set_heads(cag_engine *e, const struct copy_head *head, int n,
                            cag_error *err)
{
    const struct model_config *c = &e->model->config;
    struct copy_head *copy = NULL;

    if (e->n_measured > 0)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "heads of an engine change while %d of its sessions "
                        "are measured",
                        e->n_measured);
    for (int i = 0; i < n; i++)
        if (head[i].layer < 0 || head[i].layer >= c->n_layer ||
            head[i].head < 0 || head[i].head >= c->n_head ||
            (i > 0 && (head[i].layer < head[i - 1].layer ||
                       (head[i].layer == head[i - 1].layer &&
                        head[i].head <= head[i - 1].head))))
            return cag_fail(err, CAG_E_USAGE, NULL, -1,
                            "head %d is %d.%d, expected ascending ones of %d "
                            "layers x %d",
                            i, head[i].layer, head[i].head, c->n_layer,
                            c->n_head);
    if (n > 0) {
        if (!e->backend->masses)
            return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                            "device %s does not measure attention; use "
                            "--device cpu",
                            cag_engine_device(e));
        copy = mem_alloc_array((size_t)n, sizeof *copy);
        if (!copy)
            return cag_fail_nomem(err, "heads of an engine");
        memcpy(copy, head, (size_t)n * sizeof *copy);
    }
    mem_free(e->head);
    e->head = copy;
    e->n_head = n;
    return CAG_OK;
}

bool engine_has_heads(const cag_engine *e, const struct copy_head *head, int n)
{
    bool same = e->n_head == n;

    for (int i = 0; same && i < n; i++)
        same = e->head[i].layer == head[i].layer &&
               e->head[i].head == head[i].head;
    return same;
}

static size_t sums(const cag_session *s)
{
    return (size_t)s->engine->n_head * (size_t)s->prefix->n_tok;
}

double *session_mass_row(cag_session *s, int t)
{
    double *at;

    if (!s->mass || t == 0)
        return s->mass;
    at = s->draft_mass + (size_t)(t - 1) * sums(s);
    memset(at, 0, sums(s) * sizeof *at);
    s->draft_pos = s->n_tok + 1;
    s->n_draft = t;
    return at;
}

double *session_mass_prompt(const cag_session *s, int i)
{
    return s->mass_rows ? s->mass + (size_t)i * sums(s) : s->mass;
}

void session_mass_settle(cag_session *s, int n_tok)
{
    const double *from = s->draft_mass;

    for (int i = 0; i < s->n_draft && s->draft_pos + i < n_tok; i++)
        for (size_t j = 0; j < sums(s); j++)
            s->mass[j] += *from++;
    s->n_draft = 0;
}

cag_status session_set_mass(cag_session *s, double *sum, cag_error *err)
{
    if (sum && (!s->prefix || s->engine->n_head == 0))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "mass of a session without a prefix, or of an engine "
                        "without heads");
    if (sum && !s->mass) {
        s->draft_mass = mem_alloc_array((CAG_STEP_MAX - 1) * sums(s),
                                        sizeof *s->draft_mass);
        if (!s->draft_mass)
            return cag_fail_nomem(err, "mass of a session");
        s->engine->n_measured++;
    }
    session_mass_settle(s, INT_MAX);
    if (!sum && s->mass) {
        mem_free(s->draft_mass);
        s->draft_mass = NULL;
        s->engine->n_measured--;
    }
    s->mass = sum;
    s->mass_rows = false;
    return CAG_OK;
}

cag_status session_set_mass_rows(cag_session *s, double *sum, cag_error *err)
{
    cag_status st = session_set_mass(s, sum, err);

    if (!st)
        s->mass_rows = true;
    return st;
}
