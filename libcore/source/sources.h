/*
 * sources.h - from operands to texts: files, directories, globs, pipes.
 *
 * Order is the order given; directories and globs are sorted bytewise.  The
 * name the model sees is the path below the sources' common directory, so
 * that the current directory and the machine change nothing; in it, control
 * characters become spaces and invalid UTF-8 becomes U+FFFD.
 */
#ifndef SOURCE_SOURCES_H
#define SOURCE_SOURCES_H

#include <cag/build.h>

#include "util/buf.h"
#include "util/hash.h"

#define SOURCE_MAX_BYTES ((size_t)256 << 20)
/* Of all sources together; no text above it is tokenized. */
#define SOURCE_MAX_TOTAL ((size_t)INT32_MAX)

/* How sources are looked for and read; all zero is the default. */
struct source_opts {
    bool drop_front_matter;
    /* Patterns (source_select.h), NULL-terminated, or NULL: what a directory
     * takes instead of text files; what directories and patterns leave out. */
    const char *const *include, *const *exclude;
    const cag_kvc *texts; /* of sources whose filter is only recorded */
    int64_t max_entries;  /* names looked at; 0 = no bound            */
    size_t max_total;     /* bytes of text; 0 = SOURCE_MAX_TOTAL      */
    const char *below;    /* a real directory: CAG_E_USAGE for what lies
                             elsewhere, links followed; or NULL       */
    const cag_hooks *hooks;
};

struct source {
    char *name;  /* shown to the model                             */
    char *given; /* as the user named it, or the place it was in   */
    char *path;  /* absolute, or NULL: cannot be checked later     */
    char *group; /* absolute directory or glob, or NULL            */
    const cag_source_spec *spec; /* borrowed                       */
    char *text; /* extracted text, valid UTF-8                    */
    size_t size;
    int64_t first_line; /* lines dropped before the text (front matter)   */
    uint64_t raw_bytes;
    uint8_t sha_raw[SHA256_SIZE], sha_text[SHA256_SIZE];
};

/* Why a file was passed over. */
enum source_skip {
    SKIP_NAME,    /* its name is not that of a text */
    SKIP_EXCLUDE, /* the user said so               */
    SKIP_LINK,    /* a link to a directory          */
    SKIP_KIND,    /* a pipe, a device               */
    SOURCE_N_SKIP
};

struct source_set {
    struct source *v; /* [n] */
    int n, cap;
    int64_t n_entry; /* names looked at */
    int64_t n_skip[SOURCE_N_SKIP];
    struct buf skipped; /* some names of SKIP_NAME, comma between */
    bool included;      /* SKIP_NAME: by include                  */
};

/*
 * Paths only, nothing read: fills v[].given, path, group, spec and name, and
 * counts what is passed over.  A file that cannot be seen (a link to nothing,
 * no permission) is in the list: reading it is the error that names it.
 * Errors: CAG_E_MISSING (no such file, nothing below a directory or pattern),
 * CAG_E_LIMIT (max_entries).
 */
cag_status source_expand(const cag_source_spec *spec, int n_spec,
                         const struct source_opts *o, struct source_set *out,
                         cag_error *err);
/*
 * Expand and read everything.  CAG_E_FORMAT (not UTF-8, all empty),
 * CAG_E_CHANGED (changed while it was read), CAG_E_MISSING, CAG_E_LIMIT,
 * CAG_E_UNSUPPORTED (its recorded filter would have to be run).  Of several
 * sources that cannot be used the first is the error, the others are notes.
 */
cag_status source_read(const cag_source_spec *spec, int n_spec,
                       const struct source_opts *o, struct source_set *out,
                       cag_error *err);
/* What was passed over, as one line: "6 files skipped: not .md, ... (a.pdf,
 * README, ...)"; NULL for nothing.  Heap; *err for memory that is short. */
cag_status source_skipped(const struct source_set *s, char **line,
                          cag_error *err);
/*
 * What the filter of v made of the same bytes when k was built: fills v->text
 * and what belongs to it.  CAG_E_UNSUPPORTED when k does not have it.
 */
cag_status source_take_kept(struct source *v, const cag_kvc *k, cag_error *err);
/* UTF-8 without NUL bytes, or CAG_E_FORMAT that names what it seems to be and
 * the command that converts it. */
cag_status source_check_text(const char *text, size_t n, const char *shown,
                             cag_error *err);
void source_release(struct source_set *s);

#endif
