/*
 * ui_internal.h - shared by the ui_*.c files.
 */
#ifndef CMD_CLI_UI_INTERNAL_H
#define CMD_CLI_UI_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

/* snprintf that returns the length really written */
int ui_format(char *out, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Length of the valid UTF-8 character at s, 0 if there is none; n > 0. */
size_t ui_utf8_len(const unsigned char *s, size_t n);

bool ui_stderr_is_smart(void); /* a terminal, and not a dumb one         */
/* Undo ui_bracket_paste; async-signal-safe. */
void ui_restore_terminal(void);
/* Is sig only to cancel what is going on (ui_catch)?  Signal-safe. */
bool ui_signal_cancels(int sig);
void ui_start_signals(void);
void ui_end_by_signal(void);   /* returns only if none was caught        */
void ui_report_progress(void); /* one line; async-signal-safe            */
void ui_clear_progress(void);  /* as the above                           */

#endif
