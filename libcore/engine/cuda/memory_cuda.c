/*
 * memory_cuda.c - a GPU's memory: what is free and what the user allows, blocks
 * and their second use, errors with both numbers; and the table of rotations.
 *
 * A cache or a session asks before it allocates; too little is CAG_E_NOMEM
 * with what is needed and what there is.  Sessions of a batch hand their blocks
 * on.  The driver gives pages of 2 MiB, so room is counted in those where a
 * block is large; what is reported as used is what was asked for.
 */
#include "engine/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

#include "util/mem.h"

/* Left to the runtime: cuBLAS, kernels, the display. */
#define SLACK     ((uint64_t)64 << 20)
#define PAGE      ((uint64_t)2 << 20)
#define MIB(n)    ((unsigned long long)((n) >> 20))
#define MIB_UP(n) MIB((n) + (((uint64_t)1 << 20) - 1))

/* ------------------------------------------------------------------ errors */

cag_status cuda_fail_call(const struct cuk_err *e, const char *what,
                          cag_error *err)
{
    const char *base = e->file ? strrchr(e->file, '/') : NULL;

    if (e->code == 0)
        return cag_fail(err, CAG_E_BACKEND, NULL, -1, "CUDA: %s failed", what);
    cag_fail(err, CAG_E_BACKEND, NULL, -1,
             "CUDA: %s: %s gave %s (%d) at %s:%d%s", what, e->call, e->name,
             e->code, base ? base + 1 : e->file, e->line,
             e->sticky ? "; the device is lost to this process" : "");
    if (err)
        err->sys = e->code;
    return CAG_E_BACKEND;
}

cag_status cuda_fail(struct cuda *c, const char *what, cag_error *err)
{
    struct cuk_err e = *cuk_error(c->dev);

    /* a sticky error stays, and every later call says so */
    if (!e.sticky)
        cuk_clear(c->dev);
    return cuda_fail_call(&e, what, err);
}

cag_status cuda_enter(struct cuda *c, cag_error *err)
{
    return cuk_attach(c->dev) == 0 ? CAG_OK
                                   : cuda_fail(c, "choosing the device", err);
}

/* ------------------------------------------------------------------ memory */

uint64_t cuda_block_bytes(uint64_t bytes)
{
    /* blocks up to half a page share one */
    return bytes > PAGE / 2 ? (bytes + PAGE - 1) / PAGE * PAGE : bytes;
}

/* What the device and what the user leaves, spare blocks included. */
static cag_status limits(struct cuda *c, uint64_t *device, uint64_t *user,
                         uint64_t *total, cag_error *err)
{
    uint64_t free_bytes;

    if (cuk_mem(c->dev, &free_bytes, total) != 0)
        return cuda_fail(c, "asking for free memory", err);
    free_bytes += c->spare_bytes;
    *device = free_bytes > SLACK ? free_bytes - SLACK : 0;
    *user = c->max_bytes == 0              ? UINT64_MAX
            : c->max_bytes > c->used_bytes ? c->max_bytes - c->used_bytes
                                           : 0;
    return CAG_OK;
}

cag_status cuda_room(struct cuda *c, uint64_t *bytes, cag_error *err)
{
    uint64_t device = 0, user = 0, total;
    cag_status st = limits(c, &device, &user, &total, err);

    *bytes = device < user ? device : user;
    return st;
}

cag_status cuda_check_room(struct cuda *c, uint64_t bytes, const char *what,
                           cag_error *err)
{
    uint64_t device = 0, user = 0, total = 0;
    cag_status st = limits(c, &device, &user, &total, err);

    if (st)
        return st;
    if (bytes > device)
        return cag_fail(err, CAG_E_NOMEM, NULL, -1,
                        "%s needs %llu MiB of the GPU's memory, %llu MiB of "
                        "%llu MiB are free",
                        what, MIB_UP(bytes), MIB(device), MIB(total));
    if (bytes > user)
        return cag_fail(err, CAG_E_NOMEM, NULL, -1,
                        "%s needs %llu MiB of the GPU's memory, --max-memory "
                        "leaves %llu MiB of %llu MiB",
                        what, MIB_UP(bytes), MIB(user), MIB(c->max_bytes));
    return CAG_OK;
}

void cuda_drop_spare(struct cuda *c)
{
    while (c->n_spare > 0)
        cuk_free(c->dev, c->spare[--c->n_spare].dev);
    c->spare_bytes = 0;
}

/* Whether so many bytes can be allocated beside the spare blocks. */
static bool fits_beside_spare(struct cuda *c, uint64_t bytes)
{
    uint64_t free_bytes, total;

    return cuk_mem(c->dev, &free_bytes, &total) == 0 && free_bytes > SLACK &&
           cuda_block_bytes(bytes) <= free_bytes - SLACK &&
           (c->max_bytes == 0 ||
            c->used_bytes + c->spare_bytes + bytes <= c->max_bytes);
}

cag_status cuda_alloc(struct cuda *c, void **out, uint64_t bytes,
                      const char *what, cag_error *err)
{
    cag_status st = cuda_check_room(c, cuda_block_bytes(bytes), what, err);
    struct cuk_err e = { 0 };

    if (st)
        return st;
    if (c->n_spare > 0 && !fits_beside_spare(c, bytes))
        cuda_drop_spare(c);
    if (cuk_alloc(c->dev, out, (size_t)bytes, &e) != 0) {
        /* free in pieces; or somebody else was faster */
        if (cuk_error(c->dev)->code != 0)
            return cuda_fail(c, "allocating", err);
        return cag_fail(err, CAG_E_NOMEM, NULL, -1,
                        "%s: the GPU gave no %llu MiB in one piece", what,
                        MIB_UP(bytes));
    }
    c->used_bytes += bytes;
    return CAG_OK;
}

