/*
 * manifest.c - cag-manifest(5): YAML events against a table of keys.
 *
 * Every scalar is taken as the text it is and converted by the schema, so
 * that "no" is a word and "010" is ten.  There is little YAML in it on
 * purpose: no tags, no anchors, no aliases (so nothing can grow beyond the
 * file's own size), one document.  Each error has its line and column.
 */
#include "source/manifest.h"
#include "source/manifest_value.h"

#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include <cag/session.h>

#include "util/arena.h"
#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/text.h"

#define MAX_BYTES   ((size_t)1 << 20)
#define MAX_SOURCES 10000
#define MAX_WORDS   64

enum kind {
    K_STR,
    K_PATH,
    K_MODEL,
    K_INT,
    K_SIZE,
    K_REAL,
    K_CHOICE,
    K_DATE,
    K_LIST /* of patterns, or one */
};
typedef const char *name_fn(int i); /* NULL at the end */

struct key {
    const char *name;
    enum kind kind;
    size_t off; /* of the member it fills */
    int64_t min, max;
    name_fn *choice;
};

static const char *precision_name(int i)
{
    /* auto follows a cache, and here there is none yet */
    return i < CAG_PRECISION_AUTO ? cag_precision_name((cag_precision)i) : NULL;
}

static const char *front_name(int i)
{
    return i == 0 ? "keep" : i == 1 ? "drop" : NULL;
}

/* Each key is taken once, so places suffice for all of both tables. */
#define AT(m) offsetof(cag_manifest, m)
static const struct key top_keys[] = {
    { "model", K_MODEL, AT(model), 0, 0, NULL },
    { "output", K_PATH, AT(output), 0, 0, NULL },
    { "codec", K_CHOICE, AT(codec), 0, 0, cag_kvc_codec_name },
    { "max-loss", K_REAL, AT(max_loss), 0, 1000000, NULL },
    { "precision", K_CHOICE, AT(precision), 0, 0, precision_name },
    { "device", K_STR, AT(device), 0, 0, NULL },
    { "gpu-layers", K_STR, AT(gpu_layers), 0, 0, NULL },
    { "front-matter", K_CHOICE, AT(front_matter), 0, 0, front_name },
    { "include", K_LIST, AT(include), 0, 0, NULL },
    { "exclude", K_LIST, AT(exclude), 0, 0, NULL },
    { "depfile", K_PATH, AT(depfile), 0, 0, NULL },
    { "calibrate", K_CHOICE, AT(calibrate), 0, 0, cag_calibrate_name },
    { "questions", K_PATH, AT(questions), 0, 0, NULL },
    { "ctx-size", K_INT, AT(ctx_size), 64, 1 << 24, NULL },
    { "reserve", K_INT, AT(reserve), 0, 1 << 24, NULL },
    { "threads", K_INT, AT(threads), 1, 512, NULL },
    { "batch-size", K_INT, AT(batch_size), 1, 65536, NULL },
    { "max-memory", K_SIZE, AT(max_memory), 1, INT64_MAX, NULL },
    { NULL, K_STR, 0, 0, 0, NULL }
};
static const struct key prompt_keys[] = {
    { "system", K_STR, AT(system), 0, 0, NULL },
    { "system-file", K_PATH, AT(system_file), 0, 0, NULL },
    { "label", K_STR, AT(label), 0, 0, NULL },
    { "refusal", K_STR, AT(refusal), 0, 0, NULL },
    { "acknowledgement", K_STR, AT(acknowledgement), 0, 0, NULL },
    { "chat-template", K_STR, AT(chat_template), 0, 0, NULL },
    { "chat-template-file", K_PATH, AT(chat_template_file), 0, 0, NULL },
    { "template-date", K_DATE, AT(template_date), 0, 0, NULL },
    { NULL, K_STR, 0, 0, 0, NULL }
};

