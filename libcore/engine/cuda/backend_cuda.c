/*
 * backend_cuda.c - a GPU as a backend: opening it, its table, and the one
 * function that libcag-cuda.so exports.
 *
 * Memory is planned before it is taken.  What a model needs (weights, scratch
 * of the largest pass) is summed and compared with what is free and with the
 * user's limit before the first allocation.  Scratch is one block, carved
 * once, so a pass allocates nothing.
 */
#include "engine/cuda/cuda.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cag.h>

#include "util/mem.h"

/* Default rows of a prompt pass: fills the device, and holds any step. */
#define DEFAULT_PASS_ROWS 2048
/* Beside a CPU, whose passes are not better for being longer. */
#define SPLIT_PASS_ROWS   512
#define PANEL_MAX         ((size_t)64 << 20)

/* ----------------------------------------------------------------- scratch */

struct carve {
    uint8_t *base; /* NULL: only measure */
    uint64_t off;
};

static void *carve(struct carve *cv, uint64_t n, uint64_t m, size_t size)
{
    uint64_t at = cv->off;

    /* rows below 2^17, widths below 2^31: no product overflows */
    cv->off += (n * m * size + 255) & ~(uint64_t)255;
    return cv->base ? cv->base + at : NULL;
}

/* The panel grows to hold w, if that is not stored as an operand. */
static void panel_hold(size_t *panel, const struct kmat *w, int operand)
{
    size_t row = (size_t)w->d_in * (operand == KT_F32 ? 4 : 2);
    size_t all = row * (size_t)w->n_out;

    if (w->type == operand && w->perm_half == 0)
        return;
    all = all < PANEL_MAX ? all : PANEL_MAX;
    all = all > row ? all : row;
    *panel = all > *panel ? all : *panel;
}

static size_t panel_for_operand(const struct cuda *c, int operand)
{
    size_t panel = 0;

    for (int l = 0; l < c->cfg->n_layer; l++)
        for (int i = 0; i < N_MAT; i++)
            panel_hold(&panel, &c->w->layer[l].mat[i], operand);
    panel_hold(&panel, &c->w->head, operand);
    return (panel + 255) & ~(size_t)255;
}

/* Room to expand the largest matrix; a pass of f16 may be run again. */
static size_t panel_for(const struct cuda *c)
{
    size_t panel = panel_for_operand(c, c->operand), again = 0;

    if (c->operand == KT_F16)
        again = panel_for_operand(c, KT_BF16);
    return panel > again ? panel : again;
}

static void carve_all(struct cuda *c, struct carve *cv)
{
    uint64_t n = (uint64_t)c->base.max_row, d = (uint64_t)c->cfg->d_model;
    uint64_t ff = (uint64_t)c->cfg->d_ff, d_q = (uint64_t)c->d_q;

    c->x = carve(cv, n, d, sizeof(float));
    c->h = carve(cv, n, d, sizeof(float));
    c->qkv = carve(cv, n, (uint64_t)c->d_qkv, sizeof(float));
    c->q = carve(cv, n, d_q, sizeof(uint16_t));
    c->q_rotated = carve(cv, n, d_q, sizeof(uint16_t));
    c->q_unit = carve(cv, n, (uint64_t)c->shape.n_head, sizeof(float));
    c->att = carve(cv, n, d_q, sizeof(float));
    c->gate_up = carve(cv, n, 2 * ff, sizeof(float));
    c->act = carve(cv, n, ff, sizeof(float));
    c->logits =
        carve(cv, CUDA_HEAD_ROWS, (uint64_t)c->cfg->n_vocab, sizeof(float));
    c->argmax = carve(cv, CUK_ARGMAX_SCRATCH(CUDA_HEAD_ROWS), 1, 1);
    c->norm = carve(cv, n, 2 * (uint64_t)c->shape.n_head, sizeof(float));
    c->panel = carve(cv, c->panel_bytes, 1, 1);
    c->state = carve(cv, cuk_state_bytes(&c->shape, c->cap_state), 1, 1);
    c->dev_input = carve(cv, c->input_bytes, 1, 1);
}

static cag_status alloc_pinned(struct cuda *c, cag_error *err)
{
    size_t logits =
        (size_t)CUDA_LOGIT_ROWS * (size_t)c->cfg->n_vocab * sizeof(float);

    size_t x = c->base.layer0 == 0
                   ? 0
                   : (size_t)c->base.max_row * (size_t)c->cfg->d_model *
                         sizeof *c->host_x;

    if (cuk_host_alloc(c->dev, &c->pinned,
                       c->input_bytes + c->back_bytes + logits + x, NULL) != 0)
        return cag_fail_nomem(err, "pinned memory");
    c->host_input = c->pinned;
    c->host_back = (void *)(c->host_input + c->input_bytes);
    c->host_logits = (void *)(c->host_input + c->input_bytes + c->back_bytes);
    c->host_x = c->host_logits + logits / sizeof *c->host_logits;
    return CAG_OK;
}

