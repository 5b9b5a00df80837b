/*
 * view_cuda.c - what the rows of a pass see of their prefix, and what is
 * measured of their attention.
 *
 *   there  words of views (kv_view.h), one after another; heads; runs
 *   back   shares [run][head][token], f32, which are added to the rows' sums
 *
 * Most passes have neither, and then nothing goes or comes.  A run is rows that
 * add to one sum.  Heads are those of the device's layers; graphs have their
 * number in each layer built in, so other heads are other graphs.
 */
#include "engine/cuda/pass_cuda.h"

#include <string.h>

#include "util/error.h"
#include "util/mem.h"

static int prefix_tiles(const struct forward_row *row)
{
    int n_tok = ((const struct cuda_kv *)row->kv)->n_prefix;

    return (n_tok + KV_TILE - 1) / KV_TILE;
}

bool pass_cuda_new_run(const struct forward_row *row, int a)
{
    return a == 0 || row[a].kv != row[a - 1].kv ||
           row[a].mass != row[a - 1].mass;
}

size_t pass_cuda_run_size(const struct pass_cuda *p)
{
    return (size_t)p->n_head * (size_t)p->n_tile * KV_TILE;
}

int pass_cuda_heads(const struct pass_cuda *p, int l, int *n)
{
    const struct copy_head *head = p->req->head + p->head0;
    int layer = l + p->c->base.layer0, i = 0;

    *n = 0;
    if (p->n_run == 0)
        return 0;
    while (i < p->n_head && head[i].layer < layer)
        i++;
    while (i + *n < p->n_head && head[i + *n].layer == layer)
        ++*n;
    return i;
}

/* Timelines whose view is not that of the one before add their words; to is
 * NULL: only count. */
static int put_views(struct pass_cuda *p, uint64_t *to)
{
    const struct kv_view *last = NULL;
    int n_word = 0, at = 0, kv = -1;

    for (int r = 0; r < p->n_row; r++) {
        const struct kv_view *v = p->row[r].view;

        if (r > 0 && p->row[r].kv == p->row[r - 1].kv)
            continue;
        kv++;
        if (!v)
            continue;
        if (!last || !kv_view_same(v, last)) {
            at = n_word;
            n_word += v->n_tile;
            if (to)
                memcpy(to + at, v->tile, (size_t)v->n_tile * sizeof *to);
        }
        last = v;
        p->host.kv[kv].view = at;
        p->host.kv[kv].n_view = v->n_tile;
    }
    return n_word;
}

/* Runs of rows that are measured; to is NULL: only count. */
static int put_runs(struct pass_cuda *p, struct cuk_run *to)
{
    int n = 0;

    for (int r = 0, end; r < p->n_row; r = end) {
        const struct cuda_kv *kv = (const struct cuda_kv *)p->row[r].kv;

        for (end = r + 1; end < p->n_row && !pass_cuda_new_run(p->row, end);)
            end++;
        if (!p->row[r].mass || kv->n_prefix == 0)
            continue;
        if (to)
            to[n] = (struct cuk_run){ r, end - r, kv->n_prefix, 0 };
        else if (prefix_tiles(&p->row[r]) > p->n_tile)
            p->n_tile = prefix_tiles(&p->row[r]);
        n++;
    }
    return n;
}

/* The request's heads of the device's layers. */
static void find_heads(struct pass_cuda *p)
{
    const struct forward_req *req = p->req;
    const struct backend *b = &p->c->base;
    int end = req->n_head;

    p->head0 = 0;
    while (p->head0 < end && req->head[p->head0].layer < b->layer0)
        p->head0++;
    while (end > p->head0 && req->head[end - 1].layer >= b->layer1)
        end--;
    p->n_head = end - p->head0;
}

/* Graphs of other heads go. */
static cag_status know_heads(struct pass_cuda *p, cag_error *err)
{
    struct cuda *c = p->c;
    const struct copy_head *head = p->req->head + p->head0;
    size_t bytes = (size_t)p->n_head * sizeof *head;

    if (c->n_measured == p->n_head && memcmp(c->measured, head, bytes) == 0)
        return CAG_OK;
    struct copy_head *copy = mem_alloc(bytes);
    if (!copy)
        return cag_fail_nomem(err, "heads of a pass");
    memcpy(copy, head, bytes);
    cuda_drop_graphs(c);
    mem_free(c->measured);
    c->measured = copy;
    c->n_measured = p->n_head;
    return CAG_OK;
}

static int padded_words(int n)
{
    int p = 64;

    while (n > 0 && p < n)
        p *= 2;
    return n > 0 ? p : 0;
}

cag_status pass_cuda_seen(struct pass_cuda *p, bool graph, cag_error *err)
{
    struct cuda *c = p->c;
    int words = put_views(p, NULL);
    cag_status st = CAG_OK;

    find_heads(p);
    p->n_run = p->n_head > 0 ? put_runs(p, NULL) : 0;
    p->n_head = p->n_run > 0 ? p->n_head : 0;
    p->n_word = graph ? padded_words(words) : words;
    if (words == 0 && p->n_run == 0)
        return CAG_OK;
    /* 8-aligned each: words, pairs of heads, runs */
    size_t head = (size_t)p->n_word * sizeof(uint64_t);
    size_t run = head + ((size_t)p->n_head + 1) / 2 * 8;
    p->seen_size = run + (size_t)p->n_run * sizeof(struct cuk_run);
    st = cuda_grow(c, &c->seen, p->seen_size, "what a pass sees", err);
    if (!st && p->n_run > 0)
        st = cuda_grow(c, &c->mass,
                       (uint64_t)p->n_run * pass_cuda_run_size(p) *
                           sizeof(float),
                       "measured attention", err);
    if (!st && p->n_run > 0)
        st = know_heads(p, err);
    if (st)
        return st;
    uint8_t *host = c->seen.host, *dev = c->seen.dev;
    memset(host, 0, p->seen_size);
    put_views(p, c->seen.host);
    for (int i = 0; i < p->n_head; i++)
        ((int32_t *)(void *)(host + head))[i] = p->req->head[p->head0 + i].head;
    p->run = (void *)(host + run);
    put_runs(p, p->run);
    p->dev_view = c->seen.dev;
    p->dev_head = (void *)(dev + head);
    p->dev_run = (void *)(dev + run);
    return CAG_OK;
}

void pass_cuda_add_mass(const struct pass_cuda *p)
{
    const float *from = p->c->mass.host;

    for (int i = 0; i < p->n_run; i++) {
        const struct cuk_run *run = &p->run[i];
        double *sum =
            p->row[run->row0].mass + (size_t)p->head0 * (size_t)run->n_tok;

        for (int h = 0; h < p->n_head; h++, from += p->n_tile * KV_TILE)
            for (int t = 0; t < run->n_tok; t++)
                *sum++ += (double)from[t];
    }
}
