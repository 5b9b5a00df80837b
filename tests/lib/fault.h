/*
 * fault.h - a directory with two texts, and caches made from them with a tiny
 * model: what the tests of broken things share.  Include after unit.h.
 */
#ifndef TESTS_FAULT_H
#define TESTS_FAULT_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cag/ask.h>
#include <cag/build.h>

#include "util/buf.h"
#include "util/file.h"
#include "util/hash.h"

#define FAULT_MODEL "tests/golden/models/qwen3"

static char fault_dir[] = "/tmp/cag-fault-XXXXXX";
static char fault_docs[64];
static cag_source_spec fault_source;

static inline const char *in_dir(char *path, const char *name)
{
    snprintf(path, 64, "%s/%s", fault_dir, name);
    return path;
}

static inline void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* Texts of the second file; the first is the same in both. */
#define FAULT_TEXT_A "Dana knows the parking.\n"
#define FAULT_TEXT_B "Dana knows more.\n"
static inline void set_text(const char *text)
{
    char path[64];

    write_text(in_dir(path, "docs/b.md"), text);
}

static inline int fault_set_up(void)
{
    char path[64];

    if (!mkdtemp(fault_dir))
        return -1;
    in_dir(fault_docs, "docs");
    if (mkdir(fault_docs, 0700))
        return -1;
    write_text(in_dir(path, "docs/a.md"),
               "---\ntitle: x\n---\nThe badge office is on floor 3.\n");
    set_text(FAULT_TEXT_A);
    fault_source = (cag_source_spec){ .path = fault_docs };
    return 0;
}

static inline int fault_tear_down(void **state)
{
    char cmd[128];

    (void)state;
    snprintf(cmd, sizeof cmd, "rm -rf %s", fault_dir);
    return system(cmd);
}

static inline void build_opts(cag_build_opts *o, const char *to)
{
    cag_build_opts_init(o);
    o->model = FAULT_MODEL;
    o->output = to;
    o->source = &fault_source;
    o->n_source = 1;
    o->now = 1764000000;
    o->max_loss = 1; /* a model of random weights is no judge */
    o->engine.device = "cpu";
    o->engine.n_thread = 1;
}

static inline void build_ok(const cag_build_opts *o)
{
    cag_build_report r;
    cag_error err = CAG_ERROR_INIT;

    if (cag_build(o, &r, &err))
        fail_msg("%s: %s", err.file, err.msg);
    cag_build_report_release(&r);
}

static inline void sha_of(const char *path, uint8_t d[SHA256_SIZE])
{
    struct buf b = BUF_INIT;

    assert_int_equal(file_read(path, 1 << 28, &b, NULL), CAG_OK);
    assert_int_equal(sha256_buf(b.data, b.size, d, NULL), CAG_OK);
    buf_free(&b);
}

static inline void copy_file(const char *from, const char *to)
{
    struct buf b = BUF_INIT;
    FILE *f;

    assert_int_equal(file_read(from, 1 << 28, &b, NULL), CAG_OK);
    f = fopen(to, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(b.data, 1, b.size, f), b.size);
    assert_int_equal(fclose(f), 0);
    buf_free(&b);
}

/* Temporaries that lie in the directory. */
static inline int n_temporary(void)
{
    DIR *d = opendir(fault_dir);
    struct dirent *e;
    int n = 0;

    assert_non_null(d);
    while ((e = readdir(d)))
        n += strstr(e->d_name, ".tmp") != NULL;
    closedir(d);
    return n;
}

/* fault_set_up, and a cache of its texts; its path goes to kvc. */
static inline int fault_build(char kvc[64])
{
    cag_build_opts o;

    if (fault_set_up())
        return -1;
    build_opts(&o, in_dir(kvc, "kb.kvc"));
    build_ok(&o);
    return 0;
}

#endif
