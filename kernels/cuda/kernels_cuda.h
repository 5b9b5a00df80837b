/*
 * kernels_cuda.h - the GPU as plain C: a device, its memory and queues, and
 * one launcher per operation.
 *
 * backend_cuda.c includes this and never a CUDA header.  Everything here is
 * built into libcag-cuda.so (nvcc), or for the tests into a host program
 * that runs the same sources on fibers (tests/cuda/cuda_shim.h).
 *
 * Order.  A launcher or copy only queues work on its stream; what it names
 * must stay alive and unchanged until the stream has passed it.  Streams
 * order nothing among each other: cuk_stream_wait on a recorded event does.
 * Nothing here waits for the device but functions with _sync in their name,
 * cuk_alloc, cuk_free and the like.
 *
 * Errors.  Functions return 0, or the code of the runtime (nonzero).  The
 * first failure of a device is kept with the call and the place; after a
 * sticky one every later call fails too and the process should end.  A failed
 * cuk_alloc is reported but not kept.
 *
 * Memory.  dev_ pointers are device memory from cuk_alloc (256-aligned) or
 * inside it, 16-aligned.  A struct kmat on the device
 * is the struct of kernels.h with data in device memory: the whole tensor
 * as stored; d_in is a multiple of 8.
 *
 * Numbers.  Activations between kernels are f32, or, as operands of cuk_gemm,
 * of an operand type: KT_BF16 (default), KT_F16, KT_F32.  Accumulation is
 * f32.  Agreement with ref is stated at each operation; u is 2^-8 for
 * KT_BF16, 2^-11 for KT_F16, 0 for KT_F32: the rounding of the operand type.
 */
#ifndef KERNELS_CUDA_KERNELS_CUDA_H
#define KERNELS_CUDA_KERNELS_CUDA_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ device */

struct cuk_dev;
struct cuk_stream;
struct cuk_event;
struct cuk_graph;

struct cuk_err {
    int code;         /* 0: none; the runtime's or cuBLAS' number   */
    const char *name; /* "cudaErrorMemoryAllocation", static        */
    const char *call; /* "cudaMalloc" or the kernel's name, static  */
    const char *file; /* where, static                              */
    int line;
    bool sticky; /* the process has lost the device            */
};

struct cuk_info {
    char name[256];
    int sm;              /* 89 is compute capability 8.9               */
    int n_sm;            /* multiprocessors                            */
    int driver, runtime; /* 13000 is 13.0; 0: no driver          */
    uint64_t mem_total;  /* bytes                                      */
    int smem_block;      /* bytes of shared memory a block may ask for */
};

/* The smallest compute capability the kernels are built for. */
#define CUK_SM_MIN  75
/* The first whose tensor cores take bf16. */
#define CUK_SM_BF16 80

/*
 * Devices of this machine.  *n = 0 and an error when there is no driver or
 * it is too old; *driver and *runtime (may be NULL) are set either way.
 * Creates no context.
 */
int cuk_count(int *n, int *driver, int *runtime, struct cuk_err *err);
int cuk_info(int ordinal, struct cuk_info *info, struct cuk_err *err);

/* Make a context on a device.  Slow (hundreds of milliseconds). */
int cuk_open(int ordinal, struct cuk_dev **out, struct cuk_err *err);
/* Everything made from the device must be gone.  NULL is fine. */
void cuk_close(struct cuk_dev *d);
const struct cuk_info *cuk_get_info(const struct cuk_dev *d);
/* Call once in every further thread that uses the device. */
int cuk_attach(struct cuk_dev *d);
/* Wait for all streams. */
int cuk_sync(struct cuk_dev *d);
/* First failure since cuk_open or cuk_clear; code 0 when there was none. */
const struct cuk_err *cuk_error(const struct cuk_dev *d);
void cuk_clear(struct cuk_dev *d);

int cuk_mem(struct cuk_dev *d, uint64_t *free_bytes, uint64_t *total_bytes);
/* *out = NULL on failure; err (may be NULL) says why, the device's own
 * error stays as it was when it is only a lack of memory. */