struct loader {
    yaml_parser_t parser;
    yaml_event_t event;
    bool has_event;
    const char *path;
    char *dir;
    cag_manifest *m;
    struct arena *arena;
    cag_error *err;
    unsigned char seen[2][32]; /* by table and key */
};

/* ---------------------------------------------------------------- events */

static cag_status fail(struct loader *l, const yaml_mark_t *at, const char *fmt,
                       ...) PRINTF_LIKE(3, 4);

static cag_status fail(struct loader *l, const yaml_mark_t *at, const char *fmt,
                       ...)
{
    char msg[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    return cag_fail_at(l->err, CAG_E_CONFIG, l->path, (int)at->line + 1,
                       (int)at->column + 1, "%s", msg);
}

/* The next event; refuses what a manifest may not hold. */
static cag_status next(struct loader *l)
{
    const yaml_event_t *e = &l->event;
    const unsigned char *anchor = NULL, *tag = NULL;

    if (l->has_event)
        yaml_event_delete(&l->event);
    l->has_event = false;
    if (!yaml_parser_parse(&l->parser, &l->event)) {
        if (l->parser.error == YAML_MEMORY_ERROR)
            return cag_fail_nomem(l->err, "manifest");
        return fail(l, &l->parser.problem_mark, "not valid YAML: %s",
                    l->parser.problem ? l->parser.problem : "unknown error");
    }
    l->has_event = true;
    if (e->type == YAML_ALIAS_EVENT)
        return fail(l, &e->start_mark, "an alias (*%s): write the value out",
                    (const char *)e->data.alias.anchor);
    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
    }
    if (anchor)
        return fail(l, &e->start_mark,
                    "an anchor (&%s): not used in a "
                    "manifest",
                    (const char *)anchor);
    if (tag)
        return fail(l, &e->start_mark, "a tag (%s): not used in a manifest",
                    (const char *)tag);
    return CAG_OK;
}

static const char *event_name(int type)
{
    return type == YAML_SCALAR_EVENT           ? "a plain value"
           : type == YAML_SEQUENCE_START_EVENT ? "a list"
           : type == YAML_MAPPING_START_EVENT  ? "a mapping"
                                               : "the end";
}

/* The current event's scalar, copied; NULL after a failure with *st set. */
static const char *scalar(struct loader *l, const char *what, cag_status *st)
{
    const yaml_event_t *e = &l->event;
    const char *s;
    char *copy;

    if (e->type != YAML_SCALAR_EVENT) {
        *st = fail(l, &e->start_mark, "%s is %s, expected a plain value", what,
                   event_name(e->type));
        return NULL;
    }
    s = (const char *)e->data.scalar.value;
    if (strlen(s) != e->data.scalar.length) {
        *st = fail(l, &e->start_mark, "%s holds a NUL byte", what);
        return NULL;
    }
    copy = arena_strndup(l->arena, s, strlen(s));
    if (!copy)
        *st = cag_fail_nomem(l->err, "manifest");
    return copy;
}

/* ---------------------------------------------------------------- values */

static const char *in_dir(struct loader *l, const char *path, cag_status *st)
{
    /* "./x" would be another name for x in messages and in make rules */
    char *joined =
        strcmp(l->dir, ".") ? file_join(l->dir, path) : mem_strdup(path);
    const char *copy =
        joined ? arena_strndup(l->arena, joined, strlen(joined)) : NULL;

    mem_free(joined);
    if (!copy)
        *st = cag_fail_nomem(l->err, "manifest");
    return copy;
}

static cag_status fail_choice(struct loader *l, const yaml_mark_t *at,
                              const struct key *k, const char *s)
{
    char list[64] = "";

    for (int i = 0; k->choice(i); i++) {
        size_t n = strlen(list);

        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "",
                 k->choice(i));
    }
    return fail(l, at, "%s is '%.60s', expected one of %s", k->name, s, list);
}

