/*
 * show.h - look at what a model reads, and at how two caches differ.
 */
#ifndef CAG_SHOW_H
#define CAG_SHOW_H

#include <cag/ask.h>
#include <cag/base.h>
#include <cag/kvc.h>
#include <cag/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A prompt as a model would read it, without any cache: the messages (JSON
 * text, [{"role", "content"}, ...]) or, when NULL, the knowledge-base prompt
 * with "..." in the places of knowledge and question.  One of model (path or
 * hub id) and template_text may be NULL.  cached_bytes is where a cache would
 * end (0 without a model, whose tokenizer knows the control tokens).
 */
CAG_API cag_status cag_render_prompt(const char *model,
                                     const char *template_text,
                                     const char *messages, size_t n_messages,
                                     bool think, int64_t date_s,
                                     const cag_places *places,
                                     cag_prompt_view *out, cag_error *err);

/* A model for its tokenizer and template only (path or hub id). */
CAG_API cag_status cag_open_tokenizer(const char *model,
                                      const cag_places *places, cag_model **out,
                                      cag_error *err);

/* How two caches differ: one line each, heap strings. */
typedef struct cag_diff {
    char **line;
    int n_line;
    int64_t first_tok;  /* first differing token, -1 if the ids are equal */
    int64_t n_tok_kept; /* tokens a rebuild of B over A would keep        */
} cag_diff;
CAG_API cag_status cag_kvc_diff(const cag_kvc *a, const cag_kvc *b,
                                cag_diff *out, cag_error *err);
CAG_API void cag_diff_release(cag_diff *d);

#ifdef __cplusplus
}
#endif
#endif
