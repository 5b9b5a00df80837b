/*
 * ui.h - the only code that prints: errors, progress, sizes, JSON; and what
 * a program does about signals.
 *
 * Results go to stdout through stdio or ui_json; everything here that talks
 * goes to stderr, each line with the tool's name in front.  End a program
 * with `return ui_close_stdout(status)`.
 */
#ifndef CMD_CLI_UI_H
#define CMD_CLI_UI_H

#include <cag/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define UI_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* exit status, beside 128+n for a signal; in every man page */
enum {
    UI_OK = 0,
    UI_NO = 1,
    UI_BATCH_ERRORS = 2,
    UI_REFUSED = 3, /* with --require-evidence */
    UI_USAGE = 64,
    UI_DATA = 65,
    UI_NOINPUT = 66,
    UI_UNAVAILABLE = 69,
    UI_SOFTWARE = 70,
    UI_NOMEM = 71,
    UI_CANTCREATE = 73,
    UI_IOERR = 74,
    UI_TEMPFAIL = 75,
    UI_CONFIG = 78
};

enum { UI_AUTO, UI_ALWAYS, UI_NEVER };
extern const char *const ui_when[]; /* "auto", "always", "never", NULL */
extern struct ui {
    const char *tool;
    bool quiet;
    int verbose, progress, color;
} ui;

/* First call of main (opt_parse makes it): descriptors 0-2 exist, LC_CTYPE
 * is set, signal handlers are installed. */
void ui_start(const char *tool);

/* --- messages ----------------------------------------------------------- */

/* Is stderr to have colours?  --color, NO_COLOR, TERM. */
bool ui_coloured(void);
/* Print "cag-ask: FILE:LINE:COL: message" or "cag-ask: FILE: byte N: message";
 * returns the exit status.  Silent for CAG_E_CANCELLED by a signal. */
int ui_error(const cag_error *err);
/* The same of a text alone. */
void ui_say_error(const char *text);
int ui_exit_code(cag_status status);
void ui_warn(const char *fmt, ...) UI_PRINTF(1, 2); /* not with -q        */
void ui_note(const char *fmt, ...) UI_PRINTF(1, 2); /* not with -q        */
/* even with -q: what changes the worth of a result */
void ui_sign(const char *fmt, ...) UI_PRINTF(1, 2);
/* only with at least level -v */
void ui_verbose(int level, const char *fmt, ...) UI_PRINTF(2, 3);
/* Like ui_error for a fault the program itself finds. */
int ui_fail(cag_status status, const char *file, const char *fmt, ...)
    UI_PRINTF(3, 4);

/* Flush stdout; false when something could not be written, now or earlier.
 * ui_close_stdout says so in the end. */
bool ui_flush_stdout(void);
/* Flush and close stdout.  Returns status, or 74 after a failed write; ends
 * by the signal if one was caught. */
int ui_close_stdout(int status);

/* --- signals ------------------------------------------------------------ */

/*
 * SIGINT, SIGTERM, SIGHUP, SIGPIPE remove the temporaries and end the program
 * at once.  Between ui_catch(true) and ui_catch(false) the first SIGINT or
 * SIGTERM only makes ui_caught() return its number (the second ends the
 * program); ui_progress then returns false, which cancels.
 */
void ui_catch(bool on);
int ui_caught(void);
void ui_forget_signal(void); /* after a stopped answer in -i        */

/* --- progress ----------------------------------------------------------- */

/*
 * What a cag_progress_fn is told; ctx is the unit: ui_tokens, ui_rows or
 * ui_bytes (shown as KiB/MiB), or NULL.  Draws at most ten times a second, only
 * where progress is wanted; keeps what SIGUSR1 prints.
 */
extern char ui_tokens[], ui_bytes[], ui_rows[];
bool ui_progress(void *ctx, const char *what, uint64_t done, uint64_t total);
void ui_progress_hide(void); /* remove the line, until the next call */
void ui_progress_end(void);  /* and forget: the work is done         */

/* --- numbers for people --------------------------------------------------*/

enum { UI_TEXT = 32 };
const char *ui_size(char out[UI_TEXT], uint64_t bytes);     /* "1.5 MiB"    */
const char *ui_duration(char out[UI_TEXT], double seconds); /* "3m04s"      */
double ui_now(void); /* monotonic seconds                   */
/* s as one line for a message: control bytes escaped.  Rotates 4 buffers. */
const char *ui_clean(const char *s);
/* Are both there, and one file? */
bool ui_same_file(const char *a, const char *b);
/* The end of a noun that n counts: "s", but for one "". */
const char *ui_s(int64_t n);
/* Have the terminal tell what is pasted from what is typed. */
void ui_bracket_paste(bool on);
/* Columns of the terminal fd is; 80 where that cannot be said. */
int ui_columns(int fd);
/* Columns that n bytes of text take; bytes of it that fit in some columns. */
size_t ui_width(const char *text, size_t n);
size_t ui_fitting(const char *text, size_t n, size_t columns);
/* Print text that comes from a file or a model to a terminal or pipe, without
 * control characters (other than tab and newline) when it is a terminal. */
void ui_put_text(FILE *to, const char *text, size_t n);

/* --- JSON --------------------------------------------------------------- */

/*
 * Written as it comes, one line per outermost value.  key is NULL inside an
 * array and at the outermost level.  Strings that are not UTF-8 get U+FFFD;
 * what a terminal would obey is escaped.
 */
struct ui_json {
    FILE *out;
    int depth;
    bool more[32];
    char closer[32];
};
/* JSON that a file or the library holds, with the same escapes. */
void ui_put_json(FILE *out, const char *text, size_t n);
void ui_json_start(struct ui_json *j, FILE *out);
void ui_json_object(struct ui_json *j, const char *key);
void ui_json_array(struct ui_json *j, const char *key);
void ui_json_end(struct ui_json *j); /* of either; newline at depth 0 */
void ui_json_str(struct ui_json *j, const char *key,
                 const char *s); /* NULL = null */
void ui_json_strn(struct ui_json *j, const char *key, const char *s, size_t n);
void ui_json_int(struct ui_json *j, const char *key, int64_t v);
void ui_json_uint(struct ui_json *j, const char *key, uint64_t v);
void ui_json_double(struct ui_json *j, const char *key, double v);
/* to the microsecond: more digits would be noise */
void ui_json_seconds(struct ui_json *j, const char *key, double s);
void ui_json_bool(struct ui_json *j, const char *key, bool v);
void ui_json_null(struct ui_json *j, const char *key);
/* text is JSON already (cag_kvc_meta_json) */
void ui_json_raw(struct ui_json *j, const char *key, const char *text,
                 size_t n);

#endif
