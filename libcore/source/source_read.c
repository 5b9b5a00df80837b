/*
 * source_read.c - read sources, check that they are text, hash them.
 *
 * A byte order mark is stripped, line ends are kept, front matter is dropped
 * only when asked.  Nothing else is changed: what the model reads is what
 * the file holds.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/sniff.h"
#include "source/source_filter.h"
#include "source/source_path.h"
#include "util/note.h"
#include "source/sources.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/shell.h"
#include "util/text.h"

#define MAX_BAD_NAMED 20

static bool same_stat(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_ino == b->st_ino &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Of a link that leads nowhere the message says so. */
static cag_status fail_open(const char *path, const char *shown, int sys,
                            cag_error *err)
{
    char to[PATH_MAX];
    ssize_t n = readlink(path, to, sizeof to);

    if (n > 0)
        return cag_fail_sys(err, CAG_E_MISSING, sys, shown,
                            "cannot read source (a link to %.*s)", (int)n, to);
    return cag_fail_sys(err, CAG_E_MISSING, sys, shown, "cannot read source");
}

/* Whatever the names said: does the open file lie below that directory? */
static cag_status check_below(const char *below, int fd,
                              const cag_source_spec *spec, const char *shown,
                              cag_error *err)
{
    char link[64], real[PATH_MAX];
    ssize_t n;

    if (!below)
        return CAG_OK;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, real, sizeof real - 1);
    if (n < 0)
        return cag_fail_sys(err, CAG_E_IO, errno, shown,
                            "cannot tell where it lies");
    real[n] = 0;
    return source_check_below(below, real, spec, shown, err);
}

/* The raw bytes of one source; a regular file must not change meanwhile. */
static cag_status read_raw(const struct source *v, const char *shown,
                           const char *below, struct buf *raw, cag_error *err)
{
    const char *path = v->path ? v->path : v->spec->path;
    struct stat before, after;
    cag_status st;
    int fd;

    if (!v->path && !strcmp(path, "-"))
        return file_read_fd(0, "standard input", SOURCE_MAX_BYTES, raw, err);
    /* what was a file must not block if it is a pipe by now */
    fd = open(path, O_RDONLY | O_CLOEXEC | (v->path ? O_NONBLOCK : 0));
    if (fd < 0)
        return fail_open(path, shown, errno, err);
    if (fstat(fd, &before) != 0) {
        st = cag_fail_sys(err, CAG_E_IO, errno, shown, "cannot read source");
        goto out;
    }
    if (v->path && !S_ISREG(before.st_mode))
        st = cag_fail(err, CAG_E_MISSING, shown, -1, "is no regular file");
    else
        st = check_below(below, fd, v->spec, shown, err);
    if (st)
        goto out;
    st = file_read_fd(fd, shown, SOURCE_MAX_BYTES, raw, err);
    if (st)
        goto out;
    if (S_ISREG(before.st_mode) &&
        (fstat(fd, &after) != 0 || !same_stat(&before, &after) ||
         (uint64_t)after.st_size != raw->size))
        st = cag_fail(err, CAG_E_CHANGED, shown, -1,
                      "the source changed while it was read; run again");
out:
    close(fd);
    return st;
}

/* The encoding of UTF-16 text, or NULL: half of its bytes are NUL. */
static const char *utf16_name(const char *text, size_t n)
{
    size_t even = 0, odd = 0, i;

    if (n >= 2 &&
        (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2)))
        return "UTF-16";
    if (n > 256)
        n = 256;
    for (i = 0; i < n; i++)
        *(i & 1 ? &odd : &even) += text[i] == 0;
    if (n >= 2 && n / 2 - odd <= n / 16 && even == 0)
        return "UTF-16LE";
    if (n >= 2 && n / 2 - even <= n / 16 && odd == 0)
        return "UTF-16BE";
    return NULL;
}

/* A command that would help, for a name a shell reads as it stands. */
static cag_status fail_encoding(const char *shown, size_t off, const char *what,
                                const char *encoding, cag_error *err)
{
    const char *name = shell_is_plain(shown) ? shown : "FILE";

    return cag_fail(err, CAG_E_FORMAT, shown, (int64_t)off,
                    "%s convert it: iconv -f %s -t UTF-8 %s > %s.utf8", what,
                    encoding, name, name);
}

