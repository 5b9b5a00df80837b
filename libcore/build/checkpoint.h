/*
 * checkpoint.h - a build that was interrupted goes on where it stopped.
 *
 * During the prefill the K and V computed so far are saved in FILE.kvc.ckpt:
 * a valid .kvc of the prefix's first tokens, marked by META.checkpoint, mode
 * 0600.  The next build imports what still matches (same tokens, model and
 * numerics), so its result is the same byte for byte (of codec q8h f16 is
 * saved, and all but the last tokens are taken: their queries are needed).
 * It is removed when a build of FILE.kvc succeeds.  The build's lock covers
 * it.
 */
#ifndef BUILD_CHECKPOINT_H
#define BUILD_CHECKPOINT_H

#include <cag/build.h>

#include "build/build_job.h"
#include "build/measure_loss.h"

/* Open the checkpoint of an output; *out is NULL when there is none that is
 * usable (said in a note).  CAG_E_NOMEM at most. */
cag_status checkpoint_open(const char *output, const cag_hooks *hooks,
                           cag_kvc **out, cag_error *err);
/* CAG_E_CREATE when FILE.kvc.ckpt is there and is none of ours: somebody's
 * file that only has that name is not replaced. */
cag_status checkpoint_check_replace(const char *output, cag_error *err);
/* Remove an output's checkpoint and what its writers left; best effort. */
void checkpoint_remove(const char *output);

/*
 * Compute the tokens of the job after those the session holds.  With
 * o->checkpoint they are saved every o->checkpoint_s seconds (seldom enough
 * to cost less than a tenth of the time) and when the caller cancels.  r, if
 * not NULL, gets the logits of the last tokens.
 */
cag_status checkpoint_prefill(struct build_job *j, cag_engine *e,
                              cag_session *s, const struct receipt *r,
                              cag_error *err);
/* Save all tokens of the session; a failure is a note, not an error. */
void checkpoint_save(struct build_job *j, cag_engine *e, const cag_session *s);

#endif
