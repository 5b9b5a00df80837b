/*
 * inspect_shards.c - cag-inspect --shards: are the files of a batch that was
 * spread over many runs all there, each row once?
 *
 * Patterns are expanded here too, so that they can be quoted, and with each
 * name FILE goes FILE.part, which a run that is not done has left.
 */
#include <cag/tool/shard.h>

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli/opt.h"
#include "cmd/cli/ui.h"
#include "cmd/inspect/inspect_report.h"

/* In the order of the bits CAG_SHARD_... */
static const struct {
    const char *key, *text;
} wrongs[] = {
    { "open", "not done" },
    { "damaged", "damaged: other rows than its last line says" },
    { "cache", "of another cache" },
    { "options", "of other options" },
    { "questions", "of other questions" },
    { "count", "of another number of shards" },
    { "twice", "rows that are there before" },
};
enum { N_WRONG = sizeof wrongs / sizeof *wrongs };

/* ------------------------------------------------------------------ names */

struct names {
    char **name; /* [n], heap each */
    int n;
};

static void add(struct names *l, const char *a, const char *b)
{
    char **v = realloc(l->name, ((size_t)l->n + 1) * sizeof *v);
    char *s;

    if (!v || asprintf(&s, "%s%s", a, b) < 0)
        exit(ui_fail(CAG_E_NOMEM, NULL, "out of memory"));
    l->name = v;
    v[l->n++] = s;
}

static void add_glob(struct names *l, const char *a, const char *b)
{
    struct names pattern = { NULL, 0 };
    glob_t g;

    add(&pattern, a, b);
    if (glob(pattern.name[0], 0, NULL, &g) == 0) {
        for (size_t i = 0; i < g.gl_pathc; i++)
            add(l, g.gl_pathv[i], "");
        globfree(&g);
    }
    free(pattern.name[0]);
    free(pattern.name);
}

/* "a.10" after "a.9" */
static int by_name(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Each file once, in the order of its name. */
static void find(struct names *l, char **word)
{
    int n = 0;

    for (; *word; word++) {
        add_glob(l, *word, ".part");
        if (access(*word, F_OK) == 0 || !strpbrk(*word, "*?["))
            add(l, *word, "");
        else
            add_glob(l, *word, "");
    }
    if (l->n)
        qsort(l->name, (size_t)l->n, sizeof *l->name, by_name);
    for (int i = 0; i < l->n; i++)
        if (n && !strcmp(l->name[n - 1], l->name[i]))
            free(l->name[i]);
        else
            l->name[n++] = l->name[i];
    l->n = n;
}

/* ------------------------------------------------------------------- text */

static void print_file(const cag_shard_file *f)
{
    const char *between = ": ";

    fputs(ui_clean(f->path), stdout);
    if (f->end.n_shard) {
        printf(": shard %d of %d", f->end.shard, f->end.n_shard);
        between = ", ";
    }
    printf("%s%lld row%s", between, (long long)f->n_row, ui_s(f->n_row));
    if (f->n_failed)
        printf(", %lld failed", (long long)f->n_failed);
    for (int i = 0; i < N_WRONG; i++)
        if (f->wrong & 1u << i && 1u << i != CAG_SHARD_TWICE)
            printf(", %s", wrongs[i].text);
    if (f->n_twice)
        printf(", %lld that %s there before (the first: line %lld)",
               (long long)f->n_twice, f->n_twice == 1 ? "is" : "are",
               (long long)f->line_twice);
    putchar('\n');
}

/* "missing: shards 2, 5-9 of 12" */
static void print_missing(const cag_shards *s)
{
    const char *between = "";

    printf("missing: shard%s ", ui_s(s->n_missing));
    for (int i = 0, j; i < s->n_missing; i = j + 1) {
        for (j = i;
             j + 1 < s->n_missing && s->missing[j + 1] == s->missing[j] + 1;)
            j++;
        printf("%s%d", between, s->missing[i]);
        if (j > i)
            printf("-%d", s->missing[j]);
        between = ", ";
    }
    printf(" of %d\n", s->of.n_shard);
}

static void print_all(const cag_shards *s)
{
    for (int i = 0; i < s->n_file; i++)
        print_file(&s->file[i]);
    if (s->n_missing < 0) {
        puts("no file is complete");
        return;
    }
    if (s->n_missing)
        print_missing(s);
    printf("%s: %lld of %lld row%s, %lld failed, cache %.12s, options %s\n",
           s->complete ? "complete" : "not complete", (long long)s->n_row,
           (long long)s->of.n_input, ui_s(s->of.n_input),
           (long long)s->n_failed, s->of.content_id, s->of.options);
}

/* ------------------------------------------------------------------- JSON */

static void json_digests(struct ui_json *j, const cag_shard *s)
{
    ui_json_str(j, "content_id", s->content_id);
    ui_json_str(j, "options", s->options);
    ui_json_str(j, "questions", s->questions);
}

static void json_file(struct ui_json *j, const cag_shard_file *f)
{
    ui_json_object(j, NULL);
    ui_json_str(j, "file", f->path);
    if (f->end.n_shard) {
        ui_json_int(j, "shard", f->end.shard);
        ui_json_int(j, "shards", f->end.n_shard);
        json_digests(j, &f->end);
    }
    ui_json_int(j, "rows", f->n_row);
    ui_json_int(j, "failed", f->n_failed);
    ui_json_int(j, "twice", f->n_twice);
    ui_json_array(j, "wrong");
    for (int i = 0; i < N_WRONG; i++)
        if (f->wrong & 1u << i)
            ui_json_str(j, NULL, wrongs[i].key);
    ui_json_end(j);
    ui_json_end(j);
}

static void json_all(const cag_shards *s)
{
    struct ui_json j;

    ui_json_start(&j, stdout);
    ui_json_object(&j, NULL);
    ui_json_int(&j, "schema", 1);
    ui_json_bool(&j, "complete", s->complete);
    if (s->n_missing >= 0) {
        ui_json_int(&j, "shards", s->of.n_shard);
        ui_json_int(&j, "input_rows", s->of.n_input);
        ui_json_int(&j, "rows", s->n_row);
        ui_json_int(&j, "failed", s->n_failed);
        json_digests(&j, &s->of);
        ui_json_array(&j, "missing");
        for (int i = 0; i < s->n_missing; i++)
            ui_json_int(&j, NULL, s->missing[i]);
        ui_json_end(&j);
    }
    ui_json_array(&j, "files");
    for (int i = 0; i < s->n_file; i++)
        json_file(&j, &s->file[i]);
    ui_json_end(&j);
    ui_json_end(&j);
}

int inspect_shards(char **word, bool json)
{
    cag_error err = CAG_ERROR_INIT;
    struct names l = { NULL, 0 };
    int status = UI_NO;
    cag_shards s;

    if (!word[0])
        opt_fail("--shards takes the files of a batch: 'answers.*.jsonl'");
    find(&l, word);
    if (!l.n) {
        status = ui_fail(CAG_E_MISSING, word[0], "no such file");
    } else if (cag_shards_check((const char *const *)l.name, l.n, &s, &err)) {
        status = ui_error(&err);
    } else {
        if (json)
            json_all(&s);
        else
            print_all(&s);
        status = s.complete ? UI_OK : UI_NO;
        cag_shards_release(&s);
    }
    for (int i = 0; i < l.n; i++)
        free(l.name[i]);
    free(l.name);
    return status;
}
