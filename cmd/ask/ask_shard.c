/*
 * ask_shard.c - see ask_shard.h.
 *
 * A scheduler that repeats some tasks of an array says nothing of the others:
 * `sbatch --array=3' is an array of one.  So the number of shards is stated,
 * by CAG_SHARDS or I/N, where tasks are repeated by hand; what a scheduler
 * requeues by itself keeps its numbers.
 */
#include "cmd/ask/ask_shard.h"

#include <cag/tool/shard.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cli/opt.h"
#include "cmd/cli/ui.h"

/* ------------------------------------------------------------------ which */

/* A whole number from 0 up to the end of s or a '/'. */
static bool number(const char *s, char end, int64_t *n, const char **rest)
{
    char *stop;

    if (*s < '0' || *s > '9')
        return false;
    errno = 0;
    *n = strtoll(s, &stop, 10);
    *rest = stop;
    return !errno && *stop == end;
}

/* The number in a variable; -1 if it is not set. */
static int64_t variable(const char *name)
{
    const char *s = getenv(name), *rest;
    int64_t n;

    if (!s || !*s)
        return -1;
    if (!number(s, 0, &n, &rest))
        opt_fail("%s is '%s', expected a whole number", name, ui_clean(s));
    return n;
}

static void set(const char *from, int64_t i, int64_t n, int *shard,
                int *n_shard)
{
    if (n < 1 || n > CAG_SHARDS_MAX || i >= n)
        opt_fail("%s: shard %lld of %lld; expected 0 to N-1 of N, N at most "
                 "%d",
                 from, (long long)i, (long long)n, CAG_SHARDS_MAX);
    *shard = (int)i;
    *n_shard = (int)n;
}

static void parse_auto(int *shard, int *n_shard)
{
    int64_t stated = variable("CAG_SHARDS");
    int64_t task = variable("SLURM_ARRAY_TASK_ID");
    int64_t index = variable("JOB_COMPLETION_INDEX");
    int64_t count = variable("SLURM_ARRAY_TASK_COUNT");
    int64_t min = variable("SLURM_ARRAY_TASK_MIN");
    int64_t max = variable("SLURM_ARRAY_TASK_MAX");
    int64_t step = variable("SLURM_ARRAY_TASK_STEP");

    if (task < 0 && index < 0)
        opt_fail("--shard auto: neither SLURM_ARRAY_TASK_ID nor "
                 "JOB_COMPLETION_INDEX is set; say --shard I/N");
    if (stated >= 0) {
        set("CAG_SHARDS", task >= 0 ? task : index, stated, shard, n_shard);
        return;
    }
    if (task < 0)
        opt_fail("--shard auto: JOB_COMPLETION_INDEX says which, but not of "
                 "how many: set CAG_SHARDS to the job's completions");
    if (count < 1 || min < 0 || task < min)
        opt_fail("--shard auto: SLURM_ARRAY_TASK_COUNT and _MIN are not set; "
                 "say --shard I/N");
    step = step > 0 ? step : 1;
    if ((task - min) % step || (max >= 0 && (max - min) / step + 1 != count))
        opt_fail("--shard auto: the tasks of this array are no range; set "
                 "CAG_SHARDS, or say --shard I/N");
    set("--shard auto", (task - min) / step, count, shard, n_shard);
}

void ask_shard_parse(const char *text, int *shard, int *n_shard)
{
    const char *rest;
    int64_t i, n;

    if (!strcmp(text, "auto")) {
        parse_auto(shard, n_shard);
        return;
    }
    if (!number(text, '/', &i, &rest) || !number(rest + 1, 0, &n, &rest))
        opt_fail("option '--shard': '%s', expected I/N such as 0/8, or auto",
                 ui_clean(text));
    set("option '--shard'", i, n, shard, n_shard);
}

/* ------------------------------------------------------------------ names */

char *ask_shard_name(const char *pattern, int shard, int n_shard)
{
    size_t size = strlen(pattern) * 8 + 1, at = 0;
    char *name = malloc(size);
    bool own = n_shard == 1;

    if (!name)
        exit(ui_fail(CAG_E_NOMEM, NULL, "out of memory"));
    for (const char *p = pattern; *p; p++) {
        if (*p != '%') {
            name[at++] = *p;
            continue;
        }
        p++;
        if (*p == '%')
            name[at++] = '%';
        else if (*p == 'i' || *p == 'n')
            at += (size_t)snprintf(name + at, size - at, "%d",
                                   *p == 'i' ? shard : n_shard);
        else
            opt_fail("option '--output': with --shard, %% is followed by i, n "
                     "or %%: '%s'",
                     ui_clean(pattern));
        own = own || *p == 'i';
        if (*p != '%' && strchr(p, '/'))
            opt_fail("option '--output': '%s': %%%c belongs into the file's "
                     "name, not a directory's",
                     ui_clean(pattern), *p);
    }
    name[at] = 0;
    if (!own)
        opt_fail("option '--output': '%s' is one file for %d shards; write %%i "
                 "where its number is to be",
                 ui_clean(pattern), n_shard);
    return name;
}

