/*
 * base.h - what every job shares: where models are looked for, and the
 * callbacks through which a job speaks and is stopped.
 *
 * Nothing in the library reads the environment: what a program found there
 * it passes in cag_places.  Strings and structs handed in are borrowed for
 * the call, unless a header says for how long; a pointer may be NULL only
 * where its header says so.
 *
 * How structs stay usable when the library is exchanged (libcag(3),
 * Compatibility): a struct of options begins with its size, which its `_init'
 * sets; one that the library hands out by pointer may get new members at its
 * end; all others never change their size, and those that may need more hold
 * reserved members.
 */
#ifndef CAG_BASE_H
#define CAG_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cag/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that runs, as CAG_VERSION was when it was built;
 * static. */
CAG_API const char *cag_version(void);

/* Free a heap string or array that came alone from this library; NULL is
 * allowed.  Structs have a `_release' of their own. */
CAG_API void cag_free(void *p);

/* Where models and remembered hashes are looked for.  All may be NULL. */
typedef struct cag_places {
    const char *model;        /* CAG_MODEL                                 */
    const char *models;       /* of models: directories, colon-separated   */
    const char *hf_hub;       /* $HF_HOME/hub                              */
    const char *cache_dir;    /* writable, for remembered model hashes     */
    const char *cache_dir_ro; /* asked second                              */
    const void *reserved[3];  /* NULL                                      */
} cag_places;

/* A remark that is no error, one line without newline. */
typedef enum cag_note {
    CAG_NOTE_WARN,
    CAG_NOTE_INFO,   /* for who asked for more     */
    CAG_NOTE_DETAIL, /* for who asked twice        */
    CAG_NOTE_WAIT    /* why nothing happens for now */
} cag_note;
/* line is valid during the call. */
typedef void (*cag_note_fn)(void *ctx, cag_note kind, const char *line);

/* What a progress counts. */
typedef enum cag_unit {
    CAG_UNIT_NONE, /* nothing: what alone is told, done and total are 0 */
    CAG_UNIT_TOKENS,
    CAG_UNIT_BYTES,
    CAG_UNIT_ROWS
} cag_unit;

/*
 * How far a job is.  done never falls while what stays; tokens are told a
 * layer at a time, so that it may stay the same.
 *
 *   what                          unit     of
 *   "prefill" "receipt"           TOKENS   a build, a question, cag_session
 *   "write" "verify" "filter"     BYTES    of K and V; of a filter's output
 *   "rows"                        ROWS     cag_kb_batch, cag_kb_ask_many
 *   "questions"                   ROWS     cag_eval_run (cag-bench eval)
 *   a figure's name               NONE     cag-bench
 */
typedef struct cag_progress {
    const char *what; /* valid during the call                             */
    cag_unit unit;
    uint64_t done, total; /* total: 0 where it is not known                */
} cag_progress;

/* Called between the steps of long work, in the thread that made the call;
 * false cancels it (CAG_E_CANCELLED). */
typedef bool (*cag_progress_fn)(void *ctx, const cag_progress *p);

/* Callbacks of a job; all may be NULL.  They must not call into the object
 * that is at work. */
typedef struct cag_hooks {
    cag_note_fn note;
    cag_progress_fn progress;
    void *ctx; /* of both */
} cag_hooks;

#ifdef __cplusplus
}
#endif
#endif
