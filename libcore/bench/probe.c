/*
 * probe.c - token ids in, greedy continuation and largest logits out.
 *
 * Nothing stands between the ids and the engine: no tokenizer, no template,
 * no cache.  When another implementation disagrees, this shows on which
 * side of the tokenizer the difference lies.
 */
#include <cag/tool/probe.h>

#include <limits.h>

#include "engine/engine.h"
#include "util/buf.h"
#include "util/error.h"
#include "util/file.h"
#include "util/json.h"
#include "util/mem.h"

#define MAX_BYTES ((size_t)64 << 20)

struct cag_probe_ids {
    int n_list;
    int *n;        /* [n_list] */
    int32_t **ids; /* [n_list] */
};

void cag_probe_free(cag_probe_ids *p)
{
    if (!p)
        return;
    for (int i = 0; p->ids && i < p->n_list; i++)
        mem_free(p->ids[i]);
    mem_free(p->ids);
    mem_free(p->n);
    mem_free(p);
}

int cag_probe_n_list(const cag_probe_ids *p)
{
    return p->n_list;
}

const int32_t *cag_probe_list(const cag_probe_ids *p, int i, int *n)
{
    *n = p->n[i];
    return p->ids[i];
}

static cag_status read_list(const jv *list, const char *path, int32_t **out,
                            int *n_out, cag_error *err)
{
    size_t n = jv_count(list);
    int32_t *ids;

    if (jv_type(list) != JV_ARRAY || n == 0 || n > INT_MAX)
        return cag_fail(err, CAG_E_FORMAT, path, -1,
                        "expected an array of token ids that is not empty");
    ids = mem_alloc_array(n, sizeof *ids);
    if (!ids)
        return cag_fail_nomem(err, "token ids");
    for (size_t i = 0; i < n; i++) {
        int64_t id = jv_int(jv_at(list, i), -1);
        if (id < 0 || id > INT32_MAX) {
            mem_free(ids);
            return cag_fail(err, CAG_E_FORMAT, path, -1,
                            "element %zu is not a token id", i);
        }
        ids[i] = (int32_t)id;
    }
    *out = ids;
    *n_out = (int)n;
    return CAG_OK;
}

static cag_status read_lists(cag_probe_ids *p, const jv *v, const char *path,
                             cag_error *err)
{
    bool nested = jv_type(jv_at(v, 0)) == JV_ARRAY;
    size_t n = nested ? jv_count(v) : 1;
    cag_status st = CAG_OK;

    if (n > INT_MAX)
        return cag_fail(err, CAG_E_LIMIT, path, -1, "too many lists");
    p->n = mem_alloc_array(n, sizeof *p->n);
    p->ids = mem_alloc_array(n, sizeof *p->ids);
    if (!p->n || !p->ids)
        return cag_fail_nomem(err, "token ids");
    p->n_list = (int)n;
    for (size_t i = 0; !st && i < n; i++)
        st = read_list(nested ? jv_at(v, i) : v, path, &p->ids[i], &p->n[i],
                       err);
    return st;
}

cag_status cag_probe_read(const char *path, cag_probe_ids **out, cag_error *err)
{
    struct buf b = BUF_INIT;
    cag_probe_ids *p = mem_zalloc(sizeof *p);
    jv *v = NULL;
    cag_status st;

    if (!p)
        return cag_fail_nomem(err, "token ids");
    st = file_read(path, MAX_BYTES, &b, err);
    if (!st)
        st = jv_parse(b.data ? b.data : "", b.size, path, &v, err);
    if (!st)
        st = read_lists(p, v, path, err);
    jv_free(v);
    buf_free(&b);
    if (st) {
        cag_probe_free(p);
        return st;
    }
    *out = p;
    return CAG_OK;
}

/* Insertion into the list of the best so far; fast while n_top is small. */
static void take_top(const float *logits, int n_vocab, int n_top,
                     cag_probe_logit *top)
{
    int n = 0;

    for (int32_t id = 0; n_top > 0 && id < n_vocab; id++) {
        int at = n;
        if (n == n_top && !(logits[id] > top[n - 1].logit))
            continue;
        while (at > 0 && logits[id] > top[at - 1].logit)
            at--;
        n += n < n_top;
        for (int i = n - 1; i > at; i--)
            top[i] = top[i - 1];
        top[at] = (cag_probe_logit){ id, logits[id] };
    }
}

static cag_status feed(cag_session *s, bool step, const int32_t *ids, int n_ids,
                       const float **logits, cag_error *err)
{
    cag_status st = CAG_OK;

    if (!step)
        return cag_session_prefill(s, ids, n_ids, logits, err);
    for (int i = 0; !st && i < n_ids; i++)
        st = cag_session_step(&s, &ids[i], 1, logits, err);
    return st;
}

void cag_probe_release(cag_probe_result *r)
{
    mem_free(r->next);
    mem_free(r->top);
    *r = (cag_probe_result){ NULL, 0, NULL, 0 };
}

static cag_status result_init(cag_probe_result *r, const cag_probe_opts *o,
                              int n_vocab, cag_error *err)
{
    cag_probe_release(r);
    r->n_next = o->n_next;
    r->n_top = o->n_top < n_vocab ? o->n_top : n_vocab;
    r->next = mem_alloc_array((size_t)r->n_next, sizeof *r->next);
    r->top = mem_alloc_array((size_t)r->n_top, sizeof *r->top);
    if (!r->next || !r->top)
        return cag_fail_nomem(err, "result of a probe");
    return CAG_OK;
}

cag_status cag_probe_run(cag_engine *e, const cag_probe_opts *o,
                         const int32_t *ids, int n_ids, cag_probe_result *r,
                         cag_error *err)
{
    static const cag_sampling greedy = CAG_SAMPLING_INIT;
    int n_vocab = e->model->config.n_vocab;
    int n_step = o->n_next > 1 ? o->n_next - 1 : 0;
    cag_session *s = NULL;
    cag_sampler *sampler = NULL;
    const float *logits = NULL;
    cag_status st;

    if (n_ids < 1 || o->n_next < 0 || o->n_top < 0 || n_ids > INT_MAX - n_step)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "%d ids, %d to continue with, %d logits", n_ids,
                        o->n_next, o->n_top);
    st = result_init(r, o, n_vocab, err);
    if (!st)
        st = cag_session_new(e, NULL, n_ids + n_step, &s, err);
    if (!st)
        st = cag_sampler_new(&greedy, n_vocab, &sampler, err);
    if (!st)
        st = feed(s, o->step, ids, n_ids, &logits, err);
    if (!st)
        take_top(logits, n_vocab, r->n_top, r->top);
    for (int i = 0; !st && i < o->n_next; i++) {
        r->next[i] = cag_sampler_pick(sampler, logits);
        if (i + 1 < o->n_next)
            st = cag_session_step(&s, &r->next[i], 1, &logits, err);
    }
    cag_sampler_free(sampler);
    cag_session_free(s);
    if (st)
        cag_probe_release(r);
    return st;
}