cag_status cuda_take(struct cuda *c, void **out, uint64_t *bytes,
                     const char *what, cag_error *err)
{
    struct cuda_spare *best = NULL;

    for (int i = 0; i < c->n_spare; i++) {
        struct cuda_spare *s = &c->spare[i];

        if (s->bytes >= *bytes && s->bytes / 2 <= *bytes &&
            (!best || s->bytes < best->bytes))
            best = s;
    }
    if (!best)
        return cuda_alloc(c, out, *bytes, what, err);
    *out = best->dev;
    *bytes = best->bytes;
    c->spare_bytes -= best->bytes;
    c->used_bytes += best->bytes;
    *best = c->spare[--c->n_spare];
    return CAG_OK;
}

void cuda_give(struct cuda *c, void *dev_p, uint64_t bytes)
{
    if (!dev_p)
        return;
    if (c->n_spare == CUDA_MAX_SPARE) {
        cuda_free(c, dev_p, bytes);
        return;
    }
    c->spare[c->n_spare++] = (struct cuda_spare){ dev_p, bytes };
    c->spare_bytes += bytes;
    c->used_bytes -= bytes;
}

void cuda_free(struct cuda *c, void *dev_p, uint64_t bytes)
{
    if (!dev_p)
        return;
    cuk_free(c->dev, dev_p);
    c->used_bytes -= bytes;
}

/* --------------------------------------------------------------- positions */

struct table_job {
    const struct model_config *cfg;
    float *cos, *sin;
};

static void table_range(void *ctx, int thread, int64_t begin, int64_t end)
{
    const struct table_job *j = ctx;
    size_t half = (size_t)j->cfg->d_head / 2;

    (void)thread;
    for (int64_t t = begin; t < end; t++)
        rope_table(j->cos + (size_t)t * half, j->sin + (size_t)t * half,
                   (int32_t)t, j->cfg->inv_freq, (int)half,
                   j->cfg->rope_mscale);
}

uint64_t cuda_position_bytes(const struct cuda *c)
{
    return (uint64_t)c->n_pos * (uint64_t)c->cfg->d_head * sizeof(float);
}

cag_status cuda_positions(struct cuda *c, int n_pos, cag_error *err)
{
    size_t half = (size_t)c->cfg->d_head / 2, n;
    struct table_job j = { c->cfg, NULL, NULL };
    void *dev = NULL;
    cag_status st;

    if (n_pos <= c->n_pos)
        return CAG_OK;
    if (n_pos < INT32_MAX - CUDA_POSITION_STEP)
        n_pos = (n_pos + CUDA_POSITION_STEP - 1) / CUDA_POSITION_STEP *
                CUDA_POSITION_STEP;
    n_pos = n_pos < c->cfg->n_ctx ? n_pos : c->cfg->n_ctx;
    n = (size_t)n_pos * half;
    j.cos = mem_alloc_array(n, 2 * sizeof *j.cos);
    if (!j.cos)
        return cag_fail_nomem(err, "positions");
    j.sin = j.cos + n;
    pool_run(c->pool, table_range, &j, n_pos, 64);
    st = cuda_alloc(c, &dev, 2 * n * sizeof *j.cos, "the table of positions",
                    err);
    if (!st &&
        (cuk_copy(c->run, CUK_TO_DEV, dev, j.cos, 2 * n * sizeof *j.cos) != 0 ||
         cuk_stream_sync(c->run) != 0)) {
        st = cuda_fail(c, "the table of positions", err);
        cuda_free(c, dev, 2 * n * sizeof *j.cos);
    }
    mem_free(j.cos);
    if (st)
        return st;
    cuda_drop_graphs(c); /* they name the old one */
    cuda_free(c, c->dev_cos, cuda_position_bytes(c));
    c->dev_cos = dev;
    c->dev_sin = c->dev_cos + n;
    c->n_pos = n_pos;
    return CAG_OK;
}

/* ------------------------------------------------------------------- rooms */

void cuda_drop_room(struct cuda *c, struct cuda_room *room)
{
    cuda_free(c, room->dev, room->bytes);
    cuk_host_free(c->dev, room->host);
    *room = (struct cuda_room){ NULL, NULL, 0 };
}

cag_status cuda_grow(struct cuda *c, struct cuda_room *room, uint64_t bytes,
                     const char *what, cag_error *err)
{
    struct cuda_room r = { NULL, NULL, 65536 };
    cag_status st;

    if (bytes <= room->bytes)
        return CAG_OK;
    while (r.bytes < bytes)
        r.bytes *= 2;
    cuda_drop_graphs(c); /* they name the old one */
    cuda_drop_room(c, room);
    st = cuda_alloc(c, &r.dev, r.bytes, what, err);
    if (!st && cuk_host_alloc(c->dev, &r.host, (size_t)r.bytes, NULL) != 0) {
        cuda_free(c, r.dev, r.bytes);
        st = cag_fail_nomem(err, "pinned memory");
    }
    if (!st)
        *room = r;
    return st;
}

/* ------------------------------------------------------------------ graphs */

void cuda_drop_graphs(struct cuda *c)
{
    while (c->n_graph > 0)
        cuk_graph_free(c->graph[--c->n_graph].graph);
}
