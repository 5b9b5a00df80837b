/*
 * ask_lines.h - lines of a descriptor, read no further than they are there.
 */
#ifndef CMD_ASK_LINES_H
#define CMD_ASK_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cag/error.h>

struct ask_lines {
    int fd;
    const char *name;
    char *buf; /* [begin, end) is read and not yet taken */
    size_t begin, end, cap;
    size_t scanned; /* no newline in [begin, begin + scanned) */
    bool eof;
};

/* Open path; "-" is standard input.  CAG_E_MISSING. */
cag_status ask_lines_open(struct ask_lines *l, const char *path,
                          cag_error *err);
void ask_lines_close(struct ask_lines *l);
/* Lines of a file that are not blank, where they can be counted beforehand;
 * else 0. */
uint64_t ask_lines_count(const struct ask_lines *l);
/* Can ask_lines_next answer without waiting? */
bool ask_lines_ready(struct ask_lines *l);
/*
 * The next line without its newline, valid until the next call; NULL at the
 * end, after an error, and when a signal was caught.  One of more than 128 MiB
 * is passed over: CAG_E_LIMIT in *err, and not NULL.  While it waits, a
 * signal ends the program at once: nothing is half done then.
 */
const char *ask_lines_next(struct ask_lines *l, size_t *size, cag_error *err);

#endif
