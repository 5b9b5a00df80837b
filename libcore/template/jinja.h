/*
 * jinja.h - the subset of Jinja that chat templates use.
 *
 * Input is a template and a JSON object of variables; output is text, byte
 * for byte what jinja2 renders with trim_blocks and lstrip_blocks on, as
 * transformers sets them.  An unknown construct is CAG_E_UNSUPPORTED naming
 * it and its line.  raise_exception('...') is CAG_E_MISMATCH with the
 * template's own message.  Time and memory are bounded: templates are
 * outside input (loops, recursion depth, output size are capped; the error
 * is CAG_E_LIMIT).
 */
#ifndef TEMPLATE_JINJA_H
#define TEMPLATE_JINJA_H

#include "util/buf.h"
#include "util/error.h"
#include "util/json.h"

struct jinja;

/* name is used in messages ("chat template"); text is copied. */
cag_status jinja_compile(const char *text, size_t n, const char *name,
                         struct jinja **out, cag_error *err);
/* now_s: seconds since the epoch (UTC) that strftime_now formats */
cag_status jinja_render(const struct jinja *t, const jv *vars, int64_t now_s,
                        struct buf *out, cag_error *err);

/*
 * Where the bytes of a rendered text come from.  Input is every string
 * inside a list or an object of the variables (message contents, tool
 * arguments, names, keys), but the values of "role" keys and the variables
 * that are plain strings (bos_token).  Exact through +, ~,
 * slices, split, strip, replace, join and captured blocks; other functions
 * of mixed text call all of it input.
 */
struct jinja_span {
    size_t end; /* one after the span's last byte */
    bool input;
};
struct jinja_spans {
    struct jinja_span *s; /* [n] heap, ascending, ending at the text's end */
    size_t n;
};
cag_status jinja_render_spans(const struct jinja *t, const jv *vars,
                              int64_t now_s, struct buf *out,
                              struct jinja_spans *spans, cag_error *err);
void jinja_spans_free(struct jinja_spans *s);

/* did any variable of that name appear in the template? (enable_thinking) */
bool jinja_mentions(const struct jinja *t, const char *name);
void jinja_free(struct jinja *t);

#endif
