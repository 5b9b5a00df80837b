/*
 * ask.h - open a cache with its model, and ask it: one question, many at
 * once, or a conversation.
 *
 * An answer depends on the cache, the question and its parameters alone: not
 * on threads, nor on what else is answered at the same time.
 */
#ifndef CAG_ASK_H
#define CAG_ASK_H

#include <cag/base.h>
#include <cag/evidence.h>
#include <cag/kvc.h>
#include <cag/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- open */

/* What to do when the cache's sources have changed. */
typedef enum cag_stale {
    CAG_STALE_ERROR, /* CAG_E_STALE                         */
    CAG_STALE_WARN,  /* a note, and go on                   */
    CAG_STALE_IGNORE /* the sources are not even looked at  */
} cag_stale;

/* An open cache with its model, ready to answer.  One thread at a time;
 * several may be open on one file, whose pages they share. */
typedef struct cag_kb cag_kb;

typedef struct cag_kb_opts {
    size_t size;       /* set by cag_kb_opts_init                          */
    const char *model; /* path or hub id; overrides every other place; NULL:
                          places, then where the cache says it was          */
    cag_stale stale;
    bool verify_full; /* check every digest before answering               */
    bool no_cache;    /* read the whole prompt instead: the same answers   */
    bool no_weights;  /* for cag_kb_prompt and a dry run: the model is
                         neither looked for nor read                       */
    int64_t n_ctx;    /* tokens; 0 = what the cache says, and at most that */
    cag_engine_opts engine;
    cag_places places;  /* its strings are the kb's for its whole life      */
    cag_hooks hooks;    /* in use until cag_kb_close                        */
    const cag_kb *with; /* an open one, or NULL: its model is shared if this
                           cache's is the same, and its engine if the options
                           come to the same.  Those that share are used by one
                           thread, may be closed in any order, and should have
                           no progress of their own.                       */
    /* Told where the cache's file is mapped, before its first byte is read, and
     * with size 0 when nothing of it will be read any more, before it is
     * unmapped: for who handles SIGBUS, which a file that is cut short in place
     * raises wherever its bytes are read.  NULL: nobody.                   */
    void (*mapped)(void *ctx, const void *data, size_t size);
    void *mapped_ctx; /* until cag_kb_close                                */
} cag_kb_opts;
CAG_API void cag_kb_opts_init_size(cag_kb_opts *o, size_t size);
static inline void cag_kb_opts_init(cag_kb_opts *o)
{
    cag_kb_opts_init_size(o, sizeof *o);
}

/*
 * Open the cache at path: its header and small sections are checked, then
 * whether it still fits its sources, then the model is found and must be the
 * one the cache was made with; K and V are mapped, and checked when first
 * used.  o may be NULL: all defaults.  *out is set on CAG_OK alone.
 *
 * Errors: CAG_E_MISSING (cache or model), CAG_E_FORMAT and CAG_E_CORRUPT
 * (cache or model), CAG_E_UNSUPPORTED (an unfinished build, a model of
 * another kind), CAG_E_MISMATCH (another model), CAG_E_STALE (with
 * CAG_STALE_ERROR), CAG_E_LIMIT (n_ctx, max_memory), CAG_E_BACKEND,
 * CAG_E_CANCELLED (while digests are checked), CAG_E_USAGE (options without
 * _init), CAG_E_IO, CAG_E_NOMEM.  A source that could not be seen is a note.
 */
CAG_API cag_status cag_kb_open(const char *path, const cag_kb_opts *o,
                               cag_kb **out, cag_error *err);
CAG_API void cag_kb_close(cag_kb *kb); /* NULL is allowed */

/* Getters; strings and the cache are valid until cag_kb_close.  With
 * no_weights there is no engine: "none", "" and 0. */
CAG_API const cag_kvc *cag_kb_get_kvc(const cag_kb *kb);
/* As opened: a file or a directory; NULL with no_weights. */
CAG_API const char *cag_kb_model_path(const cag_kb *kb);
CAG_API const char *cag_kb_kernels(const cag_kb *kb); /* "avx2"            */
CAG_API const char *cag_kb_device(const cag_kb *kb);  /* "cpu"             */
/* The device in words and why this one; and its own memory in use, bytes. */
CAG_API const char *cag_kb_note(const cag_kb *kb);
CAG_API cag_device_memory cag_kb_device_memory(const cag_kb *kb);
CAG_API uint64_t cag_kb_device_bytes(const cag_kb *kb);
/* What evidence is found by: "words", or "words+heads" where the cache has copy
 * heads and the device measures them. */