/* A pattern of include or exclude; '!' would ask for an order of patterns. */
static const char *take_pattern(struct loader *l, const struct key *k,
                                cag_status *st)
{
    const yaml_mark_t at = l->event.start_mark;
    const char *s = scalar(l, k->name, st);

    if (s && (!*s || *s == '!')) {
        *st = fail(l, &at,
                   *s ? "%s: a pattern cannot begin with '!'"
                      : "%s holds an empty pattern",
                   k->name);
        return NULL;
    }
    return s;
}

/* A list of patterns, or a single one. */
static cag_status take_list(struct loader *l, const struct key *k)
{
    const char **v = arena_array(l->arena, MAX_WORDS + 1, sizeof *v);
    const yaml_mark_t at = l->event.start_mark;
    cag_status st = CAG_OK;
    int n = 0;

    if (!v)
        return cag_fail_nomem(l->err, "manifest");
    if (l->event.type != YAML_SEQUENCE_START_EVENT) {
        v[n++] = take_pattern(l, k, &st);
    } else {
        while (!st && !(st = next(l)) &&
               l->event.type != YAML_SEQUENCE_END_EVENT) {
            if (n == MAX_WORDS)
                return fail(l, &l->event.start_mark, "more than %d patterns",
                            MAX_WORDS);
            v[n++] = take_pattern(l, k, &st);
        }
    }
    if (!st && !n)
        return fail(l, &at, "%s is an empty list", k->name);
    memcpy((char *)l->m + k->off, &v, sizeof v);
    return st;
}

static cag_status take_value(struct loader *l, const struct key *k)
{
    const yaml_mark_t *at = &l->event.start_mark;
    cag_status st = CAG_OK;
    const char *s;
    char *slot = (char *)l->m + k->off;
    int64_t n;

    if (k->kind == K_LIST)
        return take_list(l, k);
    s = scalar(l, k->name, &st);

    if (!s)
        return st;
    if (!*s)
        return fail(l, at, "%s is empty", k->name);
    l->m->place[l->m->n_place++] =
        (cag_manifest_place){ k->name, (int)at->line + 1, (int)at->column + 1 };
    if (k->kind == K_INT || k->kind == K_SIZE) {
        if (!manifest_to_number(s, k->kind == K_SIZE, &n) || n < k->min ||
            n > k->max)
            return fail(l, at,
                        "%s is '%.60s', expected a whole number from "
                        "%lld to %lld",
                        k->name, s, (long long)k->min, (long long)k->max);
        memcpy(slot, &n, sizeof n);
        return CAG_OK;
    }
    if (k->kind == K_REAL) {
        double x;

        if (!manifest_to_real(s, &x) || x > (double)k->max)
            return fail(l, at,
                        "%s is '%.60s', expected a number from %lld to "
                        "%lld, such as 3e-4",
                        k->name, s, (long long)k->min, (long long)k->max);
        memcpy(slot, &x, sizeof x);
        return CAG_OK;
    }
    if (k->kind == K_CHOICE) {
        int i = 0;

        while (k->choice(i) && strcmp(k->choice(i), s))
            i++;
        if (!k->choice(i))
            return fail_choice(l, at, k, s);
    }
    if (k->kind == K_DATE && !manifest_is_date(s))
        return fail(l, at, "%s is '%.60s', expected YYYY-MM-DD", k->name, s);
    if (!strcmp(k->name, "output") && !strcmp(s, "-"))
        return fail(l, at,
                    "output must be a file: a cache is mapped, not "
                    "streamed");
    if (k->kind == K_PATH)
        s = in_dir(l, s, &st);
    if (k->kind == K_MODEL) {
        /* a path beside the manifest wins over a hub id, as everywhere */
        const char *p = in_dir(l, s, &st);

        if (p && file_exists(p))
            s = p;
    }
    if (!st)
        memcpy(slot, &s, sizeof s);
    return st;
}

