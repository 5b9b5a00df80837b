/*
 * ui_wrap.h - text that comes in pieces, broken between words at the width of
 * the terminal.
 */
#ifndef CMD_CLI_UI_WRAP_H
#define CMD_CLI_UI_WRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct ui_wrap {
    FILE *to;
    size_t columns; /* of a terminal; 0: text passes as it is        */
    size_t col;     /* where the cursor is                           */
    size_t blanks;  /* not yet printed, before the word              */
    char word[256]; /* [n] not yet printed: it may have to move down */
    size_t n, width;
    int tick;  /* backquotes at the beginning of the line, or -1 */
    bool code; /* between ``` lines, which stay as they are      */
};
void ui_wrap_start(struct ui_wrap *w, FILE *to);
/* May keep the last word back until it is complete. */
void ui_wrap_put(struct ui_wrap *w, const char *text, size_t n);
void ui_wrap_end(struct ui_wrap *w);

#endif
