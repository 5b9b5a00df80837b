/*
 * answer_copy.h - what a cag_answer owns.
 */
#ifndef ASK_ANSWER_COPY_H
#define ASK_ANSWER_COPY_H

#include <cag/ask.h>

/* All but what it was checked for.  CAG_E_NOMEM; *to is then released. */
cag_status answer_copy(cag_answer *to, const cag_answer *a, cag_error *err);
void answer_checked_free(cag_checked *c); /* NULL is allowed, here and below */
void answer_looked_free(cag_looked *l);

#endif
