/*
 * shard_check.c - is a set of files the whole batch, each row once?
 *
 * Which cache, options, questions and number of shards are meant is not asked:
 * it is what most of the complete files say (the first of equals), and the
 * others are named.  Rows are told apart by the number of their line, which is
 * that of the questions' file and so the same in every shard.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "batch/batch_earlier.h"
#include "batch/batch_shard.h"
#include "util/error.h"
#include "util/mem.h"

struct seen {
    int64_t line;
    int32_t file; /* + n_file, if it is no part of the whole */
};

struct check {
    cag_shards *out;
    struct seen *seen; /* [n_seen] */
    size_t n_seen, cap_seen;
    int file; /* the one that is read: */
    bool ended, mixed;
    char cache[65]; /* that its rows are of */
};

static cag_status add_row(struct check *c, const jv *row, cag_error *err)
{
    cag_shard_file *f = &c->out->file[c->file];
    const char *id;

    if (c->n_seen == c->cap_seen) {
        size_t more = c->cap_seen ? 2 * c->cap_seen : 1024, bytes;
        void *v = mem_mul(&bytes, more, sizeof *c->seen)
                      ? mem_realloc(c->seen, bytes)
                      : NULL;

        if (!v)
            return cag_fail_nomem(err, "rows");
        c->seen = v;
        c->cap_seen = more;
    }
    c->seen[c->n_seen++] =
        (struct seen){ jv_get_int(row, "line", 0), (int32_t)c->file };
    id = jv_get_str(row, "content_id", NULL);
    if (id && !c->cache[0])
        snprintf(c->cache, sizeof c->cache, "%s", id);
    else if (id && strcmp(id, c->cache) != 0)
        c->mixed = true;
    f->n_row++;
    f->n_failed += jv_get(row, "error") != NULL;
    return CAG_OK;
}

static bool is_row(const jv *row)
{
    return jv_type(row) == JV_OBJECT &&
           jv_type(jv_get(row, "line")) == JV_INT &&
           (jv_get(row, "answer") || jv_get(row, "error"));
}

static cag_status take_line(void *ctx, const char *line, size_t size,
                            uint64_t at, cag_error *err)
{
    struct check *c = ctx;
    cag_shard_file *f = &c->out->file[c->file];
    jv *row = NULL;
    cag_status st = jv_parse(line, size, NULL, &row, NULL);

    (void)at;
    if (st == CAG_E_NOMEM)
        return cag_fail_nomem(err, "rows");
    if (c->ended) /* whatever stands after the end */
        f->wrong |= CAG_SHARD_DAMAGED;
    if (!st && is_row(row))
        st = add_row(c, row, err);
    else if (!st && shard_read(row, &f->end))
        c->ended = true;
    else
        st = cag_fail(err, CAG_E_FORMAT, f->path, -1,
                      "row %lld is none of cag-ask's: expected the output of "
                      "--batch as JSON",
                      (long long)f->n_row + 1);
    jv_free(row);
    return st;
}

/* Rows of a run that is not done, or that was replaced by one of other
 * shards; it may even have its last line. */
static bool is_part(const char *path)
{
    size_t n = strlen(path);

    return n > 5 && !strcmp(path + n - 5, ".part");
}

static cag_status read_file(struct check *c, cag_error *err)
{
    cag_shard_file *f = &c->out->file[c->file];
    struct stat s;
    uint64_t size = 0;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    cag_status st = CAG_OK;

    if (fd < 0 || fstat(fd, &s) != 0)
        st = cag_fail_sys(err, CAG_E_MISSING, errno, f->path, "cannot read");
    else if (!S_ISREG(s.st_mode))
        st = cag_fail(err, CAG_E_MISSING, f->path, -1, "is not a regular file");
    if (!st)
        st = earlier_whole(fd, f->path, &size, err);
    c->ended = c->mixed = false;
    c->cache[0] = 0;
    if (!st)
        st = earlier_lines(fd, f->path, size, take_line, c, err);
    if (!st && (!c->ended || is_part(f->path))) {
        f->wrong = CAG_SHARD_OPEN;
        memset(&f->end, 0, sizeof f->end);
    } else if (!st &&
               (size != (uint64_t)s.st_size || f->n_row != f->end.n_row ||
                f->n_failed != f->end.n_failed || c->mixed ||
                (c->cache[0] && strcmp(c->cache, f->end.content_id) != 0)))
        f->wrong |= CAG_SHARD_DAMAGED;
    if (fd >= 0)
        close(fd);
    return st;
}

