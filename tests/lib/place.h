/*
 * place.h - a tiny model with a cache of each kind, the views that sessions
 * of it take, and what they mean to the transformer in double.  Include
 * nothing before.
 */
#ifndef TESTS_PLACE_H
#define TESTS_PLACE_H

#include "tests/lib/kvc_fixture.h"
#include "tests/lib/mtest.h"

#include "tests/lib/plain.h"

enum { N_QUESTION = 13, N_STEP = 4, N_OUT = N_STEP + 1, MORE = 64 };

/* Ranges as tokens before the end (negative) or from the beginning. */
struct view {
    const char *name;
    int n;
    struct token_range range[6];
};

static const struct view views[] = {
    { "all", 1, { { 0, 0 } } },
    { "none", 0, { { 0, 0 } } },
    { "first", 1, { { 0, 1 } } },
    { "last", 1, { { -1, 0 } } },
    { "a token", 1, { { 33, 34 } } },
    { "two ends", 2, { { 0, 20 }, { -9, 0 } } },
    { "ranges", 4, { { 0, 3 }, { 5, 6 }, { 17, 47 }, { -13, -2 } } },
    { "a tile", 1, { { 128, 192 } } },
    { "the last span", 1, { { 1030, 1100 } } },
    { "holes",
      5,
      { { 1, 63 }, { 64, 66 }, { 129, 400 }, { 1023, 1025 }, { 1090, 1091 } } },
};
enum { N_VIEW = sizeof views / sizeof views[0] };

/* The ranges of a view that lie in n tokens. */
static inline int ranges_of(const struct view *v, int n,
                            struct token_range *out)
{
    int n_out = 0, end = 0;

    for (int i = 0; i < v->n; i++) {
        struct token_range r = v->range[i];

        r.from = r.from < 0 ? n + r.from : r.from;
        r.to = r.to <= 0 ? n + r.to : r.to;
        r.to = r.to < n ? r.to : n;
        r.from = r.from > end ? r.from : end;
        if (r.from >= r.to)
            continue;
        end = r.to;
        out[n_out++] = r;
    }
    return n_out;
}

static inline void set_view(cag_session *s, const struct view *v, int n)
{
    struct token_range r[6];
    int n_range = ranges_of(v, n, r);

    OK(session_set_view(s, r, n_range, err));
}

struct setup {
    const char *model;
    cag_precision precision;
    bool kv_f32;
    const char *codec;
    double tolerance; /* of a logit, of the largest one */
};

static const struct setup setups[] = {
    { "models/llama3.F16.gguf", CAG_PRECISION_EXACT, true, "f32", 2e-5 },
    { "models/qwen3.F16.gguf", CAG_PRECISION_DEFAULT, false, "f16", 4e-3 },
    { "models/mistral.F16.gguf", CAG_PRECISION_EXACT, false, "f16z", 6e-3 },
    { "models/llama3.F16.gguf", CAG_PRECISION_EXACT, false, "q8h", 8e-2 },
    { "models/llama-yarn.F32.gguf", CAG_PRECISION_FAST, false, "f16", 8e-2 },
    { "models/qwen3.F16.gguf", CAG_PRECISION_FAST, false, "q8h", 0.15 },
};
enum { N_SETUP = sizeof setups / sizeof setups[0] };

/* A model, its ids, a cache of the first n. */
struct place {
    const struct setup *u;
    cag_model *m;
    cag_kvc *k;
    int n, n_vocab;
    int32_t ids[2200];
    char *path;
};

static inline void place_open(struct place *x, const struct setup *u, int n)
{
    cag_engine *e;
    cag_session *s;

    x->u = u;
    x->n = n;
    x->m = mt_model(u->model);
    x->n_vocab = mt_vocab(x->m);
    x->path = fix_place();
    assert_non_null(x->path);
    mt_ids(x->ids, n + MORE, 21, x->n_vocab);
    e = mt_engine(x->m, 2, 0, u->precision, u->kv_f32);
    if (strcmp(u->codec, "q8h") == 0) {
        s = mt_balanced(e, x->ids, n, 0);
    } else {
        s = mt_session(e, NULL, n);
        OK(cag_session_prefill(s, x->ids, n, NULL, err));
    }
    x->k = mt_cache(s, x->m, n, u->codec, 64, x->path);
    cag_session_free(s);
    cag_engine_free(e);
}

static inline void place_close(struct place *x)
{
    cag_kvc_close(x->k);
    cag_model_close(x->m);
    fix_displace(x->path);
}

static inline cag_engine *engine_of(const struct place *x, int n_thread,
                                    int rows)
{
    return mt_engine(x->m, n_thread, rows, x->u->precision, x->u->kv_f32);
}

struct plain_view {
    int n, n_range;
    struct token_range range[6];
};

/* The prefix was read whole; what comes after it sees itself and the view. */
static inline bool sees(const void *ctx, int q, int k)
{
    const struct plain_view *v = ctx;

    if (q < v->n || k >= v->n)
        return true;
    for (int i = 0; i < v->n_range; i++)
        if (k >= v->range[i].from && k < v->range[i].to)
            return true;
    return false;
}

#endif
