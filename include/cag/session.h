/*
 * session.h - an engine runs a model; a session is one timeline of tokens.
 *
 * A session's timeline is a shared, mapped prefix (optional) followed by
 * private tokens.  Creating one copies at most the last, partial tile of the
 * prefix and can never alter it.  An engine owns the threads and the
 * scratch memory: its sessions are used by one thread at a time; several
 * engines may share one model and one prefix.
 *
 * Cached equals cold: on the CPU, ids, logits and greedy answers do not
 * depend on where the prefix ends, on threads, on pass_rows or on the
 * other sessions of a step.
 */
#ifndef CAG_SESSION_H
#define CAG_SESSION_H

#include <cag/base.h>
#include <cag/kvc.h>
#include <cag/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cag_engine cag_engine;
typedef struct cag_prefix cag_prefix;
typedef struct cag_session cag_session;

typedef enum cag_precision {
    CAG_PRECISION_DEFAULT, /* f32 for prompts; i16 activations on quantized
                              weights for generated tokens and logits       */
    CAG_PRECISION_EXACT,   /* f32 in both                                   */
    CAG_PRECISION_FAST,    /* bf16 or 4 x 8 bits for prompts, where this CPU
                              is faster so; else as default                 */
    CAG_PRECISION_FAST8,   /* as fast; 4-bit weights meet 8-bit inputs where
                              this CPU is faster so than with bf16          */
    CAG_PRECISION_AUTO     /* cag_kb: as the cache was built; else default  */
} cag_precision;

/* "default", "exact", "fast", "fast8", "auto", NULL past them; and back, an
 * unknown name: default */
CAG_API const char *cag_precision_name(cag_precision p);
CAG_API cag_precision cag_precision_of(const char *name);

typedef struct cag_engine_opts {
    const char *device; /* "auto", "cpu", "cuda[:N]"; NULL = auto    */
    int n_thread;       /* 0 = usable CPUs                           */
    int pass_rows;      /* prompt tokens per pass; 0 = 512 on the
                           CPU, 2,048 on a GPU                       */
    cag_precision precision;
    bool kv_f32;         /* keep K and V as f32 (tests, codec f32)    */
    const char *plugin;  /* libcag-cuda.so; NULL = beside the program,
                            ../lib/cag, the library directory         */
    uint64_t max_memory; /* of a GPU, at most; 0 = what is free       */
    uint64_t max_host;   /* of the host, for what the CPU computes:
                            weights, caches, sessions, scratch; 0 = no
                            limit                                     */
    int gpu_layers;      /* the last so many layers are a GPU's, the
                            rest the CPU's; 0 = all are, or an error;
                            CAG_GPU_LAYERS_AUTO = as many as leave room
                            for so many positions of K and V (f16):   */
    int room_tok;
    uint64_t reserved[8]; /* 0                                       */
} cag_engine_opts;
#define CAG_GPU_LAYERS_AUTO (-1)

CAG_API cag_status cag_engine_new(const cag_model *m,
                                  const cag_engine_opts *opts, cag_engine **out,
                                  cag_error *err);
CAG_API void cag_engine_free(cag_engine *e);
CAG_API int cag_engine_n_thread(const cag_engine *e);
CAG_API const char *cag_engine_kernels(const cag_engine *e); /* "avx2"     */
/* The order of operations of prompts, and what else computes: equal names,
 * equal bits.  Which one --precision fast gets depends on the CPU. */
CAG_API const char *cag_engine_numerics(const cag_engine *e);
/* What computes the products of prompts: "amx", or "f32" where nothing that
 * is less precise was asked for, or nothing is faster here. */
CAG_API const char *cag_engine_products(const cag_engine *e);
CAG_API const char *cag_engine_device(const cag_engine *e); /* "cpu"      */
/* The device in words and why it was chosen, one line; *warn (may be NULL):
 * a GPU is there and could not be used, which the user should hear. */
CAG_API const char *cag_engine_note(const cag_engine *e, bool *warn);
/* Memory of the device's own that is in use; all 0 on the CPU. */
typedef struct cag_device_memory {
    uint64_t weights, caches;
    uint64_t sessions; /* also of past ones, kept for the next      */
    uint64_t scratch;  /* also cuBLAS' workspace, tables            */
} cag_device_memory;
CAG_API cag_device_memory cag_engine_device_memory(const cag_engine *e);
CAG_API uint64_t cag_engine_device_bytes(const cag_engine *e); /* sum  */
/* Sessions of max_tok positions that could still be made before memory of
 * the device or a limit ends; large on the CPU without one. */
CAG_API int cag_engine_room(cag_engine *e, cag_prefix *p, int max_tok);
/* Called between layers with tokens done; false cancels (CAG_E_CANCELLED). */
CAG_API void cag_engine_set_progress(cag_engine *e, cag_progress_fn fn,
                                     void *ctx);

