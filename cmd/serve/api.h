/*
 * api.h - what clients of the OpenAI protocol send, and what they are told.
 *
 * A body is read in full or refused with the name of the member that is wrong
 * or not known: nothing that would change an answer is passed over.  Nothing
 * here knows a cache or a connection.
 */
#ifndef CMD_SERVE_API_H
#define CMD_SERVE_API_H

#include <cag/ask.h>

#include "util/buf.h"
#include "util/json.h"

enum api_kind { API_CHAT, API_COMPLETION, API_RESPONSE };

/* What is done with a system message, since the cached prompt is what it is. */
enum api_system { API_SYSTEM_REFUSE, API_SYSTEM_PREPEND };

enum { API_MAX_STOP = 16, API_N_PREDICT = 1024 };

/* What a request that says nothing else gets. */
struct api_defaults {
    enum api_system system;
    int64_t max_tok;
    bool end_loops; /* a greedy answer that only repeats itself, if a request
                       does not say how long it may be */
    bool evidence;
    cag_support require;
};

struct api_error {
    int http;         /* status, 0: no error */
    const char *type; /* "invalid_request_error", ...; static */
    const char *code; /* static, or NULL */
    char param[96];   /* the member's name, "" */
    char msg[512];
};

struct api_request {
    enum api_kind kind;
    jv *body;            /* owns the strings below */
    const char *model;   /* the cache's id */
    struct buf question; /* UTF-8 */
    jv *earlier;         /* the turns before it, as cag_chat_load wants them;
                            NULL: none */
    cag_ask_params params;
    const char *stop[API_MAX_STOP];
    bool stream, include_usage;
};

/* false: e says why; r is released. */
bool api_parse(struct api_request *r, enum api_kind kind, const char *text,
               size_t size, const struct api_defaults *d, struct api_error *e);
/* The same of a body that was read already, which is taken over. */
bool api_take(struct api_request *r, enum api_kind kind, jv *body,
              const struct api_defaults *d, struct api_error *e);
void api_release(struct api_request *r);

/* Fill e; returns false. */
bool api_fail(struct api_error *e, int http, const char *code,
              const char *param, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Set a message, which may quote what a client sent, cut within a character. */
bool api_set_text(jv *o, const char *key, const char *s);
/* {"error": ...}; out may be one that failed. */
void api_error_json(const struct api_error *e, struct buf *out);
/* An error of the library, as a client is told it: without a path. */
void api_error_of(struct api_error *e, const cag_error *err);

/* An answer, and who it is of. */
struct api_answer {
    enum api_kind kind;
    const char *id;    /* the request's: "3f2a..." */
    const char *model; /* the cache's id */
    int64_t created;   /* seconds since 1970 */
    const cag_answer *a;
    const jv *cag;      /* the object of that name, or NULL */
    const jv *logprobs; /* the row's list, or NULL */
    int *n_event; /* of a stream: events so far, which some are numbered by */
};
void api_answer_json(const struct api_answer *x, struct buf *out);
/* Events of a stream, with their "data: " and blank line. */
void api_event_start(const struct api_answer *x, struct buf *out);
void api_event_text(const struct api_answer *x, const char *text, size_t n,
                    struct buf *out);
/* The last of an answer, the usage if it was asked for, and [DONE]. */
void api_event_end(const struct api_answer *x, bool usage, struct buf *out);
/* One that went wrong on the way. */
void api_event_error(const struct api_answer *x, const struct api_error *e,
                     struct buf *out);

#endif