CAG_API const char *cag_kb_evidence_by(const cag_kb *kb);
CAG_API int64_t cag_kb_n_ctx(const cag_kb *kb); /* tokens, prefix included */
CAG_API int cag_kb_sources_unseen(const cag_kb *kb);
CAG_API double cag_kb_load_s(const cag_kb *kb); /* seconds of cag_kb_open  */
/* The parts of those seconds, in this order; and of the questions' so far the
 * part in which the cache was checked and expanded. */
typedef struct cag_kb_times {
    double cache;     /* its header and small sections; all, if asked     */
    double sources;   /* do they still fit                                */
    double tokenizer; /* and what follows the prefix                      */
    double model;     /* found, recognized, mapped                        */
    double engine;    /* threads, device, scratch memory                  */
    double expand;
} cag_kb_times;
CAG_API cag_kb_times cag_kb_get_times(const cag_kb *kb);
/* Bytes of K and V of the prefix: held privately; mapped and shared. */
CAG_API uint64_t cag_kb_private_bytes(const cag_kb *kb);
CAG_API uint64_t cag_kb_mapped_bytes(const cag_kb *kb);
/* Does the template know a switch for thinking?  Else think changes nothing. */
CAG_API bool cag_kb_knows_thinking(const cag_kb *kb);

/* -------------------------------------------------------------------- ask */

/*
 * The second look: at the passages of the knowledge that the question's words
 * lead to, alone.  Of the answers the better supported one is given
 * (cag_looked), the first one at a tie; none of their text is given to the
 * cag_text_fn before that.  A question whose words stand nowhere, or whose
 * passages are all there is, has one look.
 */
typedef enum cag_focus {
    CAG_FOCUS_OFF,
    CAG_FOCUS_MASK,   /* the same cache, all but the passages masked     */
    CAG_FOCUS_REREAD, /* the passages read again, as a small prompt      */
    CAG_FOCUS_AUTO    /* until support is strong (cag_looked.look.score of
                         0.25): mask, then reread; a model of less than 300
                         million parameters only rereads                 */
} cag_focus;
/* "off", "mask", "reread", "auto"; NULL for others */
CAG_API const char *cag_focus_name(int f);

typedef struct cag_ask_params {
    size_t size;     /* set by cag_ask_params_init                         */
    int64_t max_tok; /* generated tokens at most, from 1; default 120; what is
                        thought is not counted                             */
    cag_sampling sampling;
    const char *const *stop; /* [n_stop] strings that end an answer, none of
                                them empty; NULL if n_stop is 0            */
    int n_stop;
    bool think;
    bool no_draft; /* no drafts from the knowledge: slower, the same answer */
    bool evidence; /* fill cag_answer.checked                              */
    /* Withhold an answer with less support: the refusal takes its place.  None
     * of the text is given to the cag_text_fn then, since it is judged as a
     * whole. NONE: nothing is withheld. */
    cag_support require;
    /* Answer again from passages.  A masked look needs the cache, and a device
     * that can hide a part of it: else CAG_E_UNSUPPORTED. */
    cag_focus focus;
    /* A greedy answer that only repeats itself ends there, as if max_tok were
     * reached: a run of up to 128 tokens, six times and in 128 tokens at
     * least. */
    bool end_loops;
    /* Fill cag_answer.logprob, with the n_top likeliest tokens at each place,
     * up to CAG_TOP_LOGPROBS. */
    bool logprobs;
    int n_top;
} cag_ask_params;
CAG_API void cag_ask_params_init_size(cag_ask_params *p, size_t size);
static inline void cag_ask_params_init(cag_ask_params *p)
{
    cag_ask_params_init_size(p, sizeof *p);
}

