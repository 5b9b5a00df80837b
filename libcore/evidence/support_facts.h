/*
 * support_facts.h - numbers, dates and names of an answer that stand nowhere
 * in the knowledge or the question.
 *
 *   numbers  1,024 is 1024; "1.1 million", "5 %" and "5 percent" count as a
 *            whole; one to twelve in words are numbers of the text
 *   dates    2021-03-12, 12.03.2021, 12 March 2021, March 12, 2021, March 2021
 *            are compared as dates, with English names of months
 *   names    runs of words with a capital, but not the first word of a
 *            sentence alone; unknown when a word of it stands nowhere
 *
 * Scripts without capitals have no names here.  A number that was swapped
 * with another of the text is not found.
 */
#ifndef EVIDENCE_SUPPORT_FACTS_H
#define EVIDENCE_SUPPORT_FACTS_H

#include "evidence/evidence_base.h"

/* known: question (and, in a conversation, the one before); may be NULL.
 * cut: the answer ends within a word perhaps, its last one says nothing.
 * *out: [*n] heap strings as the answer has them, each once. */
cag_status support_unknown_facts(struct evidence_base *b, const char *answer,
                                 size_t size, bool cut, const cag_text known[2],
                                 char ***out, int *n, cag_error *err);
void support_facts_free(char **v, int n);

#endif
