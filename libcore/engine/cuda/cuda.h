/*
 * cuda.h - a GPU's state: weights, scratch, streams; shared by the
 * files of libcag-cuda.so that are plain C:
 *
 *   backend_cuda.c   the table, opening
 *   memory_cuda.c    device memory, errors, the table of rotations
 *   feed_cuda.c      a load_pipe with pinned memory and events
 *   weights_cuda.c   the model on its way to the device
 *   prefix_cuda.c    a cache's K and V on their way to the device
 *   kvcache_cuda.c   timelines: K and V that sessions wrote
 *   export_cuda.c    chunks of a timeline to the host, and back
 *   forward_cuda.c   one pass: graphs, waits, outcomes
 *   input_cuda.c     what it tells the device
 *   view_cuda.c      what its rows see, what is measured of them
 *   queue_cuda.c     its kernels
 *   trace_cuda.c     when its parts ended
 *
 * Two streams: copy carries what is loaded, run computes.  run waits for copy
 * (feed_need), never the other way: what a copy overwrites is not in use.
 * All calls of the device come from the engine's thread, but for the export
 * of chunks, which a lock makes one at a time.
 *
 * Layers are counted from the first that is the device's (base.layer0 of the
 * model's) wherever the outside does not see the number.
 */
#ifndef ENGINE_CUDA_CUDA_H
#define ENGINE_CUDA_CUDA_H

#include <pthread.h>

#include "engine/backend_plugin.h"
#include "engine/load_pipe.h"
#include "kernels/cuda/kernels_cuda.h"
#include "kvc/kvc_read.h"

/* Rows of a step in one pass; more are cut. */
#define CUDA_STEP_ROWS   256
/* Rows whose logits are computed at a time; that come back at a time. */
#define CUDA_HEAD_ROWS   64
#define CUDA_LOGIT_ROWS  16
/* What is measured in one pass at most, unless it is one sum. */
#define CUDA_MASS_FLOATS ((int64_t)1 << 24)

struct feed;
struct cuda_trace;

/* What trace_cuda.c tells apart; weights are groups: the embedding is 0,
 * layer l is l + 1. */
enum cuda_mark {
    CUDA_WEIGHTS,
    CUDA_CACHE,
    CUDA_LAYER,
    CUDA_OUTCOME,
    CUDA_N_MARK
};
#define CUDA_TRACE_SLOTS 256

struct cuda_layer {
    struct kmat mat[N_MAT];
    const float *attn_norm, *ffn_norm, *bq, *bk, *bv, *bo, *q_norm, *k_norm;
};

/* A pass's inputs, in host and in device memory, at equal offsets. */
struct cuda_input {
    struct cuk_row *row;
    struct cuk_kv *kv;
    struct cuk_item *item;
    int32_t *state0;
    int32_t *want; /* [n_row] the rows that have an outcome */
    /* what comes back of a pass, in one copy */
    int32_t *bad;  /* [n_layer] first row that overflows f16 */
    int32_t *best; /* [n_row] as want, of those that want it */
    size_t bytes;  /* up to best: what goes to the device    */
    size_t back;   /* from bad on                            */
};

/* What a step's recorded kernels and copies depend on.  whole: with the choice
 * of every row's next token and the copies there and back. */
struct cuda_step_shape {
    int n_row, n_item;
    int n_word;                /* of views */
    int n_run, n_head, n_tile; /* of what is measured */
    int operand;
    bool whole;
};
struct cuda_graph {
    struct cuda_step_shape shape;
    struct cuk_graph *graph;
};
#define CUDA_MAX_GRAPH 32

/* Memory of the device and as much pinned, for what few passes want: it grows
 * with them. */
struct cuda_room {
    void *dev, *host;
    uint64_t bytes;
};

/* Pinned memory on the way of an exported chunk: the bus is one, so while one
 * thread copies out of a slot another's chunk arrives in the other. */
struct cuda_slot {
    void *host;
    size_t bytes;
    bool busy;
};
#define CUDA_EXPORT_SLOTS 2

/* A block that a session gave back: the next one's. */
struct cuda_spare {
    void *dev;
    uint64_t bytes;
};
#define CUDA_MAX_SPARE 512

struct cuda {
    struct backend base;
    struct cuk_dev *dev;
    struct cuk_stream *run, *copy;
    struct cuk_event *layer_end[2];
    const struct model_config *cfg;
    const struct model_weights *w; /* as mapped */
    struct pool *pool;             /* borrowed */
    struct cuk_shape shape;
    int n_layer; /* of the device */
    int operand; /* type of large products, of the pass that runs */
    int d_q, d_kv, d_qkv;
    size_t tile_bytes;
    float q_scale;
    int n_block; /* wanted busy in attention */
    char kernels[64], numerics[64];

    uint64_t max_bytes;                      /* 0: what is free */
    uint64_t used_bytes;                     /* by cuda_alloc and cuda_take */
    uint64_t cache_bytes;                    /* the part that prefixes hold */
    struct cuda_spare spare[CUDA_MAX_SPARE]; /* newest last */
    int n_spare;
    uint64_t spare_bytes;

