/*
 * engine.h - what the files of an engine and its sessions share.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/backend.h"
#include "engine/session.h"
#include "model/model.h"

struct cag_engine {
    const cag_model *model;
    struct pool *pool;
    struct backend *backend;
    int pass_rows;           /* of a prompt */
    struct forward_row *row; /* [backend->max_row] of the next pass */
    uint64_t stamp;          /* of the last step, see session.c */
    struct copy_head *head;  /* [n_head] whose mass is measured, or NULL */
    int n_head;
    int n_measured; /* sessions whose rows add somewhere */
    cag_progress_fn progress;
    void *progress_ctx;
};

struct cag_prefix {
    cag_engine *engine;
    struct backend_prefix *impl;
    const cag_kvc *kvc; /* borrowed: outlives the prefix */
    int n_tok;
};

struct cag_session {
    cag_engine *engine;
    cag_prefix *prefix; /* or NULL */
    struct backend_kv *kv;
    int n_tok, max_tok;
    float *logits;        /* [CAG_STEP_MAX, n_vocab] */
    uint64_t stamp;       /* of the last step it was part of */
    struct kv_view *view; /* or NULL: all of the prefix is seen */
    /* session_mass.c: where rows add, or NULL; and where drafts do,
     * [CAG_STEP_MAX
     * - 1] times as much, until it is known which of them stay. */
    double *mass, *draft_mass;
    bool mass_rows;         /* rows of a prompt add to sums of their own */
    int draft_pos, n_draft; /* positions of the last step's drafts */
};

/* Where row t of a step of the session adds; NULL: nowhere. */
double *session_mass_row(cag_session *s, int t);
/* The same of row i of a prompt. */
double *session_mass_prompt(const cag_session *s, int i);
/* Drafts before position n_tok stay: they are added; the others are not. */
void session_mass_settle(cag_session *s, int n_tok);

/* An engine of a backend made elsewhere, for passes with pool's threads; both
 * are the engine's, or freed on failure. */
cag_status engine_with_backend(const cag_model *m, struct pool *pool,
                               struct backend *b, cag_engine **out,
                               cag_error *err);

/* Before the first pass: remember when its parts end on the device. */
void engine_trace(cag_engine *e);
/* What was remembered, if anything; see backend.h. */
void engine_timeline(cag_engine *e, backend_moment_fn *fn, void *ctx);

#endif
