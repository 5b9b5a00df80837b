/*
 * file_emergency.c - see file_emergency.h.
 *
 * A signal handler may take no lock and allocate nothing: the names lie in a
 * fixed table, whose entries are claimed by an atomic and read only when
 * they are whole.
 */
#include "util/file_emergency.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include "util/error.h"

enum { SLOT_FREE, SLOT_BUSY, SLOT_LIVE };
static struct slot {
    atomic_int state;
    pid_t pid; /* a forked child must leave them alone */
    int dir;
    char name[NAME_MAX + 1];
} slots[64];

bool file_emergency_add(int dir, const char *name)
{
    size_t n = strlen(name);

    if (n >= sizeof slots[0].name)
        return false;
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        int want = SLOT_FREE;
        if (!atomic_compare_exchange_strong(&slots[i].state, &want, SLOT_BUSY))
            continue;
        memcpy(slots[i].name, name, n + 1);
        slots[i].dir = dir;
        slots[i].pid = getpid();
        atomic_store(&slots[i].state, SLOT_LIVE);
        return true;
    }
    return false;
}

void file_emergency_drop(int dir, const char *name)
{
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        if (atomic_load(&slots[i].state) == SLOT_LIVE && slots[i].dir == dir &&
            strcmp(slots[i].name, name) == 0) {
            atomic_store(&slots[i].state, SLOT_FREE);
            return;
        }
}

void file_emergency_run(void)
{
    int keep = errno;

    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        if (atomic_load(&slots[i].state) == SLOT_LIVE &&
            slots[i].pid == getpid())
            unlinkat(slots[i].dir, slots[i].name, 0);
    errno = keep;
}

void cag_emergency_cleanup(void)
{
    file_emergency_run();
}