    void *dev_weights;
    uint64_t weight_bytes;
    struct cuda_layer *layer;
    struct kmat embed, head;
    const float *out_norm;
    struct weight_load *load; /* NULL once all is there */

    float *dev_cos, *dev_sin; /* [n_pos, d_head / 2] */
    int n_pos;

    void *dev_scratch;
    uint64_t scratch_bytes;
    float *x;            /* [rows, d_model] the residual stream */
    void *h;             /* [rows, d_model] after a norm */
    float *qkv;          /* [rows, d_qkv] */
    uint16_t *q;         /* [rows, d_q] */
    uint16_t *q_rotated; /* [rows, d_q], and its unit [rows, n_head]: as */
    float *q_unit;       /* keys of codes want it                        */
    void *att;           /* [rows, d_q] */
    float *gate_up;      /* [rows, 2, d_ff] */
    void *act;           /* [rows, d_ff] */
    float *logits;       /* [CUDA_HEAD_ROWS, n_vocab] */
    void *argmax;        /* scratch of cuk_argmax */
    float *norm;         /* [rows, n_head, 2] as cuk_attn's */
    void *panel;
    size_t panel_bytes;
    void *state;
    int cap_item, cap_state;
    uint8_t *dev_input;
    size_t input_bytes;

    void *pinned; /* one block for the next four */
    uint8_t *host_input;
    float *host_x; /* [rows, d_model], where layer0 > 0 */
    float *host_logits;
    int32_t *host_back; /* as bad and best lie on the device */
    size_t back_bytes;

    struct cuda_room seen;      /* goes there: views, and what to measure */
    struct cuda_room mass;      /* comes back */
    struct copy_head *measured; /* [n_measured] heads that graphs know */
    int n_measured;

    struct cuda_trace *trace; /* NULL until something is marked */
    struct cuda_graph graph[CUDA_MAX_GRAPH];
    int n_graph;
    pthread_mutex_t lock; /* of the copy stream and the slots, for exports */
    pthread_cond_t slot_free;
    struct cuda_slot slot[CUDA_EXPORT_SLOTS];
};

struct cuda_prefix {
    struct backend_prefix base;
    const cag_kvc *kvc;
    const struct kvc_shape *shape; /* of the file, and on the device */
    int n_tok;                     /* of the cache's, used */
    int n_chunk, n_shared;         /* chunks, whole tiles */
    uint8_t *dev;                  /* [n_layer] chunks as in the file */
    uint8_t *dev_tail;             /* [n_layer][K, V][kv_head] the last,
                                      partial tile; inside dev's block */
    size_t layer_bytes;
    uint64_t bytes;
    int *group_end;
    struct feed *feed; /* NULL once all is there */
    int n_ready;       /* layers */
};

struct cuda_kv {
    struct backend_kv base;
    struct cuda_prefix *prefix; /* or NULL */
    uint8_t *dev;               /* [n_layer][K, V][kv_head][n_tile] */
    uint64_t bytes;
    int n_tile; /* private */
    int n_prefix, n_shared;
    int n_dirty; /* positions >= this: never written */
    int n_layer_ready;
    bool overflowed; /* slots past the end may be infinite */
};

static inline struct cuda *cuda_of(const struct backend *b)
{
    return (struct cuda *)(uintptr_t)b;
}

/* ----------------------------------------------------------- memory_cuda.c */

/* A failure that no device keeps (there is none yet). */
cag_status cuda_fail_call(const struct cuk_err *e, const char *what,
                          cag_error *err);
/* The first call of every operation: a thread's current device is its own
 * affair, and there may be engines on several devices. */
cag_status cuda_enter(struct cuda *c, cag_error *err);
/* The device's first error as CAG_E_BACKEND: the call, the place, and what
 * was being done. */
cag_status cuda_fail(struct cuda *c, const char *what, cag_error *err);
/* Device memory within the limits; CAG_E_NOMEM with both numbers. */
cag_status cuda_alloc(struct cuda *c, void **out, uint64_t bytes,
                      const char *what, cag_error *err);
void cuda_free(struct cuda *c, void *dev_p, uint64_t bytes);
/*
 * The same for what comes and goes with each question: a block that was given
 * back serves again, if it is not much too large, without a word to the
 * driver, whose cudaMalloc and cudaFree wait for all that runs.  *bytes
 * becomes the block's.  Only the run stream may use such blocks, so what is
 * queued there for the old owner comes before what the new one queues.
 */
cag_status cuda_take(struct cuda *c, void **out, uint64_t *bytes,
                     const char *what, cag_error *err);
void cuda_give(struct cuda *c, void *dev_p, uint64_t bytes);
void cuda_drop_spare(struct cuda *c);
/* What a block of so many bytes takes of the device's pages. */
uint64_t cuda_block_bytes(uint64_t bytes);
/* Bytes that could be allocated now, spare blocks included. */
cag_status cuda_room(struct cuda *c, uint64_t *bytes, cag_error *err);
/* CAG_E_NOMEM unless so many bytes could be allocated now. */
cag_status cuda_check_room(struct cuda *c, uint64_t bytes, const char *what,
                           cag_error *err);
