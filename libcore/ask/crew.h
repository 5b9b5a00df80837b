/*
 * crew.h - questions of one cag_kb that are answered together.
 *
 * Members join as they come and leave as they end; up to `parallel' turns run,
 * and each step feeds all of these at once, so that the weights and the
 * common prefix are read once for all.  An answer does not depend on who else
 * is there (session.h), so none of this changes a byte of it.
 *
 * With focus a member's looks run at the same time (looks.h) while fewer turns
 * run than `parallel', and else one after the other, beside the others'.
 *
 * A member whose question and options equal those of a running one waits for
 * its answer instead, if it is greedy and wants no text on the way.
 */
#ifndef ASK_CREW_H
#define ASK_CREW_H

#include "ask/kept.h"
#include "ask/looks.h"
#include "util/json.h"

enum crew_state { CREW_NEW, CREW_RUNNING, CREW_WAITING, CREW_DONE };

/* The caller's; it must not move, and its question and params must stay,
 * until it is done. */
struct crew_member {
    const char *question; /* [size] */
    size_t size;
    const jv *turns; /* a conversation that ends with the question, or NULL: it
                        is the first                                       */
    cag_text before; /* the last question in it, or .text NULL             */
    const cag_ask_params *params; /* checked by turn_params                 */
    const char *owner;            /* of kept sessions, or NULL */
    char key[17];                 /* row_options_key of params              */
    cag_text_fn fn;               /* may be NULL                            */
    void *ctx;

    enum crew_state state;
    struct looks looks;             /* while running */
    const struct crew_member *twin; /* whose answer it waits for           */
    cag_answer answer; /* when done, and then the caller's to release       */
    cag_error error;   /* status is not 0: this question has no answer, or
                          fn has stopped it                                 */
};

/* Look i of a member. */
struct crew_turn {
    struct crew_member *m;
    int i;
};

struct crew {
    cag_kb *kb;
    cag_kept *kept;              /* or NULL */
    int parallel;                /* turns that run at a time, at most      */
    int n_running;               /* of them there are                      */
    struct crew_member **member; /* [n_member] running and waiting         */
    int n_member, most;
    int64_t n_prompt, n_generated; /* tokens computed                       */
    cag_progress now;              /* "rows": what the hooks are told       */
    cag_step *step;                /* [most * CAG_LOOKS] scratch, as below  */
    struct turn **fresh;
    struct crew_turn *moved;
};

/*
 * parallel: 0 = from the number of threads; fewer where a device has no memory
 * for so many, with answers of max_tok tokens.  most: members at a time,
 * waiting ones included; 0 = four times as many as run.
 */
cag_status crew_init(struct crew *c, cag_kb *kb, int parallel, int most,
                     int64_t max_tok, cag_error *err);
/* Turns that still run are given up; members' answers stay theirs. */
void crew_release(struct crew *c);
/* Can another one join? */
bool crew_has_room(const struct crew *c);
/* Join.  A question that cannot be answered (CAG_E_FORMAT, CAG_E_LIMIT,
 * CAG_E_USAGE) is done at once, with its error; what is returned is an error
 * that ends them all. */
cag_status crew_add(struct crew *c, struct crew_member *m, cag_error *err);
/* Give up one that runs or waits: it is done, with CAG_E_CANCELLED and no
 * answer.  Not one that another waits for (those without fn). */
void crew_leave(struct crew *c, struct crew_member *m);
/* Read the questions that were not read yet, then give each that runs its next
 * tokens; those that end are done. */
cag_status crew_step(struct crew *c, cag_error *err);
/* Tell the hooks that so many of total rows are done.  CAG_E_CANCELLED. */
cag_status crew_progress(struct crew *c, int64_t done, int64_t total,
                         cag_error *err);

#endif