/* What layers from layer0 on take: rows of a pass, weights, scratch. */
static cag_status plan_layers(struct cuda *c, const struct backend_opts *opts,
                              int layer0, cag_error *err)
{
    struct carve cv = { NULL, 0 };
    int pass_rows = opts->pass_rows != 0 ? opts->pass_rows
                    : layer0 == 0        ? DEFAULT_PASS_ROWS
                                         : SPLIT_PASS_ROWS;

    c->base.layer0 = layer0;
    c->base.layer1 = c->cfg->n_layer;
    c->n_layer = c->cfg->n_layer - layer0;
    c->base.pass_rows = pass_rows;
    c->base.max_row = pass_rows > CUDA_STEP_ROWS ? pass_rows : CUDA_STEP_ROWS;
    forward_cuda_bounds(c);
    c->panel_bytes = panel_for(c);
    carve_all(c, &cv);
    c->scratch_bytes = cv.off;
    return weights_cuda_size(c->w, c->cfg, layer0, &c->weight_bytes, err);
}

/* What a plan takes before there is a session. */
static uint64_t own_need(const struct cuda *c)
{
    return cuda_block_bytes(c->weight_bytes) +
           cuda_block_bytes(c->scratch_bytes) + CUK_GEMM_WORKSPACE;
}

/* What sessions will want, as far as the caller knows: K and V, a tile of the
 * cache's and one of their own that are not full, and the rotations. */
static uint64_t room_wanted(const struct cuda *c,
                            const struct backend_opts *opts)
{
    uint64_t n = (uint64_t)opts->room_tok, d = (uint64_t)c->cfg->d_head;
    uint64_t tiles = n / KV_TILE + 3;

    return (uint64_t)c->n_layer * 2 * (uint64_t)c->shape.n_kv_head * tiles *
               c->tile_bytes +
           (n + CUDA_POSITION_STEP) * d * sizeof(float);
}

/* The layers that were asked for, or the most that fit; planned. */
static cag_status choose_layers(struct cuda *c, const struct backend_opts *opts,
                                cag_error *err)
{
    int n = c->cfg->n_layer, want = opts->gpu_layers;
    char what[96] = "the model with its scratch";
    cag_status st;

    if (want != CAG_GPU_LAYERS_AUTO) {
        int layer0 = want > 0 && want < n ? n - want : 0;
        if (layer0 > 0)
            snprintf(what, sizeof what, "%d of %d layers with their scratch",
                     want, n);
        st = plan_layers(c, opts, layer0, err);
        return st ? st : cuda_check_room(c, own_need(c), what, err);
    }
    st = CAG_E_NOMEM;
    for (int l = 0; st == CAG_E_NOMEM && l < n; l++) {
        st = plan_layers(c, opts, l, err);
        if (!st)
            st = cuda_check_room(c, own_need(c) + room_wanted(c, opts),
                                 "even one layer, with the output, scratch "
                                 "and its K and V,",
                                 err);
    }
    return st;
}

static cag_status allocate(struct cuda *c, cag_error *err)
{
    struct carve cv;
    cag_status st =
        cuda_alloc(c, &c->dev_scratch, c->scratch_bytes, "the scratch", err);

    if (st)
        return st;
    cv = (struct carve){ c->dev_scratch, 0 };
    carve_all(c, &cv);
    st = alloc_pinned(c, err);
    /* what a short pass does not write must not be read as NaN */
    if (!st &&
        cuk_memset(c->run, c->dev_scratch, 0, (size_t)c->scratch_bytes) != 0)
        st = cuda_fail(c, "clearing the scratch", err);
    return !st ? weights_cuda_start(c, err) : st;
}

/* --------------------------------------------------------------- the table */

static void close_device(struct backend *b)
{
    struct cuda *c = (struct cuda *)b;

    if (!c)
        return;
    if (c->dev) {
        cuk_attach(c->dev);
        weights_cuda_settle(c, true);
        cuk_sync(c->dev);
        cuda_drop_graphs(c);
        trace_cuda_free(c);
        cuda_drop_spare(c);
        cuda_drop_room(c, &c->seen);
        cuda_drop_room(c, &c->mass);
        cuda_free(c, c->dev_weights, c->weight_bytes);
        cuda_free(c, c->dev_scratch, c->scratch_bytes);
        cuda_free(c, c->dev_cos, cuda_position_bytes(c));
        cuk_host_free(c->dev, c->pinned);
        for (int i = 0; i < CUDA_EXPORT_SLOTS; i++)
            cuk_host_free(c->dev, c->slot[i].host);
        cuk_event_free(c->layer_end[0]);
        cuk_event_free(c->layer_end[1]);
        cuk_stream_free(c->run);
        cuk_stream_free(c->copy);
        cuk_close(c->dev);
    }
    pthread_cond_destroy(&c->slot_free);
    pthread_mutex_destroy(&c->lock);
    mem_free(c->layer);
    mem_free(c->measured);
    mem_free(c);
}