int cuk_alloc(struct cuk_dev *d, void **out, size_t bytes, struct cuk_err *err);
void cuk_free(struct cuk_dev *d, void *dev_p);
/* Host memory that copies run on asynchronously (pinned). */
int cuk_host_alloc(struct cuk_dev *d, void **out, size_t bytes,
                   struct cuk_err *err);
void cuk_host_free(struct cuk_dev *d, void *p);

/* ------------------------------------------- streams, events, copies, graphs
 */

int cuk_stream_new(struct cuk_dev *d, struct cuk_stream **out);
void cuk_stream_free(struct cuk_stream *s);
int cuk_stream_sync(struct cuk_stream *s);
/* What is queued on s from here on runs after what e recorded last. */
int cuk_stream_wait(struct cuk_stream *s, const struct cuk_event *e);

/* timing: cuk_event_ms may be asked (such events cost a little more) */
int cuk_event_new(struct cuk_dev *d, bool timing, struct cuk_event **out);
void cuk_event_free(struct cuk_event *e);
int cuk_event_record(struct cuk_event *e, struct cuk_stream *s);
int cuk_event_sync(struct cuk_event *e);
/* *done: whether the work recorded last is over.  Never waits. */
int cuk_event_done(const struct cuk_event *e, bool *done);
int cuk_event_ms(const struct cuk_event *from, const struct cuk_event *to,
                 float *ms);

enum cuk_dir { CUK_TO_DEV, CUK_FROM_DEV, CUK_ON_DEV };
int cuk_copy(struct cuk_stream *s, enum cuk_dir dir, void *dst, const void *src,
             size_t bytes);
/* n_row rows of width bytes, pitches in bytes */
int cuk_copy_2d(struct cuk_stream *s, enum cuk_dir dir, void *dst,
                size_t dst_pitch, const void *src, size_t src_pitch,
                size_t width, size_t n_row);
int cuk_memset(struct cuk_stream *s, void *dev_p, int byte, size_t bytes);

/*
 * Between begin and end, work queued on s is recorded, not run; addresses
 * and sizes are fixed by it, contents are not.  Other streams take part by
 * waiting for an event of s, and must be joined again.  cuk_gemm may be
 * captured; allocation and _sync may not.  After an error in between, end
 * gives NULL and the error.
 */
int cuk_capture_begin(struct cuk_stream *s);
int cuk_capture_end(struct cuk_stream *s, struct cuk_graph **out);
/* Whether a code says that a call is not for a capture, and nothing worse. */
bool cuk_capture_refused(int code);
int cuk_graph_launch(struct cuk_graph *g, struct cuk_stream *s);
void cuk_graph_free(struct cuk_graph *g);

/* ------------------------------------------------------------ rows, timelines
 */

/*
 * K and V on the device are tiles of kernels.h, f16, in chunks as a .kvc
 * stores them (kvc_layout.h): for one layer, chunk after chunk, each
 * [K, V][kv_head][tile of the chunk]; the last chunk holds only the tiles
 * there are.  A timeline's private tiles are one chunk of all it may need:
 * chunk_tile = n_tile.  Slots that were never written must be finite: clear
 * memory once (cuk_memset) when it is allocated.
 */
struct cuk_seg {
    uint64_t base;         /* device address of layer 0                  */
    uint64_t layer_stride; /* bytes from a layer to the next             */
    uint64_t chunk_stride; /* bytes from a chunk to the next             */
    int32_t chunk_tile;    /* tiles of a whole chunk                     */
    int32_t n_tile;        /* tiles of all chunks of a layer             */
};

/*
 * One timeline: tiles [0, n_shared) from shared, others from own, whose
 * tile 0 is the timeline's tile n_shared.  codes: the shared chunks are of
 * codec q8h, with their scales and factors (kvc_layout.h), 16-aligned; a
 * layer's first chunk says its factors.  Its rows see, of the tiles
 * [0, n_view), the keys whose bits are set in the pass's words from view on
 * (kv_view.h), and all later ones.
 */
