/*
 * trace_cuda.c - when what arrived and ran, for those who measure.
 *
 * An event with a time after each group of copies and each layer, made when
 * the first of them is marked; nothing at all unless base.trace is set.
 */
#include "engine/cuda/cuda.h"

#include "util/mem.h"

struct cuda_trace {
    struct cuk_event *start;
    struct cuk_event *mark[CUDA_N_MARK][CUDA_TRACE_SLOTS];
};

static struct cuda_trace *get_trace(struct cuda *c)
{
    if (c->trace)
        return c->trace;
    c->trace = mem_zalloc(sizeof *c->trace);
    if (c->trace && cuk_event_new(c->dev, true, &c->trace->start) == 0 &&
        cuk_event_record(c->trace->start, c->run) != 0) {
        cuk_event_free(c->trace->start);
        c->trace->start = NULL;
    }
    return c->trace;
}

void trace_cuda_start(struct cuda *c)
{
    if (c->base.trace)
        get_trace(c);
}

int trace_cuda_mark(struct cuda *c, enum cuda_mark what, int i,
                    struct cuk_stream *s)
{
    struct cuda_trace *t;
    int code;

    if (!c->base.trace || what == CUDA_N_MARK || i >= CUDA_TRACE_SLOTS)
        return 0;
    t = get_trace(c);
    /* the first time counts; without memory there is no trace */
    if (!t || !t->start || t->mark[what][i])
        return 0;
    code = cuk_event_new(c->dev, true, &t->mark[what][i]);
    return code != 0 ? code : cuk_event_record(t->mark[what][i], s);
}

/* As the model counts its layers. */
static int number_of(const struct cuda *c, enum cuda_mark what, int i)
{
    bool layer = what == CUDA_WEIGHTS ? i > 0 : what != CUDA_OUTCOME;

    return layer ? c->base.layer0 + i : i;
}

void trace_cuda_list(struct backend *b, backend_moment_fn *fn, void *ctx)
{
    static const char *const name[CUDA_N_MARK] = { "weights", "cache", "layer",
                                                   "outcome" };
    struct cuda *c = cuda_of(b);
    float ms;

    if (!c->trace || cuda_enter(c, NULL) || cuk_sync(c->dev) != 0)
        return;
    for (int k = 0; k < CUDA_N_MARK; k++)
        for (int i = 0; i < CUDA_TRACE_SLOTS; i++)
            if (c->trace->mark[k][i] &&
                cuk_event_ms(c->trace->start, c->trace->mark[k][i], &ms) == 0)
                fn(ctx, name[k], number_of(c, (enum cuda_mark)k, i),
                   (double)ms);
}

void trace_cuda_free(struct cuda *c)
{
    struct cuda_trace *t = c->trace;

    if (!t)
        return;
    cuk_event_free(t->start);
    for (int k = 0; k < CUDA_N_MARK; k++)
        for (int i = 0; i < CUDA_TRACE_SLOTS; i++)
            cuk_event_free(t->mark[k][i]);
    mem_free(t);
    c->trace = NULL;
}