static cag_status mapping(struct loader *l, const struct key *keys, int table,
                          cag_status (*special)(struct loader *, const char *,
                                                bool *));

/* One "key: value" of a table; the current event is the key. */
static cag_status take_key(struct loader *l, const struct key *keys, int table,
                           cag_status (*special)(struct loader *, const char *,
                                                 bool *))
{
    yaml_mark_t at = l->event.start_mark;
    cag_status st = CAG_OK;
    const char *name = scalar(l, "a key", &st);
    bool done = false;
    int i = 0;

    if (!name)
        return st;
    if (special)
        st = special(l, name, &done);
    if (st || done)
        return st;
    while (keys[i].name && strcmp(keys[i].name, name))
        i++;
    if (!keys[i].name)
        return fail(l, &at,
                    "unknown key '%.60s'; cag-manifest(5) lists the "
                    "keys",
                    name);
    if (l->seen[table][i]++)
        return fail(l, &at, "the key '%s' stands here a second time", name);
    st = next(l);
    return st ? st : take_value(l, &keys[i]);
}

/* The current event is the start of the mapping; ends at its end. */
static cag_status mapping(struct loader *l, const struct key *keys, int table,
                          cag_status (*special)(struct loader *, const char *,
                                                bool *))
{
    cag_status st;

    if (l->event.type != YAML_MAPPING_START_EVENT)
        return fail(l, &l->event.start_mark,
                    "found %s, expected a mapping "
                    "(key: value)",
                    event_name(l->event.type));
    while (!(st = next(l)) && l->event.type != YAML_MAPPING_END_EVENT)
        if ((st = take_key(l, keys, table, special)) != CAG_OK)
            break;
    return st;
}

/* --------------------------------------------------------------- sources */

/* A filter is a list of words, or one line of words without quotes. */
static cag_status take_filter(struct loader *l, cag_source_spec *s)
{
    const char **argv = arena_array(l->arena, MAX_WORDS + 1, sizeof *argv);
    cag_status st = CAG_OK;
    int n = 0;

    if (!argv)
        return cag_fail_nomem(l->err, "manifest");
    if (l->event.type == YAML_SEQUENCE_START_EVENT) {
        while (!(st = next(l)) && l->event.type != YAML_SEQUENCE_END_EVENT) {
            if (n == MAX_WORDS)
                return fail(l, &l->event.start_mark,
                            "a filter of more than %d words", MAX_WORDS);
            if (!(argv[n++] = scalar(l, "a word of the filter", &st)))
                return st;
        }
    } else {
        yaml_mark_t at = l->event.start_mark;
        const char *line = scalar(l, "filter", &st);
        char *copy = line ? arena_strndup(l->arena, line, strlen(line)) : NULL;
        char *save, *w;

        if (line && strpbrk(line, "'\"\\|&;<>$`"))
            return fail(l, &at,
                        "no shell runs a filter; write words with "
                        "quotes or spaces as a list: [cmd, \"arg\"]");
        for (w = copy ? strtok_r(copy, " \t\n", &save) : NULL; w && !st;
             w = strtok_r(NULL, " \t\n", &save)) {
            if (n == MAX_WORDS)
                return fail(l, &at, "a filter of more than %d words",
                            MAX_WORDS);
            argv[n++] = w;
        }
    }
    if (!st && n == 0)
        return fail(l, &l->event.start_mark, "the filter is empty");
    s->filter = argv;
    return st;
}

