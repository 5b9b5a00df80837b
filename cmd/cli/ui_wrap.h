/*
 * ui_wrap.h - text that comes in pieces, broken between words at the width of
 * the terminal.
 */
#ifndef CMD_CLI_UI_WRAP_H
#define CMD_CLI_UI_WRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cmd/cli/ui.h"

struct ui_wrap {
    FILE *to;
    size_t columns; /* of a terminal; 0: text passes as it is        */
    size_t col;     /* where the cursor is                           */
    size_t blanks;  /* not yet printed, before the word              */
    char word[256]; /* [n] not yet printed: it may have to move down */
    size_t n, width;
    size_t indent; /* of the lines that a break begins               */
    size_t start;  /* where this line's text begins                  */
    bool whole;    /* no break inside a word that is longer than a line:
                      the terminal does that, and it can be copied   */
    bool joined;   /* what follows belongs to the word before it     */
    int tick;      /* backquotes at the beginning of the line, or -1 */
    bool code;     /* between ``` lines, which stay as they are      */
};
void ui_wrap_start(struct ui_wrap *w, FILE *to);
/* May keep the last word back until it is complete. */
void ui_wrap_put(struct ui_wrap *w, const char *text, size_t n);
void ui_wrap_end(struct ui_wrap *w);

/* One message.  A command that it suggests is not broken, so that it can be
 * copied: where it does not fit it has a line of its own. */
void ui_wrap_message(struct ui_wrap *w, const char *text);

/*
 * Lines for people: on a terminal they are broken between words, and what
 * follows a break stands indent columns in.  Elsewhere the bytes are those of
 * fprintf.  Text of files goes through ui_clean first.  Pieces of a line go
 * through ui_wrap_printf, between ui_wrap_lines and ui_wrap_end.
 */
void ui_wrap_lines(struct ui_wrap *w, FILE *to, int indent);
void ui_wrap_printf(struct ui_wrap *w, const char *fmt, ...) UI_PRINTF(2, 3);
void ui_printf(FILE *to, int indent, const char *fmt, ...) UI_PRINTF(3, 4);

#endif