/*
 * What people take for text, and what to do about it.  A PDF and a Git-LFS
 * pointer can be valid UTF-8; the others are looked for only in what is not,
 * since a text may well begin with the letters GGUF.
 */
static const char *foreign(const char *text, size_t n, bool is_text)
{
    const uint8_t *p = (const uint8_t *)text;

    if (n > 5 && !memcmp(text, "%PDF-", 5))
        return "a PDF; give it a filter in a manifest, such as pdftotext: "
               "cag-manifest(5)";
    if (n && sniff_is_lfs(p, n))
        return cag_file_kind(p, n);
    if (is_text)
        return NULL;
    if (n > 4 && !memcmp(text, "PK\x03\x04", 4))
        return "a zip archive (.docx, .odt and .epub are such); give it a "
               "filter in a manifest, such as pandoc: cag-manifest(5)";
    if (n > 8 && !memcmp(text, "\x89KVC\r\n\x1a\n", 8))
        return "a .kvc cache; caches cannot be joined, name the sources";
    return cag_file_kind(p, n < SNIFF_BYTES ? n : SNIFF_BYTES);
}

/* Does UTF-8 end inside its last character, at bad?  One lead byte alone may
 * as well be Latin-1, unless other characters were UTF-8. */
static bool is_cut(const char *text, size_t n, size_t bad)
{
    size_t ascii = 0;

    while (ascii < bad && (unsigned char)text[ascii] < 128)
        ascii++;
    return utf8_complete(text, n) == bad && (ascii < bad || n - bad > 1);
}

cag_status source_check_text(const char *text, size_t n, const char *shown,
                             cag_error *err)
{
    const char *nul = n ? memchr(text, 0, n) : NULL;
    bool valid = !nul && utf8_valid(text, n, NULL);
    const char *kind = foreign(text, n, valid);
    const char *utf16 = kind ? NULL : utf16_name(text, n);
    char what[80];
    size_t bad;

    if (kind)
        return cag_fail(err, CAG_E_FORMAT, shown, -1, "this is %s", kind);
    if (utf16)
        return fail_encoding(shown, 0, "this is UTF-16, expected UTF-8;", utf16,
                             err);
    if (nul)
        return cag_fail(err, CAG_E_FORMAT, shown, nul - text,
                        "a NUL byte: this is a binary file, expected UTF-8 "
                        "text");
    if (valid)
        return CAG_OK;
    utf8_valid(text, n, &bad);
    if (is_cut(text, n, bad))
        return cag_fail(err, CAG_E_FORMAT, shown, (int64_t)bad,
                        "invalid UTF-8 (byte 0x%02x): the text ends inside a "
                        "character, so it was cut; get it again",
                        (unsigned char)text[bad]);
    snprintf(what, sizeof what,
             "invalid UTF-8 (byte 0x%02x); if it is Latin-1,",
             (unsigned char)text[bad]);
    return fail_encoding(shown, bad, what, "ISO-8859-1", err);
}

/* How messages name a source: as the user did, where he did. */
static const char *shown_name(const struct source *v)
{
    if (!strcmp(v->spec->path, "-"))
        return "standard input";
    return v->given ? v->given : v->spec->path;
}

/* Bytes of a leading YAML front matter block, 0 if there is none. */
static size_t front_matter(const char *text, size_t n)
{
    const char *p, *end = text + n;

    if (n < 4 || memcmp(text, "---", 3) || (text[3] != '\n' && text[3] != '\r'))
        return 0;
    p = memchr(text, '\n', n);
    while (p && ++p < end) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        size_t len = (size_t)((eol ? eol : end) - p);

        if (len && p[len - 1] == '\r')
            len--;
        if (len == 3 && (!memcmp(p, "---", 3) || !memcmp(p, "...", 3)))
            return (size_t)((eol ? eol + 1 : end) - text);
        p = eol;
    }
    return 0;
}