static cag_status source_member(struct loader *l, cag_source_spec *s,
                                const char *name, const yaml_mark_t *at,
                                unsigned *seen)
{
    static const char *const names[] = { "path", "title", "filter", "timeout",
                                         "max-output" };
    cag_status st;
    const char *v;
    int64_t n;
    int i = 0;

    while (i < 5 && strcmp(names[i], name))
        i++;
    if (i == 5)
        return fail(l, at,
                    "unknown key '%.60s' of a source; known are path, "
                    "title, filter, timeout, max-output",
                    name);
    if (*seen & (1u << i))
        return fail(l, at, "the key '%s' stands here a second time", name);
    *seen |= 1u << i;
    if ((st = next(l)) != CAG_OK)
        return st;
    if (i == 2)
        return take_filter(l, s);
    v = scalar(l, name, &st);
    if (!v)
        return st;
    if (!*v)
        return fail(l, &l->event.start_mark, "%s is empty", name);
    if (i == 0)
        s->path = v;
    else if (i == 1)
        s->title = v;
    else if (!manifest_to_number(v, i == 4, &n) || n < 1 ||
             n > (i == 3 ? 86400 : (int64_t)1 << 30))
        return fail(l, &l->event.start_mark,
                    i == 3 ? "timeout is '%.60s', expected seconds from 1 to "
                             "86400"
                           : "max-output is '%.60s', expected bytes up to 1G",
                    v);
    else if (i == 3)
        s->filter_timeout_s = (double)n;
    else
        s->filter_max_bytes = (uint64_t)n;
    return CAG_OK;
}

/* One item of "sources": a path, or a mapping that has one. */
static cag_status take_source(struct loader *l, cag_source_spec *s)
{
    yaml_mark_t at = l->event.start_mark;
    cag_status st = CAG_OK;
    unsigned seen = 0;

    memset(s, 0, sizeof *s);
    if (l->event.type == YAML_MAPPING_START_EVENT) {
        while (!(st = next(l)) && l->event.type != YAML_MAPPING_END_EVENT) {
            yaml_mark_t key_at = l->event.start_mark;
            const char *name = scalar(l, "a key", &st);

            if (name)
                st = source_member(l, s, name, &key_at, &seen);
            if (st)
                return st;
        }
    } else {
        s->path = scalar(l, "a source", &st);
    }
    if (st)
        return st;
    if (!s->path || !*s->path)
        return fail(l, &at, "a source without a path");
    if (!strcmp(s->path, "-"))
        return fail(l, &at, "standard input cannot be a manifest's source");
    if ((s->filter_timeout_s > 0 || s->filter_max_bytes) && !s->filter)
        return fail(l, &at, "timeout and max-output belong to a filter");
    s->path = in_dir(l, s->path, &st);
    /* a file that is really called a[b].md is a file, not a pattern */
    s->is_glob = !st && strpbrk(s->path, "*?[") && !file_exists(s->path);
    return st;
}

static cag_status take_sources(struct loader *l)
{
    yaml_mark_t at = l->event.start_mark;
    cag_source_spec *list = NULL, one;
    cag_status st = CAG_OK;
    int n = 0, cap = 0;

    if (l->event.type != YAML_SEQUENCE_START_EVENT)
        return fail(l, &at, "sources is %s, expected a list",
                    event_name(l->event.type));
    while (!(st = next(l)) && l->event.type != YAML_SEQUENCE_END_EVENT) {
        if (n == MAX_SOURCES)
            return fail(l, &l->event.start_mark, "more than %d sources",
                        MAX_SOURCES);
        if ((st = take_source(l, &one)) != CAG_OK)
            return st;
        if (n == cap) {
            int more = cap ? 2 * cap : 16;
            cag_source_spec *v = arena_array(l->arena, (size_t)more, sizeof *v);

            if (!v)
                return cag_fail_nomem(l->err, "manifest");
            if (n)
                memcpy(v, list, (size_t)n * sizeof *v);
            list = v;
            cap = more;
        }
        list[n++] = one;
    }
    if (!st && !n)
        return fail(l, &at, "sources is an empty list");
    l->m->source = list;
    l->m->n_source = n;
    return st;
}