/* Does name match the last part of a pattern?  *i is its number. */
static bool matches(const char *pattern, const char *name, int64_t *i)
{
    for (; *pattern; pattern++) {
        const char *rest;
        int64_t n;

        if (*pattern == '%' && pattern[1] != '%') {
            pattern++;
            if (*name < '0' || *name > '9' ||
                (*name == '0' && name[1] >= '0' && name[1] <= '9'))
                return false;
            errno = 0;
            n = strtoll(name, (char **)(uintptr_t)&rest, 10);
            if (errno || n > CAG_SHARDS_MAX)
                return false;
            if (*pattern == 'i')
                *i = n;
            name = rest;
            continue;
        }
        pattern += *pattern == '%';
        if (*name++ != *pattern)
            return false;
    }
    return !*name || !strcmp(name, ".part");
}

/* The names in the directory of path that match the pattern, to fn with their
 * number and their path. */
static cag_status each_match(const char *pattern, const char *path,
                             cag_status (*fn)(void *ctx, const char *path,
                                              int64_t i, cag_error *err),
                             void *ctx, cag_error *err)
{
    const char *slash = strrchr(pattern, '/'), *own = strrchr(path, '/');
    int n_dir = own ? (int)(own + 1 - path) : 0;
    char *name = NULL;
    cag_status st = CAG_OK;
    struct dirent *e;
    DIR *d;

    if (asprintf(&name, "%.*s.", n_dir, path) < 0)
        exit(ui_fail(CAG_E_NOMEM, NULL, "out of memory"));
    d = opendir(name); /* one that cannot be read: nothing is known */
    free(name);
    while (d && !st && (e = readdir(d)) != NULL) {
        int64_t i = -1;

        if (!matches(slash ? slash + 1 : pattern, e->d_name, &i))
            continue;
        if (asprintf(&name, "%.*s%s", n_dir, path, e->d_name) < 0)
            exit(ui_fail(CAG_E_NOMEM, NULL, "out of memory"));
        st = fn(ctx, name, i, err);
        free(name);
    }
    if (d)
        closedir(d);
    return st;
}

struct also {
    cag_rows *rows;
    const char *own;
};

/* Any but PATH and PATH.part, which are read already. */
static cag_status add(void *ctx, const char *path, int64_t i, cag_error *err)
{
    const struct also *a = ctx;
    size_t n = strlen(a->own);

    (void)i;
    if (!strncmp(path, a->own, n) && (!path[n] || !strcmp(path + n, ".part")))
        return CAG_OK;
    return cag_rows_also(a->rows, path, err);
}

cag_status ask_shard_also(cag_rows *r, const char *pattern, const char *own,
                          cag_error *err)
{
    struct also a = { r, own };

    return each_match(pattern, own, add, &a, err);
}

struct retire {
    int shard, n_shard;
};

/* Only what says itself that it was shard i of more than there are now. */
static cag_status retire(void *ctx, const char *path, int64_t i, cag_error *err)
{
    const struct retire *r = ctx;
    size_t n = strlen(path);
    struct stat s;
    cag_shards c;
    char *part;
    bool old;

    (void)err;
    if (i < r->n_shard || i % r->n_shard != r->shard ||
        (n > 5 && !strcmp(path + n - 5, ".part")) || lstat(path, &s) != 0 ||
        !S_ISREG(s.st_mode) || s.st_uid != geteuid() ||
        cag_shards_check(&path, 1, &c, NULL))
        return CAG_OK;
    old = c.file[0].end.n_shard > r->n_shard && c.file[0].end.shard == i;
    cag_shards_release(&c);
    if (!old)
        return CAG_OK;
    if (asprintf(&part, "%s.part", path) < 0)
        exit(ui_fail(CAG_E_NOMEM, NULL, "out of memory"));
    if (lstat(part, &s) == 0 || errno != ENOENT || rename(path, part) != 0)
        ui_warn("%s is of a run with more shards, and its rows are in the "
                "files of this run too: move it away",
                ui_clean(path));
    else
        ui_note("%s was of a run with more shards: it is %s.part now",
                ui_clean(path), ui_clean(path));
    free(part);
    return CAG_OK;
}

void ask_shard_retire(const char *pattern, const char *own, int shard,
                      int n_shard)
{
    struct retire r = { shard, n_shard };

    if (!strstr(pattern, "%n"))
        each_match(pattern, own, retire, &r, NULL);
}