/*
 * A cache's K and V, for sessions of this engine.  Chunks are checked and,
 * for f16z, expanded layer by layer when first needed, by all threads.
 * The kvc must outlive it.  CAG_E_MISMATCH when the shapes differ from the
 * model's (whether it is the right model is cag_kb's business, ask.h).
 */
CAG_API cag_status cag_prefix_new(cag_engine *e, const cag_kvc *k,
                                  cag_prefix **out, cag_error *err);
CAG_API void cag_prefix_free(cag_prefix *p);
/* Private bytes it holds (0 for codecs computed in place). */
CAG_API uint64_t cag_prefix_private_bytes(const cag_prefix *p);
/* Seconds within passes so far that went into checking and expanding it. */
CAG_API double cag_prefix_seconds(const cag_prefix *p);
/* Load all layers now instead of when needed. */
CAG_API cag_status cag_prefix_load(cag_prefix *p, cag_error *err);

/* max_tok: positions at most, prefix included.  prefix may be NULL. */
CAG_API cag_status cag_session_new(cag_engine *e, cag_prefix *prefix,
                                   int max_tok, cag_session **out,
                                   cag_error *err);
CAG_API void cag_session_free(cag_session *s);
CAG_API int cag_session_n_tok(const cag_session *s);
/* Drop tokens after n_tok; not below the prefix's length. */
CAG_API cag_status cag_session_truncate(cag_session *s, int n_tok,
                                        cag_error *err);

/*
 * Append prompt tokens to the timeline and compute their K and V.
 *
 *   ids     [n_ids] ids in [0, n_vocab); borrowed for the call
 *   logits  [n_vocab] f32 after the last id, or NULL to skip the output
 *           layer; owned by the session, valid until its next call
 *
 * One forward pass per pass_rows ids.  After an error the timeline has the
 * length it had before.  Errors: CAG_E_USAGE (an id out of range, n_ids 0),
 * CAG_E_LIMIT (max_tok), CAG_E_UNSUPPORTED (K or V overflows f16; names
 * layer and token), CAG_E_CORRUPT (prefix), CAG_E_CANCELLED.
 */
CAG_API cag_status cag_session_prefill(cag_session *s, const int32_t *ids,
                                       int n_ids, const float **logits,
                                       cag_error *err);

/*
 * Append one generated token to each of n sessions of one engine and
 * compute the logits after it: logits[i] as above, owned by session i.
 * Sessions that share a prefix read it once.
 */
CAG_API cag_status cag_session_step(cag_session *const *s, const int32_t *id,
                                    int n, const float **logits,
                                    cag_error *err);

/*
 * The same with drafts: besides the generated token a session may bring up
 * to CAG_STEP_MAX - 1 drafted tokens that may follow it.  All are appended, and
 * logits holds a row after each: row i is, bit for bit, what steps with
 * ids[0] .. ids[i] one by one give.  A drafted token that differs from what is
 * picked from the row before it is taken back, with all after it, by
 * cag_session_truncate.  A few drafts cost little where reading the weights
 * takes the time.  Errors as above; a draft can also be the one whose K or V
 * overflows (CAG_E_UNSUPPORTED), in a text that does not.
 */
#define CAG_STEP_MAX 4
typedef struct cag_step {
    cag_session *session;
    const int32_t *ids;  /* [n_ids] the generated token, then drafts   */
    int n_ids;           /* 1 .. CAG_STEP_MAX                          */
    const float *logits; /* out: [n_ids, n_vocab], the session's       */
    /* Only the id of the largest logit of each row is wanted, the lowest of
     * equals: best is set, logits is NULL.  A GPU then sends an id back
     * instead of a vocabulary.                                             */
    bool greedy;
    int32_t best[CAG_STEP_MAX]; /* out: [n_ids]                 */
} cag_step;
CAG_API cag_status cag_session_verify(cag_step *step, int n, cag_error *err);
/*
 * cag_session_prefill for several sessions at once: ids are prompt tokens,
 * any number of them, logits the row after the last, best its choice.  Short
 * prompts share passes, and so the reading of the weights and of a common
 * prefix.  After an error every session has the length it had.
 */
CAG_API cag_status cag_session_prefill_many(cag_step *step, int n,
                                            cag_error *err);

/* ---------------------------------------------------------------- sampling */

typedef struct cag_sampling {
    float temperature; /* 0 = greedy */
    int top_k;         /* 0 = off */
    float top_p;       /* 1 = off */
    float min_p;       /* 0 = off */
    uint64_t seed;
    uint64_t row; /* the generator is f(seed, row) */
} cag_sampling;
#define CAG_SAMPLING_INIT         \
    {                             \
        0.0f, 0, 1.0f, 0.0f, 0, 0 \
    }

typedef struct cag_sampler cag_sampler;
CAG_API cag_status cag_sampler_new(const cag_sampling *p, int n_vocab,
                                   cag_sampler **out, cag_error *err);
/* Ties go to the lowest id. */
CAG_API int32_t cag_sampler_pick(cag_sampler *s, const float *logits);
CAG_API void cag_sampler_free(cag_sampler *s);

#ifdef __cplusplus
}
#endif
#endif
