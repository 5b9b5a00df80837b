/*
 * ui_term.c - how the program talks, and what it talks to.
 *
 * The lowest of the ui_*.c files: all others look here.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd/cli/ui.h"
#include "cmd/cli/ui_internal.h"

struct ui ui = { .tool = "cag" };
const char *const ui_when[] = { "auto", "always", "never", NULL };

static bool is_smart(int fd)
{
    const char *term = getenv("TERM");

    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool ui_stderr_is_smart(void)
{
    return is_smart(2);
}

/* --- pastes --------------------------------------------------------------*/

static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";
static volatile sig_atomic_t bracketing;

void ui_bracket_paste(bool on)
{
    if (!is_smart(1))
        return;
    fflush(stdout);
    bracketing = on;
    (void)!write(1, on ? paste_on : paste_off, sizeof paste_on - 1);
}

void ui_restore_terminal(void)
{
    if (bracketing)
        (void)!write(1, paste_off, sizeof paste_off - 1);
}

int ui_columns(int fd)
{
    struct winsize w;

    return ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col : 80;
}

static volatile sig_atomic_t caught, catching;

bool ui_signal_cancels(int sig)
{
    if (!catching || caught || (sig != SIGINT && sig != SIGTERM))
        return false;
    caught = sig;
    return true;
}

void ui_catch(bool on)
{
    catching = on;
}

int ui_caught(void)
{
    return caught;
}

void ui_forget_signal(void)
{
    caught = 0;
}
