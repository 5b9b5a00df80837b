/*
 * ask_talk.h - a talk, and the commands typed in it.
 */
#ifndef CMD_ASK_TALK_H
#define CMD_ASK_TALK_H

#include "cmd/ask/ask_common.h"

struct talk {
    const struct ask_opts *o;
    cag_kb *kb;
    cag_chat *chat; /* NULL: clean prefix each time */
    bool tty;
    char *line; /* not on a terminal */
    size_t cap;
    bool holds_nul;
    struct ask_figures sum;
};

/* "/quit", "/save a.json", "/nosuch"; but "/etc/hosts says?" is a question. */
bool talk_is_command(const char *line);
/* Returns false to end; a command that is none is an error in a script.
 * line is written to. */
bool talk_command(struct talk *t, char *line, int *status);

#endif
