/*
 * crew.h - questions of one cache that come and go while others are being
 * answered: cag-serve's.
 *
 * Between two steps any question may join or leave; a step gives each that
 * runs its next tokens, all in one pass.  An answer is the one that cag_kb_ask
 * or cag_chat_ask gives, whoever else is there.
 */
#ifndef CAG_TOOL_CREW_H
#define CAG_TOOL_CREW_H

#include <cag/ask.h>

/* Of one kb, which is not asked otherwise meanwhile and outlives it. */
typedef struct cag_crew cag_crew;
/* One question in it. */
typedef struct cag_member cag_member;

/* parallel: questions at a time; 0 = from cores and memory.  CAG_E_NOMEM. */
cag_status cag_crew_new(cag_kb *kb, int parallel, cag_crew **out,
                        cag_error *err);
/* Every member must have left. */
void cag_crew_free(cag_crew *c); /* NULL is allowed */
int cag_crew_parallel(const cag_crew *c);
bool cag_crew_has_room(const cag_crew *c);

/*
 * Sessions of answered questions, kept for the next turn of whoever asked them:
 * at most max_n, max_bytes in all, and idle_s seconds since they were used; the
 * least recently used goes first.  For caches of one thread, on the CPU; on a
 * GPU nothing is kept.  An answer does not depend on it.  CAG_E_NOMEM.
 */
typedef struct cag_kept cag_kept;
cag_status cag_kept_new(int max_n, uint64_t max_bytes, double idle_s,
                        cag_kept **out, cag_error *err);
void cag_kept_free(cag_kept *k); /* NULL is allowed; before its caches */
void cag_kept_expire(cag_kept *k);
/* Before kb is closed. */
void cag_kept_forget(cag_kept *k, const cag_kb *kb);
/* Sessions, their bytes, and tokens that were not read again so far. */
void cag_kept_figures(const cag_kept *k, int *n, uint64_t *bytes,
                      int64_t *n_reused);
/* Members of c that have an owner use k, which outlives it. */
void cag_crew_keep(cag_crew *c, cag_kept *k);

/*
 * Join.
 *
 *   earlier  the turns before the question, or NULL; as it is now
 *   q        with all it points to: valid until the member leaves
 *   owner    whose kept sessions it may use, and leaves one to; borrowed as
 *            q, or NULL
 *   fn       as of cag_kb_ask, called during cag_crew_step, but never without
 *            text; may be NULL.  Who wants to stop leaves.
 *
 * What is wrong with the question alone is told when it leaves; what is
 * returned is an error of the cache or of memory: all others are to leave too.
 */
cag_status cag_crew_join(cag_crew *c, const cag_chat *earlier,
                         const cag_question *q, const char *owner,
                         cag_text_fn fn, void *ctx, cag_member **out,
                         cag_error *err);
/* A step of all that run; without any nothing happens.  After an error, all are
 * to leave and the crew can only be freed. */
cag_status cag_crew_step(cag_crew *c, cag_error *err);
bool cag_member_done(const cag_member *m);
/*
 * Take the answer of one that is done, with what was asked to be checked of
 * it, or the error of its question, as of cag_kb_ask; CAG_E_CANCELLED for one
 * that is not done and is given up.  m is freed.  out: zeroed first; the
 * caller's to release.
 */
cag_status cag_crew_leave(cag_crew *c, cag_member *m, cag_answer *out,
                          cag_error *err);

#endif