struct cuk_kv {
    struct cuk_seg shared, own;
    int32_t n_shared;
    int32_t codes;
    int32_t view, n_view;
};

/* One row of a pass.  kv < 0: an empty row (of a graph made for more): its
 * results are unspecified and it touches no timeline; id must be valid. */
struct cuk_row {
    int32_t id, pos, kv;
    int32_t reserved;
};

/* Shape of attention in one model: d_head is a multiple of 8 up to
 * CUK_D_HEAD_MAX, n_head / n_kv_head at most CUK_ATTN_ROWS. */
struct cuk_shape {
    int n_head, n_kv_head, d_head;
};
#define CUK_ATTN_ROWS  64
#define CUK_D_HEAD_MAX 256

/* ---------------------------------------------------------- small operations
 */

/*
 * x[t] = row id of embed, f32 [n_row, d];  h[t] = rmsnorm(x[t]) * w, operand
 * type h_type, [n_row, d].  h NULL: only x.  ref: h within (u + 1e-5) * |h|.
 */
int cuk_embed_norm(struct cuk_stream *s, float *dev_x, void *dev_h, int h_type,
                   const struct kmat *embed, const float *dev_w, float eps,
                   const struct cuk_row *dev_row, int n_row);
/*
 * x[t] += y[t] + bias (either may be NULL: not added), then h = rmsnorm(x) * w
 * as above.  y [n_row, d], bias [d].  h NULL: only add.
 */
int cuk_add_norm(struct cuk_stream *s, float *dev_x, const float *dev_y,
                 const float *dev_bias, void *dev_h, int h_type,
                 const float *dev_w, float eps, int n_row, int d);
/* h[t] = rmsnorm(x[index[t]]) * w, as above: of rows that do not adjoin. */
int cuk_pick_norm(struct cuk_stream *s, void *dev_h, int h_type,
                  const float *dev_x, const int32_t *dev_index,
                  const float *dev_w, float eps, int n_row, int d);
/* out[t, i] = silu(g[t, i]) * u[t, i]; operand type, [n_row, d]; g and u
 * [n_row, ld].  ref: within (u + 1e-5) * |out| + 1e-30 */
int cuk_swiglu(struct cuk_stream *s, void *dev_out, int out_type,
               const float *dev_g, const float *dev_u, size_t ld, int n_row,
               int d);

struct cuk_rope {
    struct cuk_shape shape;
    const float *dev_bq, *dev_bk, *dev_bv; /* or NULL             */
    const float *dev_q_norm, *dev_k_norm;  /* [d_head] or NULL    */
    float eps;
    const float *dev_cos, *dev_sin; /* [positions, d_head / 2], from
                                       rope_table, times mscale      */
    float q_scale;                  /* log2(e) / sqrt(d_head)        */
    int layer;
    /* of rows whose prefix is of codes (else not written): q as keys of codes
     * want it, f16 in units of its largest value, and that unit */
    uint16_t *dev_q_rotated; /* [n_row, n_head, d_head] */
    float *dev_q_unit;       /* [n_row, n_head]         */
};
/*
 * qkv f32 [n_row, n_head + 2 n_kv_head, d_head]: biases, norm of every head
 * of q and k, rotation; q * q_scale goes to q f16 [n_row, n_head, d_head], k
 * and v to the slot of the row's position.  *dev_bad = min(*dev_bad, t) for
 * a row t with a value that does not fit f16 (set it to INT32_MAX before).
 * ref: within 1 unit of f16 + 1e-5 of the head's largest |value|.
 */
int cuk_rope_append(struct cuk_stream *s, const struct cuk_rope *r,
                    const float *dev_qkv, uint16_t *dev_q,
                    const struct cuk_row *dev_row, const struct cuk_kv *dev_kv,
                    int n_row, int32_t *dev_bad);

/* ------------------------------------------------------------------ products
 */

/* out [row1 - row0, d_in] = rows [row0, row1) of w (as the mathematics counts
 * them: perm_half is undone) in operand type out_type, tightly packed. */