static const char *get_kernels(const struct backend *b)
{
    return cuda_of(b)->kernels;
}

static const char *get_numerics(const struct backend *b)
{
    return cuda_of(b)->numerics;
}

static cag_device_memory get_memory(const struct backend *b)
{
    const struct cuda *c = cuda_of(b);
    cag_device_memory m = { .weights = c->weight_bytes,
                            .caches = c->cache_bytes,
                            .scratch = c->scratch_bytes + CUK_GEMM_WORKSPACE +
                                       cuda_position_bytes(c) };

    m.sessions =
        c->used_bytes - m.weights - m.caches - m.scratch + c->spare_bytes;
    return m;
}

static const struct backend_ops cuda_ops = {
    .name = "cuda",
    .free = close_device,
    .kernels = get_kernels,
    .numerics = get_numerics,
    .memory = get_memory,
    .prefix_new = cuda_prefix_new,
    .prefix_free = cuda_prefix_free,
    .prefix_private_bytes = cuda_prefix_bytes,
    .prefix_load = cuda_prefix_load,
    .kv_new = cuda_kv_new,
    .kv_free = cuda_kv_free,
    .kv_truncate = cuda_kv_truncate,
    .kv_room = cuda_kv_room,
    .kv_export = cuda_kv_export,
    .kv_import = cuda_kv_import,
    .forward = forward_cuda,
    .timeline = trace_cuda_list,
};

/* ----------------------------------------------------------------- opening */

static cag_status check_model(const cag_model *m,
                              const struct backend_opts *opts, cag_error *err)
{
    const struct model_config *cfg = &m->config;
    const char *path = m->info.path;

    if (!m->weights.layer)
        return cag_fail(err, CAG_E_USAGE, path, -1,
                        "the model was opened without its weights");
    if (opts->kv_f32)
        return cag_fail(err, CAG_E_UNSUPPORTED, path, -1,
                        "a GPU keeps K and V as f16; codec f32 needs "
                        "--device cpu");
    if (cfg->d_head % 8 != 0 || cfg->d_head > CUK_D_HEAD_MAX)
        return cag_fail(err, CAG_E_UNSUPPORTED, path, -1,
                        "head size %d, a GPU needs a multiple of 8 up to %d",
                        cfg->d_head, CUK_D_HEAD_MAX);
    if (cfg->n_head / cfg->n_kv_head > CUK_ATTN_ROWS)
        return cag_fail(err, CAG_E_UNSUPPORTED, path, -1,
                        "%d query heads share one KV head, a GPU takes at "
                        "most %d",
                        cfg->n_head / cfg->n_kv_head, CUK_ATTN_ROWS);
    if (cfg->d_model % 8 != 0 || cfg->d_ff % 8 != 0)
        return cag_fail(err, CAG_E_UNSUPPORTED, path, -1,
                        "widths %d and %d, a GPU needs multiples of 8",
                        cfg->d_model, cfg->d_ff);
    return CAG_OK;
}

/*
 * f32 weights and exact arithmetic keep f32.  f16 weights lose nothing as f16
 * and three bits as bf16, and before bf16 had tensor cores only f16 did; what
 * does not fit is computed again (forward_cuda).  Else bf16, which has the
 * range that large activations need.
 */
static void choose_operand(struct cuda *c, const struct backend_opts *opts,
                           int sm)
{
    int type = c->w->layer[0].mat[WQ].type;
    const char *name;

    c->operand = opts->precision == CAG_PRECISION_EXACT || type == KT_F32
                     ? KT_F32
                 : type == KT_F16 || sm < CUK_SM_BF16 ? KT_F16
                                                      : KT_BF16;
    name = c->operand == KT_F32 ? "f32" : c->operand == KT_F16 ? "f16" : "bf16";
    c->base.prompt_gemm = name;
    snprintf(c->numerics, sizeof c->numerics, "cuda-%s.1", name);
}

