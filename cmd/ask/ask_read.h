/*
 * ask_read.h - lines typed at a terminal, and those typed earlier.
 */
#ifndef CMD_ASK_READ_H
#define CMD_ASK_READ_H

#include <stdbool.h>

/* On a terminal, before the others; false if out of memory. */
bool ask_read_start(int n_recall);
void ask_read_end(void);

/*
 * A question that was typed, edited by libedit, or pasted; heap.  What is
 * pasted at once is one question, on as many lines as it has.  NULL at the
 * end (Ctrl-D).
 */
char *ask_read_typed(const char *prompt);

/* Let line be called back by the arrow keys. */
void ask_read_recall(const char *line);

/* Take the questions of earlier runs, and keep those of this one; without
 * keep, only those of this one can be called back. */
void ask_history_open(bool keep);
enum { ASK_N_RECALL = 1000 };
void ask_history_add(const char *question);

#endif
