/*
 * source_kept.c - the text of a filtered source, out of the cache that is
 * rebuilt.
 *
 * A recorded filter is never run.  While the file is what it was, its text is
 * in the cache: the range of TEXT that SRCS gives.  Trailing white space is
 * not part of that (a newline between two sources is one newline, and the
 * template may strip the end of the last), so the usual ends are tried; the
 * recorded SHA-256 says which was there.  Nothing is believed without it.
 */
#include <stdio.h>
#include <string.h>

#include "kvc/kvc_read.h"
#include "source/source_path.h"
#include "source/sources.h"
#include "util/error.h"
#include "util/mem.h"

#define MAX_NEWLINES 16

static cag_status refuse(const struct source *v, const cag_kvc *k,
                         const char *what, cag_error *err)
{
    const char *const *filter = source_filter_of(v->spec);

    return cag_fail(err, CAG_E_UNSUPPORTED, cag_kvc_get_info(k)->path, -1,
                    "cannot be refreshed: %s %s and goes through the filter "
                    "%s, and nothing recorded in a cache is executed; run "
                    "cag-build --manifest",
                    v->path, what, filter && filter[0] ? filter[0] : "");
}

/* The entry of the same file; NULL where there was none. */
static const cag_kvc_source *find(const cag_kvc *k, const char *rel)
{
    int n = cag_kvc_get_info(k)->n_source;

    for (int i = 0; i < n; i++) {
        const cag_kvc_source *s = cag_kvc_get_source(k, i);

        if (s->filter && s->path && !strcmp(s->path, rel))
            return s;
    }
    return NULL;
}

/* text has the range's bytes and room for an end; true: it is the one. */
static cag_status try_ends(char *text, size_t n, const char *want, size_t *size,
                           bool *found, cag_error *err)
{
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];
    cag_status st = CAG_OK;

    /* newlines, and a form feed as pdftotext ends each page */
    *found = false;
    for (int i = 0; i <= MAX_NEWLINES && !*found && !st; i++) {
        for (int feed = 0; feed < 2 && !*found && !st; feed++) {
            *size = n + (size_t)feed;
            text[n] = '\f';
            st = sha256_buf(text, *size, digest, err);
            if (st)
                break;
            hash_hex(digest, sizeof digest, hex);
            *found = !strcmp(hex, want);
        }
        text[n++] = '\n';
    }
    return st;
}

cag_status source_take_kept(struct source *v, const cag_kvc *k, cag_error *err)
{
    char *dir = source_dir_of(cag_kvc_get_info(k)->path);
    char *rel = dir && v->path ? source_path(v->path, dir) : NULL;
    const cag_kvc_source *s = rel ? find(k, rel) : NULL;
    char hex[2 * SHA256_SIZE + 1];
    const char *all = cag_kvc_text(k, NULL);
    cag_status st = CAG_OK;
    bool found = false;
    size_t size = 0;

    hash_hex(v->sha_raw, SHA256_SIZE, hex);
    if (!rel)
        st = cag_fail_nomem(err, "source path");
    else if (!s)
        st = refuse(v, k, "is new", err);
    else if (strcmp(hex, s->sha256_raw))
        st = refuse(v, k, "changed", err);
    if (!st) {
        v->text = mem_alloc((size_t)s->text_bytes + MAX_NEWLINES + 2);
        if (!v->text)
            st = cag_fail_nomem(err, "source text");
    }
    if (!st) {
        memcpy(v->text, all + s->text_off, (size_t)s->text_bytes);
        st = try_ends(v->text, (size_t)s->text_bytes, s->sha256_text, &size,
                      &found, err);
    }
    if (!st && !found)
        st = refuse(v, k, "has more to it than the cache kept", err);
    if (!st) {
        v->text[size] = 0;
        v->size = size;
        hash_unhex(s->sha256_text, v->sha_text, SHA256_SIZE);
    }
    mem_free(rel);
    mem_free(dir);
    return st;
}
