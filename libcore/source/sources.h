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

#include "util/hash.h"

#define SOURCE_MAX_BYTES ((size_t)256 << 20)

struct source {
    char *name;  /* shown to the model                             */
    char *path;  /* absolute, or NULL: cannot be checked later     */
    char *group; /* absolute directory or glob, or NULL            */
    const cag_source_spec *spec; /* borrowed                       */
    char *text; /* extracted text, valid UTF-8                    */
    size_t size;
    int64_t first_line; /* lines dropped before the text (front matter)   */
    uint64_t raw_bytes;
    uint8_t sha_raw[SHA256_SIZE], sha_text[SHA256_SIZE];
};

struct source_set {
    struct source *v; /* [n] */
    int n, cap;
};

/*
 * Paths only, nothing read: fills v[].path, group, spec and name.
 * Errors: CAG_E_MISSING (no such file, nothing below a directory or glob).
 */
cag_status source_expand(const cag_source_spec *spec, int n_spec,
                         const cag_hooks *hooks, struct source_set *out,
                         cag_error *err);
/*
 * Expand and read everything.  texts (or NULL) has the texts of sources whose
 * filter is only recorded.  CAG_E_FORMAT (not UTF-8, all empty),
 * CAG_E_CHANGED (changed while it was read), CAG_E_MISSING, CAG_E_LIMIT,
 * CAG_E_UNSUPPORTED (its recorded filter would have to be run).
 */
cag_status source_read(const cag_source_spec *spec, int n_spec,
                       bool drop_front_matter, const cag_kvc *texts,
                       const cag_hooks *hooks, struct source_set *out,
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