static cag_status top_special(struct loader *l, const char *name, bool *done)
{
    yaml_mark_t at = l->event.start_mark;
    cag_status st;

    *done = !strcmp(name, "sources") || !strcmp(name, "prompt");
    if (!*done)
        return CAG_OK;
    if (l->seen[0][name[0] == 's' ? 30 : 31]++)
        return fail(l, &at, "the key '%s' stands here a second time", name);
    if ((st = next(l)) != CAG_OK)
        return st;
    if (name[0] == 's')
        return take_sources(l);
    return mapping(l, prompt_keys, 1, NULL);
}

/* -------------------------------------------------------------- document */

static cag_status document(struct loader *l)
{
    cag_manifest *m = l->m;
    yaml_mark_t at;
    cag_status st;

    do
        st = next(l);
    while (!st && (l->event.type == YAML_STREAM_START_EVENT ||
                   l->event.type == YAML_DOCUMENT_START_EVENT));
    if (st)
        return st;
    at = l->event.start_mark;
    if (l->event.type == YAML_STREAM_END_EVENT)
        return fail(l, &at, "the manifest is empty");
    st = mapping(l, top_keys, 0, top_special);
    if (!st)
        st = next(l); /* end of the document */
    if (!st)
        st = next(l);
    if (!st && l->event.type != YAML_STREAM_END_EVENT)
        return fail(l, &l->event.start_mark, "a second document");
    if (!st && !m->source)
        return fail(l, &at, "the manifest has no 'sources'");
    if (!st && m->system && m->system_file)
        return fail(l, &at, "system and system-file exclude each other");
    if (!st && m->chat_template && m->chat_template_file)
        return fail(l, &at,
                    "chat-template and chat-template-file exclude "
                    "each other");
    return st;
}

static cag_status make(const char *path, cag_manifest **out, cag_error *err)
{
    struct arena *a = mem_zalloc(sizeof *a);
    cag_manifest *m = a ? arena_array(a, 1, sizeof *m) : NULL;

    if (!m || !(m->path = arena_strndup(a, path, strlen(path)))) {
        if (a)
            arena_release(a);
        mem_free(a);
        return cag_fail_nomem(err, "manifest");
    }
    m->arena = a;
    m->ctx_size = m->reserve = m->threads = m->batch_size = -1;
    m->max_memory = -1;
    m->max_loss = -1;
    *out = m;
    return CAG_OK;
}

cag_status manifest_parse(const void *text, size_t size, const char *path,
                          cag_manifest **out, cag_error *err)
{
    struct loader l = { .path = path, .err = err };
    size_t bad;
    cag_status st = make(path, &l.m, err);

    if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) { /* byte order mark */
        text = (const char *)text + 3;
        size -= 3;
    }

    if (st)
        return st;
    l.arena = l.m->arena;
    l.dir = file_dirname(path);
    if (!l.dir) {
        st = cag_fail_nomem(err, "manifest");
    } else if (!utf8_valid(text, size, &bad)) {
        st = cag_fail(err, CAG_E_CONFIG, path, (int64_t)bad, "invalid UTF-8");
    } else if (!yaml_parser_initialize(&l.parser)) {
        st = cag_fail_nomem(err, "manifest");
    } else {
        yaml_parser_set_encoding(&l.parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&l.parser, text, size);
        st = document(&l);
        if (l.has_event)
            yaml_event_delete(&l.event);
        yaml_parser_delete(&l.parser);
    }
    mem_free(l.dir);
    if (st) {
        cag_manifest_free(l.m);
        return st;
    }
    *out = l.m;
    return CAG_OK;
}

cag_status cag_manifest_load(const char *path, cag_manifest **out,
                             cag_error *err)
{
    struct buf b = BUF_INIT;
    cag_status st = file_read(path, MAX_BYTES, &b, err);

    if (!st)
        st = manifest_parse(b.data ? b.data : "", b.size, path, out, err);
    buf_free(&b);
    return st;
}

void cag_manifest_free(cag_manifest *m)
{
    struct arena *a = m ? m->arena : NULL;

    if (!a)
        return;
    arena_release(a);
    mem_free(a);
}