/* An answer from one look at the knowledge. */
typedef struct cag_look {
    cag_focus from; /* CAG_FOCUS_OFF: all of the knowledge */
    char *text;     /* [size] heap */
    size_t size;
    const char *finish; /* as in cag_answer */
    cag_support support;
    double score;   /* what support is decided by (cag_checked)         */
    double seconds; /* beyond the end of the looks before it, with which it
                       may share passes; 0: of an earlier run           */
} cag_look;

enum { CAG_LOOKS = 3, CAG_PASSAGES = 3 };

/* How an answer was chosen. */
typedef struct cag_looked {
    cag_look look[CAG_LOOKS]; /* [n_look] in the order they were taken */
    int n_look;
    int given;                       /* the look whose answer was given */
    cag_piece passage[CAG_PASSAGES]; /* [n_passage] in the text's order */
    int n_passage;
} cag_looked;

enum { CAG_TOP_LOGPROBS = 20 };

typedef struct cag_token_logprob {
    int32_t id;
    double logprob;
} cag_token_logprob;

/* How likely the model held a token of an answer: the natural logarithm of its
 * probability by the logits as they are, before temperature, top_k, top_p and
 * min_p. */
typedef struct cag_logprob {
    int32_t id;
    int n_top;
    double logprob;
    size_t off; /* bytes of the answer's text before it               */
    cag_token_logprob top[CAG_TOP_LOGPROBS]; /* [n_top] likeliest first */
} cag_logprob;

/* Filled by a call, released by the caller. */
typedef struct cag_answer {
    char *text;  /* heap, NUL-terminated; valid UTF-8, trimmed of white space
                    at both ends; a stop string is not in it               */
    size_t size; /* bytes of text                                          */
    char *reasoning;      /* heap, or NULL: what the model thought          */
    bool refused;         /* exactly the refusal                            */
    const char *finish;   /* "stop", "length", "cancelled"; static          */
    int64_t n_cached;     /* prompt tokens taken from the cache ...         */
    int64_t n_prompt;     /* ... and computed now                           */
    int64_t n_generated;  /* tokens, the one that ended it included         */
    int64_t n_drafted;    /* drafted tokens that were tried ...             */
    int64_t n_accepted;   /* ... and were right                             */
    double prefill_s;     /* seconds: reading the question                  */
    double first_s;       /* from the call to the first token               */
    double decode_s;      /* from there to the end                          */
    cag_checked *checked; /* with evidence or require; or NULL             */
    double check_s;       /* seconds: what that took                        */
    cag_looked *looked;   /* with focus, and then tokens and seconds are of all
                             looks; or NULL                                 */
    bool looped;          /* finish is "length" since it repeated itself    */
    void *attention; /* opaque: where the model looked, for what it is checked
                        with; or NULL                                      */
    cag_logprob *logprob; /* [n_logprob] heap: tokens of text, with logprobs;
                             none of an answer that was withheld            */
    int64_t n_logprob;
    uint64_t reserved[1];
} cag_answer;
CAG_API void cag_answer_release(cag_answer *a);

/* Called with answer text as it becomes final (whole UTF-8 characters, valid
 * during the call), and with size 0 between tokens that bring none; false
 * stops the answer (CAG_E_CANCELLED, *out filled so far). */
typedef bool (*cag_text_fn)(void *ctx, const char *text, size_t size);

/*
 * Answer one question from the clean prefix.
 *
 *   question  [size] UTF-8; borrowed for the call
 *   p         NULL: defaults
 *   fn        may be NULL
 *   out       zeroed first; filled on CAG_OK and CAG_E_CANCELLED, and then
 *             the caller's to release
 *
 * Errors: CAG_E_FORMAT (empty or blank question, invalid UTF-8), CAG_E_LIMIT
 * (does not fit, with the numbers), CAG_E_USAGE (a parameter out of range),
 * CAG_E_CANCELLED, CAG_E_CORRUPT (K or V differ from their checksums),
 * CAG_E_BACKEND, CAG_E_NOMEM.  The kb can be asked again after each.
 */
CAG_API cag_status cag_kb_ask(cag_kb *kb, const char *question, size_t size,
                              const cag_ask_params *p, cag_text_fn fn,
                              void *ctx, cag_answer *out, cag_error *err);

/* -------------------------------------------------------------------- many */