int cuk_dequant(struct cuk_stream *s, void *dev_out, int out_type,
                const struct kmat *w, int row0, int row1);

/*
 * y[t, r] (+)= sum over i of x[t, i] * w[r, i]:  x [n_tok, ldx] of operand
 * type, y f32 [n_tok, ldy], add: onto what is there.  By cuBLAS; a weight
 * matrix not stored as x_type is expanded into dev_panel (panel_bytes, a
 * multiple of 256; at least one row) slice by slice.
 * ref on rounded operands: |diff| <= 1e-6 * sqrt(d_in) * sum |x * w|
 */
#define CUK_GEMM_WORKSPACE ((size_t)32 << 20)
/* Before it is captured; takes CUK_GEMM_WORKSPACE bytes of the device. */
int cuk_gemm_prepare(struct cuk_stream *s);
int cuk_gemm(struct cuk_stream *s, float *dev_y, size_t ldy, bool add,
             const void *dev_x, size_t ldx, int x_type, int n_tok,
             const struct kmat *w, void *dev_panel, size_t panel_bytes);

/*
 * Few tokens: weights are read as stored, once for CUK_GEMV_ROWS tokens; x f32
 * [n_x, ldx], n_x <= CUK_GEMV_MOST.  Up to three matrices of one d_in in one
 * launch.  With dev_norm x stands for rmsnorm(x) * norm, as of cuk_add_norm.
 *   CUK_STORE   y[i][t, r] = w[i] x (+ bias[i][r])
 *   CUK_ADD     y[i][t, r] += the same
 *   CUK_SWIGLU  y[0][t, r] = silu(w[0] x) * (w[1] x); n_mat = 2, no bias
 * ref: |diff| <= 1e-6 * sqrt(d_in) * sum |x * w|
 */
#define CUK_GEMV_ROWS 8
#define CUK_GEMV_MOST 32
enum cuk_gemv_mode { CUK_STORE, CUK_ADD, CUK_SWIGLU };
struct cuk_gemv {
    enum cuk_gemv_mode mode;
    int n_mat;
    struct kmat w[3];
    float *dev_y[3];
    size_t ldy[3];
    const float *dev_bias[3]; /* or NULL */
    const float *dev_x;
    size_t ldx; /* multiple of 4 */
    int n_x;
    const float *dev_norm; /* [d_in], 16-aligned, or NULL */
    float eps;
};
int cuk_gemv(struct cuk_stream *s, const struct cuk_gemv *g);

/*
 * id[t] = the first index of the largest logit of logits [n_row, ld], or -1
 * if one of them is infinite or not a number.  scratch:
 * CUK_ARGMAX_SCRATCH(n_row) bytes.
 */
#define CUK_ARGMAX_PARTS          64
#define CUK_ARGMAX_SCRATCH(n_row) ((size_t)(n_row)*CUK_ARGMAX_PARTS * 8)
int cuk_argmax(struct cuk_stream *s, int32_t *dev_id, const float *dev_logits,
               size_t ld, int n_row, int n_vocab, void *dev_scratch);

/* ----------------------------------------------------------------- attention
 */

/*
 * Work of one block per KV head: query rows of tokens [row0, row0 + n_row)
 * (times the GQA group) over tiles [tile0, tile1) of timeline kv.  All rows
 * see those tiles at the same addresses: they are of one timeline, or the
 * tiles lie in a prefix they share, of which they see the same.  A key is
 * visible at positions up to the row's own, in tiles that are not hidden as a
 * whole, which cost nothing.  The state (m, l, o) of token t goes to slot
 * state0[t] + split; split < 0: no other item has these rows, the result is
 * written at once. Tiles of codes and of f16 share no item. n_row = 0: nothing
 * to do (padding of a graph made for more).
 */
struct cuk_item {
    int32_t row0, n_row;
    int32_t tile0, tile1;
    int32_t kv, split;
    int32_t reserved[2];
};