static void fill_in(struct cuda *c, const cag_model *m,
                    const struct backend_opts *opts)
{
    const struct model_config *cfg = &m->config;

    c->base.ops = &cuda_ops;
    c->base.views = c->base.masses = true;
    c->cfg = cfg;
    c->w = &m->weights;
    c->pool = opts->pool;
    c->max_bytes = opts->max_memory;
    c->shape = (struct cuk_shape){ cfg->n_head, cfg->n_kv_head, cfg->d_head };
    c->d_q = cfg->n_head * cfg->d_head;
    c->d_qkv = c->d_q + 2 * cfg->n_kv_head * cfg->d_head;
    c->tile_bytes = (size_t)KV_TILE * (size_t)cfg->d_head * 2;
    c->q_scale = (float)(1.4426950408889634 / sqrt((double)cfg->d_head));
}

/* Device, streams, events.  What was made is close_device's to undo. */
static cag_status open_device(struct cuda *c, int ordinal, cag_error *err)
{
    struct cuk_err e = { 0 };
    const struct cuk_info *info;

    if (cuk_open(ordinal, &c->dev, &e) != 0)
        return cuda_fail_call(&e, "opening the device", err);
    info = cuk_get_info(c->dev);
    if (info->sm < CUK_SM_MIN)
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                        "%s has compute capability %d.%d, the kernels need "
                        "%d.%d",
                        info->name, info->sm / 10, info->sm % 10,
                        CUK_SM_MIN / 10, CUK_SM_MIN % 10);
    snprintf(c->kernels, sizeof c->kernels, "sm_%d", info->sm);
    snprintf(c->base.note, sizeof c->base.note,
             "cuda:%d %s, compute capability %d.%d, %llu MiB, driver %d.%d",
             ordinal, info->name, info->sm / 10, info->sm % 10,
             (unsigned long long)(info->mem_total >> 20), info->driver / 1000,
             info->driver % 1000 / 10);
    if (cuk_attention_blocks(c->dev, &c->shape, &c->n_block) != 0 ||
        cuk_stream_new(c->dev, &c->run) != 0 ||
        cuk_stream_new(c->dev, &c->copy) != 0 ||
        cuk_event_new(c->dev, false, &c->layer_end[0]) != 0 ||
        cuk_event_new(c->dev, false, &c->layer_end[1]) != 0)
        return cuda_fail(c, "opening the device", err);
    return CAG_OK;
}

static cag_status plugin_open(int ordinal, const cag_model *m,
                              const struct backend_opts *opts,
                              struct backend **out, cag_error *err)
{
    cag_status st = check_model(m, opts, err);
    struct cuda *c;

    if (st)
        return st;
    c = mem_zalloc(sizeof *c);
    if (!c)
        return cag_fail_nomem(err, "engine");
    if (pthread_mutex_init(&c->lock, NULL) != 0) {
        mem_free(c);
        return cag_fail_nomem(err, "engine");
    }
    if (pthread_cond_init(&c->slot_free, NULL) != 0) {
        pthread_mutex_destroy(&c->lock);
        mem_free(c);
        return cag_fail_nomem(err, "engine");
    }
    fill_in(c, m, opts);
    st = open_device(c, ordinal, err);
    if (!st) {
        choose_operand(c, opts, cuk_get_info(c->dev)->sm);
        st = choose_layers(c, opts, err);
    }
    if (!st)
        st = allocate(c, err);
    if (!st && cuk_gemm_prepare(c->run) != 0)
        st = cuda_fail(c, "starting cuBLAS", err);
    if (!st)
        c->used_bytes += CUK_GEMM_WORKSPACE;
    if (st) {
        close_device(&c->base);
        return st;
    }
    *out = &c->base;
    return CAG_OK;
}

static cag_status plugin_count(int *n, int *driver, int *runtime,
                               cag_error *err)
{
    struct cuk_err e = { 0 };

    if (cuk_count(n, driver, runtime, &e) != 0)
        return cuda_fail_call(&e, "looking for devices", err);
    return CAG_OK;
}

static cag_status plugin_describe(int i, struct cuda_device *out,
                                  cag_error *err)
{
    struct cuk_err e = { 0 };
    struct cuk_info info;

    if (cuk_info(i, &info, &e) != 0)
        return cuda_fail_call(&e, "asking the device", err);
    memset(out, 0, sizeof *out);
    memcpy(out->name, info.name, sizeof out->name);
    out->sm = info.sm;
    out->sm_min = CUK_SM_MIN;
    out->mem_total = info.mem_total;
    return CAG_OK;
}

CAG_API const struct cuda_plugin *cag_cuda_plugin(void);

const struct cuda_plugin *cag_cuda_plugin(void)
{
    static struct cuda_plugin p = { 0, CAG_VERSION, plugin_count,
                                    plugin_describe, plugin_open };

    p.abi = cuda_plugin_abi();
    return &p;
}
