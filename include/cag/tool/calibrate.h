/*
 * calibrate.h - the null of a cache: how well supported an answer looks by
 * attention where the text does not have it; and which second look is right
 * more often.
 *
 * Questions of the user are answered; then the lines of evidence are hidden,
 * and they are answered again.  Of a question that is marked as unanswerable
 * the first answer is taken.  The value of an answer is the attention of the
 * copy heads on the best place times the model's confidence in the new words;
 * the null is the value that 90 of 100 such answers do not exceed.
 * Where enough questions have known answers, each is also asked with the
 * passages alone visible, and with the passages read again.
 */
#ifndef CAG_TOOL_CALIBRATE_H
#define CAG_TOOL_CALIBRATE_H

#include <cag/ask.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CAG_NULL_QUANTILE = 90, CAG_NULL_LEAST = 10, CAG_LOOKS_LEAST = 10 };

typedef struct cag_calibrate_report {
    bool fresh; /* the cache has the null of these questions already */
    float null;
    int n_question;
    /* with answers, and of these right by each look; 0: fewer than
     * CAG_LOOKS_LEAST */
    int n_answerable, n_whole, n_mask, n_reread;
    double seconds;
} cag_calibrate_report;

/*
 * Put the null of the questions in a file (JSON Lines as cag-bench eval reads,
 * or a question a line) into the cache at path.  kb: how it is opened;
 * lock_timeout_s: as in cag_build_opts.  Errors: those of cag_kb_open and
 * cag_kb_ask; CAG_E_UNSUPPORTED (no copy heads, or a device that does not
 * measure them), CAG_E_FORMAT (fewer than CAG_NULL_LEAST questions, a bad
 * line), CAG_E_LOCKED, CAG_E_CREATE.  The cache is intact after each.
 */
cag_status cag_calibrate_null(const char *path, const cag_kb_opts *kb,
                              const char *questions, double lock_timeout_s,
                              cag_calibrate_report *r, cag_error *err);

#ifdef __cplusplus
}
#endif
#endif
