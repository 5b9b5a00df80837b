/*
 * backend.h - the table of operations a device fills; internal.
 *
 * The seam lies at whole forward passes, so that a device can keep weights,
 * K and V and every intermediate where it computes: a session hands over
 * rows (which timeline, which position, which id) and takes back logits.
 * What a session knows about positions, limits and errors stays above the
 * seam; what a device knows about memory and threads stays below it.
 *
 * A backend belongs to one engine and is called by one thread at a time.
 * Structs of a device begin with the base struct of the same role.
 */
#ifndef ENGINE_BACKEND_H
#define ENGINE_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include <cag/session.h>

#include "engine/copy_head.h"
#include "engine/kv_view.h"
#include "kernels/kernels.h"
#include "kvc/kvc_layout.h"
#include "util/pool.h"

/* Attention reads the tiles of a cache where they are mapped. */
_Static_assert(KV_TILE == KVC_TILE, "one tile in memory and in a file");

struct backend_ops;
struct backend {
    const struct backend_ops *ops;
    int max_row;             /* rows of one forward pass at most */
    int pass_rows;           /* rows of a prompt pass; at most max_row */
    int layer0, layer1;      /* of the model's layers, [layer0, layer1) are
                                computed; see forward_req                  */
    const char *prompt_gemm; /* name of the GEMM of prompts: "f32"          */
    bool views, masses;      /* forward_row.view, .mass are understood */
    bool warn;               /* the user should see note: a GPU is there, but
                                not used */
    bool trace;              /* set before the first pass: remember when its
                                parts ended (timeline) */
    char note[384];          /* the device, and why this one; one line */
};
struct backend_prefix { /* a cache's K and V on the device */
    struct backend *backend;
};
struct backend_kv { /* one timeline's K and V */
    struct backend *backend;
};

/*
 * The phase chooses the arithmetic, never the number of rows: prompt tokens
 * use the f32 matrix product, generated tokens and all logits the row
 * kernels.  Rows of a step may belong to one timeline or to many; rows of
 * one timeline are adjacent and ascend by one position each.
 */
enum forward_phase { FORWARD_PROMPT, FORWARD_STEP };

struct forward_row {
    struct backend_kv *kv;
    int32_t pos, id;
    float *logits;              /* [n_vocab], or NULL: not wanted */
    int32_t *best;              /* not NULL: only the first index of the
                                   largest logit is wanted, here; logits
                                   is the backend's to use */
    const struct kv_view *view; /* what it sees of its prefix; NULL: all */
    double *mass;               /* [n_head, tokens of the prefix], or NULL:
                                   the row's share of attention that the
                                   request's heads give each is added */
};

/*
 * Of two backends that share the layers (backend_split.c), the first writes
 * x, the rows' residual stream, after its last layer and returns no logits,
 * though it is told whose are wanted; the last starts from x.
 */
struct forward_req {
    enum forward_phase phase;
    int n_row;                     /* 1 .. max_row */
    const struct forward_row *row; /* of one prefix and view adjoin    */
    float *x;                      /* [n_row, d_model]; NULL: all layers
                                      are the backend's              */
    const struct copy_head *head;  /* [n_head] ascending; for mass   */
    int n_head;
    /* Called between layers; false cancels.  May be NULL. */
    bool (*progress)(void *ctx, int layer, int n_layer);
    void *ctx;
};

/* Copies of layer i, or its computation, ended ms after the first pass
 * began. */
typedef void backend_moment_fn(void *ctx, const char *what, int i, double ms);

struct backend_ops {
    const char *name; /* "cpu" */
    void (*free)(struct backend *b);
    /* Names of the arithmetic; valid as long as the backend. */
    const char *(*kernels)(const struct backend *b);
    const char *(*numerics)(const struct backend *b);
    /* Memory of the device's own that is in use; NULL where it is the
     * host's. */
    cag_device_memory (*memory)(const struct backend *b);