typedef struct cag_question {
    const char *text; /* [size] UTF-8                                      */
    size_t size;
    const cag_ask_params *params; /* NULL: defaults                        */
    const void *reserved[2];      /* NULL                                  */
} cag_question;

/*
 * Answer n questions, decoded together: the weights and the prefix are read
 * once for all that run at a time.
 *
 *   q         [n] borrowed for the call
 *   parallel  questions at a time; 0 = from cores and memory
 *   answer    [n] answer[i] is of q[i], the one that cag_kb_ask gives; the
 *             caller's to release, also after an error
 *   error     [n] or NULL: error[i].status is CAG_OK or says what is wrong
 *             with q[i] (CAG_E_FORMAT, CAG_E_LIMIT, CAG_E_USAGE); answer[i]
 *             then has no text, and the others are answered
 *
 * Any other error ends the call; what is answered by then stays.  The hooks'
 * progress counts questions ("rows").  For more than fits memory use
 * cag_kb_batch.
 */
CAG_API cag_status cag_kb_ask_many(cag_kb *kb, const cag_question *q, int n,
                                   int parallel, cag_answer *answer,
                                   cag_error *error, cag_error *err);

/* ------------------------------------------------------------ conversation */

/*
 * A conversation: earlier turns are kept, and each new turn reads again all
 * that follows the knowledge, so that turn N equals a cold run.  An answer
 * that was stopped (CAG_E_CANCELLED) is kept as far as it came; if it had not
 * begun, or after another error, the question is forgotten too.  The kb must
 * outlive it.
 */
typedef struct cag_chat cag_chat;
CAG_API cag_status cag_chat_new(cag_kb *kb, cag_chat **out, cag_error *err);
CAG_API void cag_chat_free(cag_chat *c);
CAG_API void cag_chat_reset(cag_chat *c); /* forget all turns */
/* As cag_kb_ask. */
CAG_API cag_status cag_chat_ask(cag_chat *c, const char *question, size_t size,
                                const cag_ask_params *p, cag_text_fn fn,
                                void *ctx, cag_answer *out, cag_error *err);
/* The turns so far as JSON, [{"role", "content"}, ...] (heap, NULL if out of
 * memory); and in place of those there are, from such a text, whose file may
 * be named.  Errors: CAG_E_FORMAT. */
CAG_API char *cag_chat_json(const cag_chat *c);
CAG_API cag_status cag_chat_load(cag_chat *c, const char *json, size_t size,
                                 const char *file, cag_error *err);

/* -------------------------------------------------------------------- show */

/* The exact prompt of a question, and where its cached part ends. */
typedef struct cag_prompt_view {
    char *text; /* heap: the caller's to give to cag_free                  */
    size_t size, cached_bytes;
    int64_t n_cached, n_prompt; /* tokens of the cache; of the question    */
    int64_t room;               /* tokens left for an answer; below 1 it
                                   does not fit                            */
    uint64_t reserved[4];
} cag_prompt_view;
/* out is zeroed first.  Errors: CAG_E_FORMAT (as cag_kb_ask), CAG_E_NOMEM;
 * a question that does not fit is none. */
CAG_API cag_status cag_kb_prompt(cag_kb *kb, const char *question, size_t size,
                                 bool think, cag_prompt_view *out,
                                 cag_error *err);

/*
 * Fill a->checked of an answer that was given without; with p->require, a text
 * of less support is moved to checked->withheld and the refusal takes its
 * place. before: the question before in a conversation, or NULL: a follow-up is
 * understood with it.  No model is needed.  Errors: CAG_E_USAGE (checked
 * already), CAG_E_NOMEM, CAG_E_LIMIT (more words than can be numbered).
 */
CAG_API cag_status cag_answer_check(cag_kb *kb, const cag_text *question,
                                    const cag_text *before,
                                    const cag_ask_params *p, cag_answer *a,
                                    cag_error *err);

/*
 * One line of JSON for an answer, without newline: heap, the caller's to give
 * to cag_free; NULL when out of memory, or with p out of range.  id may be
 * NULL; p as it was asked with.
 */
CAG_API char *cag_answer_json(const cag_kb *kb, const cag_answer *a,
                              const char *question, size_t size, const char *id,
                              const cag_ask_params *p);

#ifdef __cplusplus
}
#endif
#endif
