/*
 * base.h - what every job shares: where models are looked for, and the
 * callbacks through which a job speaks and is stopped.
 *
 * Nothing in the library reads the environment: what a program found there
 * it passes in cag_places.  Strings and structs handed in are borrowed for
 * the call, unless a header says for how long.
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

/* Free a heap string or array that came alone from this library; NULL is
 * allowed.  Structs have a `_release' of their own. */
CAG_API void cag_free(void *p);

/* Where models and remembered hashes are looked for.  All may be NULL. */
typedef struct cag_places {
    const char *model;        /* CAG_MODEL                                 */
    const char *models;       /* CAG_MODELS, colon-separated directories   */
    const char *hf_hub;       /* $HF_HOME/hub                              */
    const char *cache_dir;    /* writable, for remembered model hashes     */
    const char *cache_dir_ro; /* asked second                              */
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

/*
 * Called between the steps of long work, in the thread that made the call;
 * false cancels it (CAG_E_CANCELLED).  what is valid during the call and says
 * what is counted:
 *
 *   "prefill" "receipt"          tokens
 *   "write" "verify" "filter"    bytes
 *   "rows"                       rows of a batch
 *
 * done never falls while what stays; total is 0 where it is not known.
 * Tokens are told a layer at a time, so that done may stay the same.
 */
typedef bool (*cag_progress_fn)(void *ctx, const char *what, uint64_t done,
                                uint64_t total);

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