/* Raw bytes to the text the model reads. */
static cag_status take_text(struct source *v, const char *shown,
                            const struct buf *raw, bool drop_front_matter,
                            const cag_hooks *hooks, cag_error *err)
{
    const char *p = raw->data;
    size_t n = raw->size;
    cag_status st;

    if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) {
        p += 3;
        n -= 3;
    }
    st = source_check_text(p, n, shown, err);
    if (st)
        return st;
    if (drop_front_matter) {
        size_t cut = front_matter(p, n);

        for (size_t i = 0; i < cut; i++)
            v->first_line += p[i] == '\n';
        p += cut;
        n -= cut;
    }
    if (n == 0)
        note(hooks, CAG_NOTE_WARN, "%s: empty source", shown);
    v->text = mem_strndup(n ? p : "", n);
    v->size = n;
    if (!v->text)
        return cag_fail_nomem(err, "source text");
    return sha256_buf(v->text, n, v->sha_text, err);
}

static cag_status read_one(struct source *v, const struct source_opts *o,
                           cag_error *err)
{
    bool drop = o && o->drop_front_matter;
    const cag_hooks *hooks = o ? o->hooks : NULL;
    const cag_kvc *texts = o ? o->texts : NULL;
    const char *shown = shown_name(v);
    struct buf raw = BUF_INIT, text = BUF_INIT;
    cag_status st = read_raw(v, shown, o ? o->below : NULL, &raw, err);

    if (!st)
        st = sha256_buf(raw.data, raw.size, v->sha_raw, err);
    if (st)
        goto out;
    v->raw_bytes = raw.size;
    if (v->spec->filter) {
        st =
            filter_run(v->spec, v->path, raw.data, raw.size, &text, hooks, err);
        if (!st)
            st = take_text(v, shown, &text, drop, hooks, err);
    } else if (v->spec->filter_was && texts) {
        st = source_take_kept(v, texts, err);
    } else if (v->spec->filter_was) {
        st = cag_fail(err, CAG_E_USAGE, shown, -1,
                      "a filter that is only recorded, and no cache with "
                      "its text");
    } else {
        st = take_text(v, shown, &raw, drop, hooks, err);
    }
out:
    buf_free(&raw);
    buf_free(&text);
    return st;
}

/* A source that cannot be used: what is wrong with it is its own, so that the
 * others are looked at, too. */
static bool is_its_own(cag_status st)
{
    return st == CAG_E_FORMAT || st == CAG_E_MISSING || st == CAG_E_CHANGED ||
           st == CAG_E_UNSUPPORTED;
}

static cag_status read_all(struct source_set *s, const struct source_opts *o,
                           cag_error *err)
{
    size_t most = o && o->max_total ? o->max_total : SOURCE_MAX_TOTAL;
    cag_error first = CAG_ERROR_INIT;
    size_t total = 0;
    int n_bad = 0;

    for (int i = 0; i < s->n; i++) {
        cag_error why = CAG_ERROR_INIT;
        cag_status st = read_one(&s->v[i], o, &why);

        if (st && !is_its_own(st))
            return cag_error_copy(err, &why);
        if (!st && s->v[i].size > most - total)
            return cag_fail(err, CAG_E_LIMIT, shown_name(&s->v[i]), -1,
                            "with it the sources are more than %zu bytes of "
                            "text, which no model reads; leave something out",
                            most);
        total += s->v[i].size;
        if (st && n_bad++ == 0)
            first = why;
        else if (st && n_bad <= MAX_BAD_NAMED)
            note(o ? o->hooks : NULL, CAG_NOTE_WARN, "%s: %s", why.file,
                 why.msg);
    }
    if (n_bad > 1) {
        size_t n = strlen(first.msg);

        snprintf(first.msg + n, sizeof first.msg - n,
                 "; %d more cannot be used", n_bad - 1);
    }
    return n_bad ? cag_error_copy(err, &first) : CAG_OK;
}

cag_status source_read(const cag_source_spec *spec, int n_spec,
                       const struct source_opts *o, struct source_set *out,
                       cag_error *err)
{
    struct source_set s = { .v = NULL };
    size_t total = 0;
    cag_status st = source_expand(spec, n_spec, o, &s, err);

    if (!st)
        st = read_all(&s, o, err);
    for (int i = 0; i < s.n && !st; i++)
        total += s.v[i].size;
    if (!st && total == 0)
        st = cag_fail(err, CAG_E_FORMAT, s.n == 1 ? shown_name(&s.v[0]) : NULL,
                      -1, "nothing to read: %s",
                      s.n == 1 ? "the source is empty"
                               : "all sources are empty");
    if (st) {
        source_release(&s);
        return st;
    }
    *out = s;
    return CAG_OK;
}