/* cos and sin of positions up to n_pos on the device. */
#define CUDA_POSITION_STEP 4096
cag_status cuda_positions(struct cuda *c, int n_pos, cag_error *err);
uint64_t cuda_position_bytes(const struct cuda *c);
void cuda_drop_graphs(struct cuda *c);
/* At least so many bytes in room; graphs do not outlive its growth.  Nothing
 * is queued that uses it. */
cag_status cuda_grow(struct cuda *c, struct cuda_room *room, uint64_t bytes,
                     const char *what, cag_error *err);
void cuda_drop_room(struct cuda *c, struct cuda_room *room);

/* ------------------------------------------------------------- feed_cuda.c */

struct feed_desc {
    int n_group;
    const int *group_end; /* borrowed, see load_pipe.h */
    size_t slot_bytes;
    /* readers: item's bytes into pinned memory */
    cag_status (*fill)(void *ctx, int item, uint8_t *data, cag_error *err);
    /* the owner: queue item's copy on s; a code of kernels_cuda.h */
    int (*send)(void *ctx, struct cuk_stream *s, int item, const uint8_t *data);
    void *ctx;
    const char *what;    /* for messages */
    enum cuda_mark mark; /* its groups; CUDA_N_MARK: untold */
};
cag_status feed_new(struct cuda *c, const struct feed_desc *d,
                    struct feed **out, cag_error *err);
/* From here on, the run stream comes after all copies of the group. */
cag_status feed_need(struct feed *f, int group, cag_error *err);
bool feed_done(const struct feed *f);
/* Waits for copies under way. */
void feed_free(struct feed *f);

/* ---------------------------------------------------------- weights_cuda.c */

/* Bytes of all tensors that layers from layer0 on need on the device. */
cag_status weights_cuda_size(const struct model_weights *w,
                             const struct model_config *cfg, int layer0,
                             uint64_t *out, cag_error *err);
/* Allocate, and start reading. */
cag_status weights_cuda_start(struct cuda *c, cag_error *err);
/* Layer -1: the embedding; n_layer: what comes after the last. */
cag_status weights_cuda_need(struct cuda *c, int layer, cag_error *err);
/* Release the loader when it has nothing left to do; the run stream has been
 * waited for.  force: whatever it has left. */
void weights_cuda_settle(struct cuda *c, bool force);

/* ----------------------------------------------------------- prefix_cuda.c */

cag_status cuda_prefix_new(struct backend *b, const cag_kvc *k, int n_tok,
                           struct backend_prefix **out, cag_error *err);
void cuda_prefix_free(struct backend_prefix *p);
uint64_t cuda_prefix_bytes(const struct backend_prefix *p);
cag_status cuda_prefix_load(struct backend_prefix *p, cag_error *err);

/* ---------------------------------------------------------- kvcache_cuda.c */

cag_status cuda_kv_new(struct backend *b, struct backend_prefix *p, int max_tok,
                       struct backend_kv **out, cag_error *err);
void cuda_kv_free(struct backend_kv *kv);
void cuda_kv_truncate(struct backend_kv *kv, int n_tok);
int cuda_kv_room(struct backend *b, struct backend_prefix *p, int max_tok);
/* Before a pass touches a layer: its prefix is there, and the partial tile
 * copied.  Queued on run. */
cag_status cuda_kv_ready(struct cuda_kv *kv, int layer, cag_error *err);
/* After an overflow, slots past the end may be infinite, and 0 times that is
 * NaN: clear them.  Before a timeline is used again. */
cag_status cuda_kv_clean(struct cuda_kv *kv, cag_error *err);
bool cuda_kv_settled(const struct cuda_kv *kv);
void cuda_kv_describe(const struct cuda_kv *kv, struct cuk_kv *out);

/* ----------------------------------------------------------- export_cuda.c */

cag_status cuda_kv_export(const struct backend_kv *kv,
                          const struct kvc_shape *shape, int layer, int chunk,
                          uint8_t *dst, cag_error *err);
cag_status cuda_kv_import(struct backend_kv *kv, const cag_kvc *k, int n_tok,
                          cag_error *err);

/* ------------------------------------------------------------ trace_cuda.c */

/* If base.trace: the first pass begins. */
void trace_cuda_start(struct cuda *c);
/* If base.trace: remember when s has come this far. */
int trace_cuda_mark(struct cuda *c, enum cuda_mark what, int i,
                    struct cuk_stream *s);
void trace_cuda_list(struct backend *b, backend_moment_fn *fn, void *ctx);
void trace_cuda_free(struct cuda *c);

/* ---------------------------------------------------------- forward_cuda.c */

/* Rows up to which a matrix is read by GEMV: a quantized one as often as that
 * is cheaper than expanding it. */
static inline int cuda_few_rows(const struct kmat *w)
{
    return kt_quantized(w->type) ? CUK_GEMV_MOST : CUK_GEMV_ROWS;
}
/* Attention items and states of any pass, and the sizes of what goes there
 * and comes back. */
void forward_cuda_bounds(struct cuda *c);
cag_status forward_cuda(struct backend *b, const struct forward_req *req,
                        cag_error *err);

#endif
