/*
 * ask.h - open a cache with its model, and ask it: one question, or a
 * conversation.
 */
#ifndef CAG_ASK_H
#define CAG_ASK_H

#include <cag/base.h>
#include <cag/kvc.h>
#include <cag/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cag_stale {
    CAG_STALE_ERROR,
    CAG_STALE_WARN,
    CAG_STALE_IGNORE
} cag_stale;

typedef struct cag_kb_opts {
    const char *model; /* overrides every other place, or NULL      */
    cag_stale stale;
    bool verify_full; /* check every digest before answering       */
    bool no_cache;    /* read the whole prompt instead             */
    bool no_weights;  /* --dry-run: prompts only                   */
    int64_t n_ctx;    /* 0 = what the cache says                   */
    cag_engine_opts engine;
    cag_places places;
    cag_hooks hooks;
} cag_kb_opts;
CAG_API void cag_kb_opts_init(cag_kb_opts *o);

/* An open cache with its model, ready to answer.  One thread at a time. */
typedef struct cag_kb cag_kb;

CAG_API cag_status cag_kb_open(const char *path, const cag_kb_opts *o,
                               cag_kb **out, cag_error *err);
CAG_API void cag_kb_close(cag_kb *kb);
CAG_API const cag_kvc *cag_kb_get_kvc(const cag_kb *kb);
CAG_API const char *cag_kb_kernels(const cag_kb *kb);
CAG_API const char *cag_kb_device(const cag_kb *kb);
/* The device in words and why this one; and its memory in use. */
CAG_API const char *cag_kb_note(const cag_kb *kb);
CAG_API cag_device_memory cag_kb_device_memory(const cag_kb *kb);
CAG_API uint64_t cag_kb_device_bytes(const cag_kb *kb);
CAG_API int64_t cag_kb_n_ctx(const cag_kb *kb);
CAG_API int cag_kb_sources_unseen(const cag_kb *kb);
CAG_API double cag_kb_load_s(const cag_kb *kb);
/* bytes of K and V of the prefix: held privately; mapped and shared */
CAG_API uint64_t cag_kb_private_bytes(const cag_kb *kb);
CAG_API uint64_t cag_kb_mapped_bytes(const cag_kb *kb);

typedef struct cag_ask_params {
    int64_t max_tok; /* generated tokens at most, default 120     */
    cag_sampling sampling;
    const char *const *stop; /* [n_stop] strings that end an answer       */
    int n_stop;
    bool think;
    bool no_lookup; /* no guesses from the knowledge; the answer
                       is the same                               */
} cag_ask_params;
CAG_API void cag_ask_params_init(cag_ask_params *p);

typedef struct cag_answer {
    char *text; /* heap; valid UTF-8, trimmed of whitespace at
                   both ends; stop string not included       */
    size_t size;
    char *reasoning;    /* heap or NULL                              */
    bool refused;       /* exactly the refusal                       */
    const char *finish; /* "stop", "length"; static                  */
    int64_t n_cached, n_prompt, n_generated;
    /* prompt tokens computed now, not cached    */
    int64_t n_drafted, n_accepted;
    /* tokens guessed, and guessed right         */
    double prefill_s, first_s, decode_s;
    /* first_s: from the call to the first token */
} cag_answer;
CAG_API void cag_answer_release(cag_answer *a);

/* Called with answer text as it becomes final (whole UTF-8 characters), and
 * with size 0 between tokens that bring none; false stops the answer
 * (CAG_E_CANCELLED, *out filled so far). */
typedef bool (*cag_text_fn)(void *ctx, const char *text, size_t size);

/*
 * Answer one question from the clean prefix.  Errors: CAG_E_FORMAT (empty
 * or blank question, invalid UTF-8), CAG_E_LIMIT (does not fit, with the
 * numbers).
 */
CAG_API cag_status cag_kb_ask(cag_kb *kb, const char *question, size_t size,
                              const cag_ask_params *p, cag_text_fn fn,
                              void *ctx, cag_answer *out, cag_error *err);

/*
 * A conversation: earlier turns are kept, and each new turn reads again all
 * that follows the knowledge, so that turn N equals a cold run.  An answer
 * that was stopped (CAG_E_CANCELLED) is kept as far as it came; if it had not
 * begun, or after another error, the question is forgotten too.
 */
typedef struct cag_chat cag_chat;
CAG_API cag_status cag_chat_new(cag_kb *kb, cag_chat **out, cag_error *err);
CAG_API void cag_chat_free(cag_chat *c);
CAG_API void cag_chat_reset(cag_chat *c);
CAG_API cag_status cag_chat_ask(cag_chat *c, const char *question, size_t size,
                                const cag_ask_params *p, cag_text_fn fn,
                                void *ctx, cag_answer *out, cag_error *err);

/* The exact prompt of a question, and where its cached part ends. */
typedef struct cag_prompt_view {
    char *text; /* heap */
    size_t size, cached_bytes;
    int64_t n_cached, n_prompt, room; /* room: tokens left for an answer  */
} cag_prompt_view;
CAG_API cag_status cag_kb_prompt(cag_kb *kb, const char *question, size_t size,
                                 bool think, cag_prompt_view *out,
                                 cag_error *err);

/* Does the template know a switch for thinking?  Else think changes nothing. */
CAG_API bool cag_kb_knows_thinking(const cag_kb *kb);

/* One line of JSON (heap, no newline) for an answer; id may be NULL. */
CAG_API char *cag_answer_json(const cag_kb *kb, const cag_answer *a,
                              const char *question, size_t size, const char *id,
                              const cag_ask_params *p);

#ifdef __cplusplus
}
#endif
#endif
