/*
 * ask_common.h - what the ways of asking share: options, output, figures.
 */
#ifndef CMD_ASK_COMMON_H
#define CMD_ASK_COMMON_H

#include <cag/batch.h>

#include "cmd/cli/ui_wrap.h"

struct ask_opts {
    cag_kb_opts kb;
    cag_ask_params params;
    int usage; /* 1: the line of figures; 2: and the times' parts */
    bool json, no_stream, extract, chat, no_history;
    const char *from;    /* a conversation to go on with */
    bool evidence, grep; /* print it after an answer; as lines of grep */
    const char *log;
    /* batch */
    const char *batch, *output, *question_field;
    cag_row_format format;
    int parallel;
    const char *pattern; /* of a shard's output */
    char *shard_file;    /* the output then, heap; or NULL */
    int shard, n_shard;  /* n_shard 0: all rows */
    bool resume, unordered, fail_fast, dry_run;
    int64_t max_errors;
    uint64_t n_row; /* of the input, as far as it is known */
};

/* Print answer text as it comes; ctx is a struct ask_stream. */
struct ask_stream {
    bool off; /* collect only */
    size_t printed;
    bool failed; /* stdout is gone */
    struct ui_wrap wrap;
};
bool ask_stream_text(void *ctx, const char *text, size_t n);

/* Sums over the questions asked. */
struct ask_figures {
    int64_t n_asked, n_generated;
    int64_t n_used; /* of the context, after the last answer */
    double seconds;
    /* the last question that was answered, the one before it in the same
     * conversation, the answer; heap, or NULL */
    char *question, *before;
    cag_answer last;
};
/* Forget the last question. */
void ask_figures_forget(struct ask_figures *f);

/* Ask one question and print the answer the way o says; returns the exit
 * status.  chat and figures may be NULL. */
int ask_question(const struct ask_opts *o, cag_kb *kb, cag_chat *chat,
                 const char *question, size_t n, struct ask_figures *figures);
/* Pieces, label and unsupported facts, on stderr; pieces as lines of grep, on
 * stdout; why there is no answer: the exit status. */
void ask_print_evidence(const cag_kb *kb, const cag_checked *c);
void ask_print_grep(const cag_checked *c);
int ask_withheld(const cag_answer *a, cag_support asked);
/* Append a row of JSON [n] to the log at path, with time and cache; the exit
 * status, after a message. */
int ask_log(const char *path, const cag_kb *kb, const char *row, size_t n);
/* The line of -u. */
void ask_print_usage(const cag_kb *kb, const cag_answer *a);
/* The second one of -u -u. */
void ask_print_times(const cag_kb *kb, const cag_answer *a);
/* The first fenced code block of text, or false. */
bool ask_fenced(const char *text, const char **block, size_t *n);

int ask_interactive(const struct ask_opts *o, cag_kb *kb);
int ask_batch(struct ask_opts *o, cag_kb *kb);
/* A cag_progress_fn; ctx is the struct ask_opts of a batch. */
bool ask_batch_progress(void *ctx, const cag_progress *p);

#endif
