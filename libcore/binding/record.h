/*
 * record.h - what a cache remembers of the build that made it: META.build.
 *
 *   sources   the operands as given: [{kind, path, title, filter}], kind is
 *             "file", "directory", "glob" or "stream"; path is relative to
 *             the .kvc's directory, null for a stream
 *   template  {"kind": "model"|"builtin"|"text", "name": string|null}
 *   default   the prompt parts that were the default text then
 *   drop_front_matter, n_ctx, reserve
 *   max_loss  of a lossy codec only: f32 as hex digits, its limit
 *   include, exclude  only where given: [pattern] for directories
 *
 * Nothing in it is ever executed: a filter is recorded to be shown.
 */
#ifndef BINDING_RECORD_H
#define BINDING_RECORD_H

#include <cag/build.h>

#include "source/sources.h"
#include "util/arena.h"
#include "util/json.h"

/* Set a string member, null where there is none. */
bool record_set_str(jv *o, const char *key, const char *s);
/* Was part ("system", "label", "refusal", "acknowledgement") the default text
 * in that build? */
bool record_was_default(const jv *build, const char *part);

/* New META.build object, NULL when out of memory. */
jv *record_build(const cag_build_opts *o, int64_t n_ctx, int64_t reserve,
                 const char *dir);
/* New SRCS array; ranges are text_off/text_bytes/tok_begin/tok_end [n]. */
struct record_range {
    uint64_t text_off, text_bytes;
    int64_t tok_begin, tok_end;
};
jv *record_sources(const struct source_set *s, const struct record_range *r,
                   const char *dir);

/*
 * The operands of the build that made k, paths absolute; streams are left
 * out and counted in *n_stream.  Filters are in filter_was: nothing recorded
 * is executed.  Strings live in a.  CAG_E_FORMAT: a filter is no list of
 * texts.
 */
cag_status record_specs(const cag_kvc *k, struct arena *a,
                        cag_source_spec **spec, int *n_spec, int *n_stream,
                        cag_error *err);
/* The patterns of "include" or "exclude"; *list is NULL where there are none.
 * CAG_E_FORMAT as above. */
cag_status record_patterns(const cag_kvc *k, const char *which, struct arena *a,
                           const char *const **list, cag_error *err);

#endif