    /* The first n_tok tokens of a kvc; its shape fits the model, n_tok the
     * shape (checked above the seam). */
    cag_status (*prefix_new)(struct backend *b, const cag_kvc *k, int n_tok,
                             struct backend_prefix **out, cag_error *err);
    void (*prefix_free)(struct backend_prefix *p);
    uint64_t (*prefix_private_bytes)(const struct backend_prefix *p);
    /* Seconds that checking and expanding it took within passes; NULL where
     * nothing of that is done there. */
    double (*prefix_seconds)(const struct backend_prefix *p);
    cag_status (*prefix_load)(struct backend_prefix *p, cag_error *err);

    /* Room for positions up to max_tok, prefix included; p may be NULL. */
    cag_status (*kv_new)(struct backend *b, struct backend_prefix *p,
                         int max_tok, struct backend_kv **out, cag_error *err);
    void (*kv_free)(struct backend_kv *kv);
    /* How many such timelines could still be made: a large number where
     * nothing limits them. */
    int (*kv_room)(struct backend *b, struct backend_prefix *p, int max_tok);
    /* Forget every position from n_tok on, also those a failed pass left. */
    void (*kv_truncate)(struct backend_kv *kv, int n_tok);
    cag_status (*kv_export)(const struct backend_kv *kv,
                            const struct kvc_shape *shape, int layer, int chunk,
                            uint8_t *dst, cag_error *err);
    /* Positions 0 .. n_tok-1 of an empty timeline from an old cache. */
    cag_status (*kv_import)(struct backend_kv *kv, const cag_kvc *k, int n_tok,
                            cag_error *err);

    /* Codec q8h, engine/session.h; NULL where a device cannot. */
    cag_status (*kv_gather)(struct backend_kv *kv, int from, cag_error *err);
    cag_status (*kv_balance)(struct backend_kv *kv, int n_tok, cag_error *err);

    /* K and V of all rows, and the logits asked for.  After an error the
     * caller truncates the timelines it named. */
    cag_status (*forward)(struct backend *b, const struct forward_req *req,
                          cag_error *err);
    /* What trace remembered; NULL where there is nothing to tell. */
    void (*timeline)(struct backend *b, backend_moment_fn *fn, void *ctx);
};

struct backend_opts {
    int pass_rows; /* of a prompt; 0: the device's */
    cag_precision precision;
    bool kv_f32;
    struct pool *pool;   /* borrowed, outlives the backend */
    uint64_t max_memory; /* of a GPU; 0: what is free */
    uint64_t max_host;   /* of the host, for the CPU; 0: no limit */
    const char *plugin;  /* path of libcag-cuda.so; NULL: looked for */
    int gpu_layers;      /* as in cag_engine_opts */
    int room_tok;
    int layer1; /* the CPU's part ends before it; 0: it has
                   all layers */
};

/*
 * Open the device a user named: "auto" (NULL is the same), "cpu", "cuda" or
 * "cuda:N".  auto falls back to the CPU and says why in note.  CAG_E_USAGE
 * for any other text, CAG_E_UNSUPPORTED or CAG_E_BACKEND for a device that
 * cannot be used here, CAG_E_NOMEM for one that is too small.
 */
cag_status backend_load(const char *device, const cag_model *m,
                        const struct backend_opts *opts, struct backend **out,
                        cag_error *err);
/* The CPU; its part of the layers is opts->layer1's. */
cag_status cpu_new(const cag_model *m, const struct backend_opts *opts,
                   struct backend **out, cag_error *err);
/* The scratch it would allocate with n_thread threads; m may be open without
 * its weights.  CAG_E_UNSUPPORTED: no set of kernels. */
cag_status cpu_scratch_bytes(const cag_model *m,
                             const struct backend_opts *opts, int n_thread,
                             uint64_t *bytes, cag_error *err);
/*
 * The first layers on the CPU, the others where last (which begins after the
 * first layer) has them.  last is the new backend's, or freed on failure.
 */
cag_status split_new(const cag_model *m, const struct backend_opts *opts,
                     struct backend *last, struct backend **out,
                     cag_error *err);

#endif