/* A plan for n_row rows; arrays are the caller's, host memory. */
struct cuk_plan {
    struct cuk_item *item; /* [cap_item]                                */
    int32_t *state0;       /* [cap_row + 1]: first state of each token;
                              state0[t + 1] - state0[t] states          */
    int cap_item, cap_row, cap_state;
    int n_item, n_state;  /* results                     */
    const uint64_t *view; /* words of the timelines' views; NULL: none has */
};

/*
 * Distribute rows (adjacent rows of one timeline ascend; rows that share a
 * prefix and a view adjoin) over items, so that a prefix is read once for all
 * rows that share both, what is hidden not at all, and about n_block blocks are
 * busy (cuk_attention_blocks says how many fit): split_tile tiles each, 0:
 * chosen.  Empty rows get no item. kv: host copy of what is uploaded.  False
 * when a capacity is too small; with split_tile 0 those of cuk_plan_bound are
 * enough.
 */
bool cuk_plan_make(struct cuk_plan *p, const struct cuk_shape *shape,
                   const struct cuk_row *row, int n_row,
                   const struct cuk_kv *kv, int n_block, int split_tile);
/* Capacities for any plan of n_row rows of at most n_run timelines. */
void cuk_plan_bound(const struct cuk_shape *shape, int n_row, int n_run,
                    int n_block, int *cap_item, int *cap_state);

/* Bytes of n_state states. */
size_t cuk_state_bytes(const struct cuk_shape *shape, int n_state);

struct cuk_attn {
    struct cuk_shape shape;
    int layer;
    const uint16_t *dev_q; /* as cuk_rope_append left it        */
    const uint16_t *dev_q_rotated;
    const float *dev_q_unit;
    const struct cuk_row *dev_row;
    const struct cuk_kv *dev_kv;
    const uint64_t *dev_view; /* words of views, or NULL           */
    int n_row;
    const struct cuk_item *dev_item; /* [n_item]                          */
    int n_item;
    const int32_t *dev_state0; /* [n_row + 1]                       */
    void *dev_state;           /* cuk_state_bytes(n_state)          */
    int n_state;               /* of the plan; a graph made for any
                                  plan: not 0                       */
    void *dev_out;             /* [n_row, n_head, d_head]           */
    int out_type;              /* operand type                      */
    float *dev_norm;           /* [n_row, n_head, 2] or NULL: for cuk_mass,
                                  the largest score and the sum of
                                  2^(score - largest)               */
};
/*
 * out = softmax(q k) v, by tensor cores (f16 operands, f32 sums) and online
 * softmax, then the merge of the items' states by log-sum-exp.
 * ref on the same q and tiles: |diff| <= (u + 2^-10) * max |v|, and for what
 * the codes of q8h stand for (u + 2^-11 * (1 + max |s|)) * max |v|
 */
int cuk_attention(struct cuk_stream *s, const struct cuk_attn *a);
/* Blocks of it that the device runs at a time: cuk_plan_make's n_block. */
int cuk_attention_blocks(struct cuk_dev *d, const struct cuk_shape *shape,
                         int *n);

/*
 * What heads of a layer give each key of a prefix.  A run is rows of one
 * timeline that add to one sum; n_tok tokens of its prefix count.
 */
struct cuk_run {
    int32_t row0, n_row, n_tok, reserved;
};
struct cuk_mass {
    struct cuk_attn attn;          /* as it ran, with dev_norm */
    const struct cuk_run *dev_run; /* [n_run] */
    const int32_t *dev_head;       /* [n_head] query heads */
    int n_run, n_head;
    int n_tile; /* of the longest prefix */
    /* head i of run r at r * run_stride + i * n_tile * KV_TILE */
    float *dev_out;
    size_t run_stride;
};
/*
 * out[t] = sum over the run's rows of the share of attention that token t
 * gets, 0 where it is hidden; nothing is written from n_tok on.  Rows are
 * added in double, ascending.
 * ref on the same q and tiles: |diff| <= 1e-3 * n_row
 */
int cuk_mass(struct cuk_stream *s, const struct cuk_mass *m);

#ifdef __cplusplus
}
#endif

#endif
