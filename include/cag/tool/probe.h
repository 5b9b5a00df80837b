/*
 * probe.h - evaluate given token ids: the instrument behind golden tests,
 * and for anyone who compares a model with another implementation.
 */
#ifndef CAG_TOOL_PROBE_H
#define CAG_TOOL_PROBE_H

#include <cag/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Lists of token ids read from a JSON file. */
typedef struct cag_probe_ids cag_probe_ids;

/*
 * Read a JSON array of ids, or an array of such arrays; "-" reads standard
 * input.  Every list has at least one id, every id fits 31 bits (whether the
 * model has it is cag_probe_run's to say).  Errors: CAG_E_MISSING,
 * CAG_E_FORMAT, CAG_E_LIMIT (64 MiB), CAG_E_NOMEM.
 */
cag_status cag_probe_read(const char *path, cag_probe_ids **out,
                          cag_error *err);
void cag_probe_free(cag_probe_ids *p);
int cag_probe_n_list(const cag_probe_ids *p);
/* List i; *n is its length. */
const int32_t *cag_probe_list(const cag_probe_ids *p, int i, int *n);

typedef struct cag_probe_logit {
    int32_t id;
    float logit;
} cag_probe_logit;

typedef struct cag_probe_opts {
    int n_next; /* ids of the greedy continuation; 0 = none           */
    int n_top;  /* of the largest logits after the prompt, at most    */
    bool step;  /* feed the prompt id by id, as generated tokens      */
} cag_probe_opts;

typedef struct cag_probe_result { /* zeroed before its first use */
    int32_t *next; /* [n_next]; end-of-text ids do not stop it   */
    int n_next;
    cag_probe_logit *top; /* [n_top] largest first, equal ones by id    */
    int n_top;            /* as asked, or the vocabulary                */
} cag_probe_result;

/* Evaluate ids[n_ids] in a session of its own.  The arrays of *r are its
 * own and are replaced; after an error it holds nothing. */
cag_status cag_probe_run(cag_engine *e, const cag_probe_opts *o,
                         const int32_t *ids, int n_ids, cag_probe_result *r,
                         cag_error *err);
void cag_probe_release(cag_probe_result *r);

#ifdef __cplusplus
}
#endif
#endif