/* In what the ends of two files differ, as bits. */
static unsigned differ(const cag_shard *a, const cag_shard *b)
{
    return (strcmp(a->content_id, b->content_id) ? CAG_SHARD_CACHE : 0u) |
           (strcmp(a->options, b->options) ? CAG_SHARD_OPTIONS : 0u) |
           (strcmp(a->questions, b->questions) || a->n_input != b->n_input
                ? CAG_SHARD_QUESTIONS
                : 0u) |
           (a->n_shard != b->n_shard ? CAG_SHARD_COUNT : 0u);
}

/* What most files are parts of. */
static void find_common(cag_shards *s)
{
    int most = 0;

    for (int i = 0; i < s->n_file && 2 * most <= s->n_file; i++) {
        int n = 0;

        for (int j = 0; s->file[i].end.n_shard && j < s->n_file; j++)
            n += s->file[j].end.n_shard &&
                 !differ(&s->file[i].end, &s->file[j].end);
        if (n > most) {
            most = n;
            s->of = s->file[i].end;
        }
    }
    for (int i = 0; i < s->n_file; i++)
        if (s->file[i].end.n_shard)
            s->file[i].wrong |= differ(&s->file[i].end, &s->of);
}

static int by_line(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;

    if (x->line != y->line)
        return x->line > y->line ? 1 : -1;
    return (x->file > y->file) - (x->file < y->file);
}

/* A part of the whole, with all its rows? */
static bool is_whole(const cag_shard_file *f)
{
    return f->end.n_shard && !(f->wrong & ~(unsigned)CAG_SHARD_TWICE);
}

/* Rows that stand before, in an earlier file or in the same; those of the
 * whole come first. */
static void find_twice(struct check *c)
{
    cag_shard_file *file = c->out->file;
    size_t n = 0;

    for (size_t i = 0; i < c->n_seen; i++) {
        struct seen v = c->seen[i];

        if (is_part(file[v.file].path))
            continue;
        v.file += is_whole(&file[v.file]) ? 0 : c->out->n_file;
        c->seen[n++] = v;
    }
    if (n)
        qsort(c->seen, n, sizeof *c->seen, by_line);
    for (size_t i = 1; i < n; i++) {
        cag_shard_file *f = &file[c->seen[i].file % c->out->n_file];

        if (c->seen[i].line != c->seen[i - 1].line)
            continue;
        if (!f->n_twice++)
            f->line_twice = c->seen[i].line;
        f->wrong |= CAG_SHARD_TWICE;
    }
}

static cag_status find_missing(cag_shards *s, cag_error *err)
{
    bool *there;

    s->n_missing = -1;
    if (!s->of.n_shard)
        return CAG_OK;
    there = mem_alloc_array((size_t)s->of.n_shard, sizeof *there);
    s->missing = mem_alloc_array((size_t)s->of.n_shard, sizeof *s->missing);
    if (!there || !s->missing) {
        mem_free(there);
        return cag_fail_nomem(err, "shards");
    }
    for (int i = 0; i < s->n_file; i++)
        if (is_whole(&s->file[i])) {
            there[s->file[i].end.shard] = true;
            s->n_row += s->file[i].n_row - s->file[i].n_twice;
            s->n_failed += s->file[i].n_failed;
        }
    s->n_missing = 0;
    for (int i = 0; i < s->of.n_shard; i++)
        if (!there[i])
            s->missing[s->n_missing++] = i;
    mem_free(there);
    s->complete = !s->n_missing && s->n_row == s->of.n_input;
    for (int i = 0; i < s->n_file; i++)
        if (!is_part(s->file[i].path) && s->file[i].wrong)
            s->complete = false;
    return CAG_OK;
}

cag_status cag_shards_check(const char *const *path, int n_path,
                            cag_shards *out, cag_error *err)
{
    struct check c = { .out = out };
    cag_status st = CAG_OK;

    memset(out, 0, sizeof *out);
    out->file = mem_alloc_array((size_t)n_path + 1, sizeof *out->file);
    if (!out->file)
        return cag_fail_nomem(err, "files");
    for (; out->n_file < n_path && !st; c.file = ++out->n_file) {
        out->file[out->n_file].path = path[out->n_file];
        st = read_file(&c, err);
    }
    if (!st) {
        find_common(out);
        find_twice(&c);
        st = find_missing(out, err);
    }
    mem_free(c.seen);
    if (st)
        cag_shards_release(out);
    return st;
}

void cag_shards_release(cag_shards *s)
{
    mem_free(s->file);
    mem_free(s->missing);
    memset(s, 0, sizeof *s);
}
