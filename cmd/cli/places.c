/*
 * places.c - see places.h.
 */
#include "cmd/cli/places.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cli/opt.h"
#include "cmd/cli/ui.h"

static const char *env(const char *name)
{
    const char *v = secure_getenv(name);

    return v && *v ? v : NULL;
}

/* dir/sub in out, or NULL when dir is unset or too long. */
static const char *below(char out[PATH_MAX], const char *dir, const char *sub)
{
    if (!dir || snprintf(out, PATH_MAX, "%s/%s", dir, sub) >= PATH_MAX)
        return NULL;
    return out;
}

/* Made on first use; without one, hashes are simply not remembered. */
static const char *make_dir(const char *path)
{
    char part[PATH_MAX];

    if (!path || strlen(path) >= sizeof part)
        return NULL;
    memcpy(part, path, strlen(path) + 1);
    for (char *p = part + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(part, 0700);
            *p = '/';
        }
    return mkdir(part, 0700) == 0 || errno == EEXIST ? path : NULL;
}

/* CAG_MODELS, then the directory that is there for models. */
static const char *model_dirs(void)
{
    static char dir[PATH_MAX], all[2 * PATH_MAX];
    const char *more = env("CAG_MODELS");
    const char *own = below(dir, env("XDG_DATA_HOME"), "cag/models");

    if (!own)
        own = below(dir, env("HOME"), ".local/share/cag/models");
    if (!more || !own)
        return more ? more : own;
    if (snprintf(all, sizeof all, "%s:%s", more, own) >= (int)sizeof all)
        return more;
    return all;
}

const cag_places *places_get(void)
{
    static char cache[PATH_MAX], hub[PATH_MAX], tmp[PATH_MAX];
    static cag_places p;
    static bool done;
    const char *dir;

    if (done)
        return &p;
    done = true;
    p.model = env("CAG_MODEL");
    p.models = model_dirs();
    dir = env("CAG_CACHE_DIR");
    if (!dir)
        dir = below(cache, env("XDG_CACHE_HOME"), "cag");
    if (!dir)
        dir = below(cache, env("HOME"), ".cache/cag");
    p.cache_dir = make_dir(dir);
    p.cache_dir_ro = "/var/cache/cag";
    p.hf_hub = env("HF_HUB_CACHE");
    if (!p.hf_hub)
        p.hf_hub = below(hub, env("HF_HOME"), "hub");
    if (!p.hf_hub)
        p.hf_hub =
            below(hub, below(tmp, env("XDG_CACHE_HOME"), "huggingface"), "hub");
    if (!p.hf_hub)
        p.hf_hub = below(hub, env("HOME"), ".cache/huggingface/hub");
    return &p;
}

const char *places_plugin(void)
{
    return env("CAG_CUDA_PLUGIN");
}

/* A number from 1 on, or 0. */
static int env_number(const char *name)
{
    const char *v = env(name);
    char *end;
    long n = v ? strtol(v, &end, 10) : 0;

    return v && !*end && n > 0 && n <= INT_MAX ? (int)n : 0;
}

int places_listen_fds(int *first)
{
    int n = env_number("LISTEN_FDS");

    *first = 3; /* what systemd begins with: sd_listen_fds(3) */
    if (env_number("LISTEN_PID") != (int)getpid())
        n = 0;
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
    return n;
}

const char *places_history(void)
{
    static char dir[PATH_MAX], path[PATH_MAX];
    const char *state = below(dir, env("XDG_STATE_HOME"), "cag");

    if (!state)
        state = below(dir, env("HOME"), ".local/state/cag");
    return below(path, make_dir(state), "history");
}

int64_t places_now(void)
{
    return (int64_t)time(NULL);
}

int64_t places_epoch(void)
{
    const char *v = env("SOURCE_DATE_EPOCH");
    char *end;
    long long n;

    if (!v)
        return -1;
    errno = 0;
    n = strtoll(v, &end, 10);
    if (errno || *end || !isdigit((unsigned char)*v) || n < 0 ||
        n > 253402300799)
        opt_fail("SOURCE_DATE_EPOCH is '%s', expected seconds since 1970", v);
    return n;
}

/* The number after name in a file of /proc or /sys; false if there is none. */
static bool number_in(const char *file, const char *name, uint64_t *out)
{
    FILE *f = fopen(file, "re");
    char line[256];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name))) {
            char *end, *s = line + strlen(name);

            errno = 0;
            *out = strtoull(s, &end, 10);
            found = !errno && end != s;
        }
    if (f)
        fclose(f);
    return found;
}

uint64_t places_free_memory(void)
{
    uint64_t kib, limit, used;
    uint64_t n =
        number_in("/proc/meminfo", "MemAvailable:", &kib) ? kib << 10 : 0;

    if (number_in("/sys/fs/cgroup/memory.max", "", &limit) &&
        number_in("/sys/fs/cgroup/memory.current", "", &used) &&
        limit >= used && (!n || limit - used < n))
        n = limit - used;
    return n;
}

static void on_note(void *ctx, cag_note kind, const char *line)
{
    (void)ctx;
    if (kind == CAG_NOTE_WARN)
        ui_warn("%s", line);
    else if (kind == CAG_NOTE_WAIT)
        ui_note("%s", line);
    else
        ui_verbose(kind == CAG_NOTE_INFO ? 1 : 2, "%s", line);
}

static bool on_progress(void *ctx, const cag_progress *p)
{
    static char *const units[] = { NULL, ui_tokens, ui_bytes, ui_rows };

    (void)ctx;
    return ui_progress(units[p->unit], p->what, p->done, p->total);
}

cag_hooks places_hooks(void)
{
    return (cag_hooks){ on_note, on_progress, NULL };
}
