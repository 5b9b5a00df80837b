/*
 * cut.c - see cut.h.
 *
 * The handler runs in any thread, also while another one opens a cache: it
 * reads a table of atomics, and nothing of it is ever freed.  mmap is a plain
 * system call on Linux, and may be used in a handler.
 */
#include "cmd/serve/cut.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/error.h"

/* Each cache open, one that was replaced, and one being looked at. */
enum { N_PLACE = 2 * SHELF_MAX + 16 };

static struct place {
    atomic_uintptr_t end; /* 0: free; set last */
    atomic_uintptr_t begin;
    atomic_bool cut, used;
} place[N_PLACE];
static uintptr_t page_size;
static struct sigaction before;

/* Zeros from the page that is gone to the end of its file: what lies after a
 * cut is gone as well, and one map is made, not one a page. */
static bool put_zeros(struct place *p, uintptr_t at)
{
    uintptr_t end = atomic_load(&p->end), page = at & ~(page_size - 1);

    if (!end || at < atomic_load(&p->begin) || at >= end)
        return false;
    atomic_store(&p->cut, true);
    return mmap((void *)page, end - page, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
                0) != MAP_FAILED;
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
    int keep = errno;

    (void)context;
    for (int i = 0; i < N_PLACE; i++)
        if (put_zeros(&place[i], (uintptr_t)info->si_addr)) {
            errno = keep;
            return;
        }
    /* not ours; what it was before takes no siginfo (ui_signal.c) */
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(sig);
        return;
    }
    signal(sig, SIG_DFL); /* the read is tried again, and ends the program */
}

void cut_start(void)
{
    struct sigaction act = { .sa_flags = SA_SIGINFO };

    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    act.sa_sigaction = on_bus;
    sigemptyset(&act.sa_mask);
    sigaction(SIGBUS, &act, &before);
}

/* The scheduler's thread opens caches, the watch's looks at them. */
static void on_mapped(void *ctx, const void *data, size_t size)
{
    struct cut *c = ctx;

    if (!size) {
        if (c->place) {
            atomic_store(&place[c->place - 1].end, 0);
            atomic_store(&place[c->place - 1].used, false);
        }
        c->place = 0;
        return;
    }
    for (int i = 0; i < N_PLACE; i++) {
        bool free = false;

        if (!atomic_compare_exchange_strong(&place[i].used, &free, true))
            continue;
        atomic_store(&place[i].cut, false);
        atomic_store(&place[i].begin, (uintptr_t)data);
        atomic_store(&place[i].end, (uintptr_t)data + size);
        c->place = i + 1;
        return;
    }
    /* no room: this one is not survived */
}

void cut_watch(struct cut *c, cag_kb_opts *k)
{
    c->place = 0;
    k->mapped = on_mapped;
    k->mapped_ctx = c;
}

bool cut_found(const struct cut *c)
{
    return c->place && atomic_load(&place[c->place - 1].cut);
}

cag_status cut_fail(const char *file, cag_error *err)
{
    return cag_fail(err, CAG_E_IO, file, -1,
                    "was cut short in place, or cannot be read any more; build "
                    "it again, or put a whole file there (by renaming, as mv "
                    "does)");
}
