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
 * A prompt as a model would read it, without any cache.
 *
 *   model          path or hub id; NULL: places->model, or none if
 *                  template_text and messages are given
 *   template_text  in place of the model's template, or NULL
 *   messages       [n_messages] bytes of JSON, [{"role", "content"}, ...]; or
 *                  NULL: the knowledge-base prompt with "..." in the places of
 *                  knowledge and question
 *   date_s         what the template is told is now, seconds since 1970
 *   places         not NULL
 *   out            zeroed first; text is heap, the caller's to give to
 *                  cag_free; cached_bytes is where a cache would end (0
 *                  without a model, whose tokenizer knows the control tokens);
 *                  tokens and room are not counted
 *
 * Errors: CAG_E_MISSING (model), CAG_E_USAGE (no model named),
 * CAG_E_UNSUPPORTED (no template, or what it uses), CAG_E_FORMAT (template,
 * messages, model), CAG_E_NOMEM.
 */
CAG_API cag_status cag_render_prompt(const char *model,
                                     const char *template_text,
                                     const char *messages, size_t n_messages,
                                     bool think, int64_t date_s,
                                     const cag_places *places,
                                     cag_prompt_view *out, cag_error *err);

/* A model for its tokenizer and template only: path or hub id, NULL for
 * places->model.  *out is the caller's to close.  Errors: CAG_E_USAGE (no
 * model named), those of cag_model_find and cag_model_open. */
CAG_API cag_status cag_open_tokenizer(const char *model,
                                      const cag_places *places, cag_model **out,
                                      cag_error *err);

/* How two caches differ. */
typedef struct cag_diff {
    char **line; /* [n_line] heap, each too: a difference each             */
    int n_line;
    int64_t first_tok;  /* first differing token, -1 if the ids are equal  */
    int64_t n_tok_kept; /* tokens a rebuild of B over A would keep         */
    uint64_t reserved[2];
} cag_diff;
/* out is the caller's to release, on CAG_OK alone.  CAG_E_NOMEM. */
CAG_API cag_status cag_kvc_diff(const cag_kvc *a, const cag_kvc *b,
                                cag_diff *out, cag_error *err);
CAG_API void cag_diff_release(cag_diff *d);

#ifdef __cplusplus
}
#endif
#endif
