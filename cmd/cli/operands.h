/*
 * operands.h - the words of a command line as sources, dates and modes.
 */
#ifndef CMD_CLI_OPERANDS_H
#define CMD_CLI_OPERANDS_H

#include <cag/build.h>

struct operands {
    cag_source_spec *spec;
    int n;
    char *list; /* text of --files0-from */
};

/* Words, then the names in files0 (NUL-separated; "-" is stdin; may be NULL);
 * title names sources that have no path.  Returns an exit status, the
 * message is printed. */
int operands_read(char **word, const char *files0, const char *title,
                  struct operands *out);
void operands_release(struct operands *o);

/* "2026-01-12" -> seconds since the epoch, UTC midnight. */
bool operand_date(const char *s, int64_t *seconds);
bool operand_mode(const char *s, int *mode);

#endif
