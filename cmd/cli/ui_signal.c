/*
 * ui_signal.c - what a program does about signals.
 *
 * A signal that ends the program removes the temporaries, restores the
 * default action and is raised again, so that the parent sees the true
 * cause (130 and 143 in a shell).  A signal that was ignored at the start
 * (nohup, background jobs) stays ignored.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli/ui.h"
#include "cmd/cli/ui_internal.h"

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };

static void die(int sig)
{
    sigset_t set;

    cag_emergency_cleanup();
    ui_clear_progress();
    ui_restore_terminal();
    signal(sig, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, sig);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(sig);
    _exit(128 + sig);
}

static void on_end(int sig)
{
    if (!ui_signal_cancels(sig))
        die(sig);
}

/* A page of a mapped file is gone: somebody cut the file, or the disk failed.
 */
static void on_bus(int sig)
{
    static const char text[] =
        ": bus error: a file was cut short or cannot be read any more\n";

    (void)sig;
    cag_emergency_cleanup();
    (void)!write(2, ui.tool, strlen(ui.tool));
    (void)!write(2, text, sizeof text - 1);
    _exit(UI_IOERR);
}

static void on_usr1(int sig)
{
    int keep = errno;

    (void)sig;
    ui_report_progress();
    errno = keep;
}

void ui_start_signals(void)
{
    struct sigaction now, act = { .sa_handler = on_end };
    size_t n = sizeof ending / sizeof ending[0];

    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < n; i++)
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(ending[i], &act, NULL);
    act.sa_handler = on_bus;
    sigaction(SIGBUS, &act, NULL);
    act.sa_handler = on_usr1;
    act.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &act, NULL);
    act.sa_handler = SIG_IGN; /* a write then fails with EFBIG */
    sigaction(SIGXFSZ, &act, NULL);
}

void ui_end_by_signal(void)
{
    if (ui_caught())
        die(ui_caught());
}
