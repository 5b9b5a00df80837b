/*
 * model.h - a model: weights, tokenizer and template, opened and checked.
 *
 * A model is immutable and may be shared by any number of threads and
 * sessions.  Weights are mapped from the file they came in.
 */
#ifndef CAG_MODEL_H
#define CAG_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <cag/base.h>
#include <cag/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cag_model cag_model;

typedef struct cag_model_info {
    const char *name;        /* general.name, or the directory's name     */
    const char *arch;        /* "llama", "qwen2", "qwen3"                 */
    const char *path;        /* as opened                                 */
    const char *container;   /* "gguf" or "safetensors"                   */
    const char *weight_type; /* the type holding most bytes, e.g. "Q4_1"  */
    int n_layer, n_head, n_kv_head, d_head, d_model, d_ff, n_vocab;
    int n_ctx; /* positions it was trained for              */
    uint64_t n_param;
    uint64_t size_bytes; /* of all weight files                       */
    /* bytes of K and V of one token, all layers, at f16 */
    uint64_t kv_bytes_per_tok;
} cag_model_info;

/* Where to look for a model that is not an existing path.  All borrowed. */
typedef struct cag_model_search {
    const char *hf_hub; /* .../hub with models--ORG--NAME/..., or NULL   */
    const char *dirs;   /* colon-separated (CAG_MODELS), or NULL         */
} cag_model_search;

/*
 * Find a model: spec is an existing path (GGUF file, or directory with
 * config.json), or a hub id ORG/NAME[@REVISION] looked up in the Hugging
 * Face cache layout, or a file or directory name below search->dirs.
 * *path is a heap string (cag_free).  CAG_E_MISSING lists every place tried
 * and what to do.
 */
CAG_API cag_status cag_model_find(const char *spec,
                                  const cag_model_search *search, char **path,
                                  cag_error *err);

#define CAG_MODEL_NO_WEIGHTS   1u /* tokenizer, template and config only     */
#define CAG_MODEL_NO_TOKENIZER 2u /* the cache carries a compiled one */

/* Map and check a model.  Errors: MISSING, FORMAT, UNSUPPORTED, NOMEM. */
CAG_API cag_status cag_model_open(const char *path, unsigned flags,
                                  cag_model **out, cag_error *err);
CAG_API void cag_model_close(cag_model *m);
CAG_API const cag_model_info *cag_model_get_info(const cag_model *m);
/* NULL when opened with CAG_MODEL_NO_TOKENIZER.  Valid until close. */
CAG_API const cag_tokenizer *cag_model_get_tokenizer(const cag_model *m);
/* The chat template's text, or NULL if the model carries none. */
CAG_API const char *cag_model_get_template(const cag_model *m);

#ifdef __cplusplus
}
#endif
#endif
