/*
 * sampler.c - from logits to an id.
 *
 * Greedy takes the highest logit, the lowest id among equals.  Otherwise the
 * filters run in the order transformers has: temperature; the top_k best;
 * of those the smallest set whose probability reaches top_p; of those the
 * ones with at least min_p times the best one's probability.  Equal weights
 * are ordered by id, so a filter's border is never a matter of luck.
 *
 * Everything is in double with an exp of our own and a generator of our own
 * (xoshiro256**, Blackman and Vigna 2018, seeded by splitmix64): the same
 * seed and row give the same ids on every machine.
 *
 * A heap over the candidates instead of a sort: usually a few dozen of a
 * hundred thousand ids survive the filters.
 */
#include "engine/sampler.h"

#include <cag/session.h>

#include <string.h>

#include "util/error.h"
#include "util/mem.h"
#include "util/real.h"

struct candidate {
    double w; /* exp((logit - max) / temperature) */
    int32_t id;
};

struct cag_sampler {
    cag_sampling p;
    int n_vocab;
    uint64_t state[4];
    struct candidate *heap; /* [n_vocab], NULL when greedy */
    struct candidate *kept; /* [n_vocab] */
};

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

/* uniform in [0, 1), 53 bits */
static double next_uniform(uint64_t s[4])
{
    uint64_t r = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return (double)(r >> 11) * 0x1p-53;
}

cag_status cag_sampler_new(const cag_sampling *p, int n_vocab,
                           cag_sampler **out, cag_error *err)
{
    cag_sampler *s;
    uint64_t seed;

    if (n_vocab < 1)
        return cag_fail(err, CAG_E_USAGE, NULL, -1, "empty vocabulary");
    if (!(p->temperature >= 0.0f && p->temperature <= 1e6f))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "temperature %g, expected 0 or more",
                        (double)p->temperature);
    if (p->top_k < 0 || !(p->top_p > 0.0f && p->top_p <= 1.0f) ||
        !(p->min_p >= 0.0f && p->min_p <= 1.0f))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "top_k %d, top_p %g, min_p %g: expected top_k >= 0, "
                        "0 < top_p <= 1, 0 <= min_p <= 1",
                        p->top_k, (double)p->top_p, (double)p->min_p);
    s = mem_zalloc(sizeof *s);
    if (!s)
        return cag_fail_nomem(err, "sampler");
    s->p = *p;
    s->n_vocab = n_vocab;
    /* row is mixed in between two rounds: neighbouring rows and seeds give
     * unrelated streams */
    seed = p->seed;
    seed = splitmix(&seed) ^ p->row;
    for (int i = 0; i < 4; i++)
        s->state[i] = splitmix(&seed);
    if (p->temperature > 0.0f) {
        s->heap = mem_alloc_array((size_t)n_vocab, sizeof *s->heap);
        s->kept = mem_alloc_array((size_t)n_vocab, sizeof *s->kept);
        if (!s->heap || !s->kept) {
            cag_sampler_free(s);
            return cag_fail_nomem(err, "sampler");
        }
    }
    *out = s;
    return CAG_OK;
}

void cag_sampler_free(cag_sampler *s)
{
    if (!s)
        return;
    mem_free(s->heap);
    mem_free(s->kept);
    mem_free(s);
}

int32_t sampler_best(const float *logits, int n)
{
    int32_t at = 0;

    /* a NaN at the start must lose too */
    while (at < n - 1 && logits[at] != logits[at])
        at++;
    for (int i = at + 1; i < n; i++)
        if (logits[i] > logits[at])
            at = i;
    return logits[at] == logits[at] ? at : 0;
}

static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->w > b->w || (a->w == b->w && a->id < b->id);
}

static void sift(struct candidate *h, int n, int i)
{
    struct candidate c = h[i];

    for (int k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && before(&h[k + 1], &h[k]))
            k++;
        if (!before(&h[k], &c))
            break;
        h[i] = h[k];
    }
    h[i] = c;
}

/* The candidates that pass the filters, best first, into s->kept. */
static int filter(cag_sampler *s, int n, double total)
{
    int most = s->p.top_k > 0 && s->p.top_k < n ? s->p.top_k : n, kept = 0;
    double sum = 0.0;

    for (int i = n / 2 - 1; i >= 0; i--)
        sift(s->heap, n, i);
    /* top_p is a share of what top_k leaves */
    if (most < n) {
        for (total = 0.0; kept < most; kept++) {
            s->kept[kept] = s->heap[0];
            total += s->heap[0].w;
            s->heap[0] = s->heap[--n];
            sift(s->heap, n, 0);
        }
        most = kept;
    }
    for (int i = 0; i < most; i++) {
        if (kept <= i) {
            s->kept[kept++] = s->heap[0];
            s->heap[0] = s->heap[--n];
            sift(s->heap, n, 0);
        }
        if (i > 0 && s->kept[i].w < (double)s->p.min_p)
            return i;
        sum += s->kept[i].w;
        if (s->p.top_p < 1.0f && sum >= (double)s->p.top_p * total)
            return i + 1;
    }
    return most;
}

static int32_t draw(cag_sampler *s, const struct candidate *c, int n)
{
    double total = 0.0, u;

    for (int i = 0; i < n; i++)
        total += c[i].w;
    u = next_uniform(s->state) * total;
    for (int i = 0; i < n - 1; i++) {
        if (u < c[i].w)
            return c[i].id;
        u -= c[i].w;
    }
    return c[n - 1].id;
}

int32_t cag_sampler_pick(cag_sampler *s, const float *logits)
{
    int32_t top = sampler_best(logits, s->n_vocab);
    double total = 0.0, inv;
    int n = 0;

    if (!(s->p.temperature > 0.0f))
        return top;
    inv = 1.0 / (double)s->p.temperature;
    for (int32_t i = 0; i < s->n_vocab; i++) {
        double w = real_exp(((double)logits[i] - (double)logits[top]) * inv);
        if (w > 0.0) {
            s->heap[n++] = (struct candidate){ w, i };
            total += w;
        }
    }
    if (n == 0)
        return top;
    if (s->p.top_k == 0 && s->p.top_p >= 1.0f && !(s->p.min_p > 0.0f))
        return draw(s, s->heap, n);
    n = filter(s, n, total);
    return draw(s, s->kept, n);
}
