/*
 * model/model.h - what a cag_model is made of; internal.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <cag/model.h>

#include "model/config.h"
#include "model/fingerprint.h"
#include "model/weights.h"

struct cag_model {
    cag_model_info info;
    struct model_config config;
    struct model_weights weights; /* zeroed with CAG_MODEL_NO_WEIGHTS */
    cag_tokenizer *tokenizer;
    char *template_text;
    struct gguf *gguf; /* one of these two */
    struct st *st;
    struct arena arena;
    char **file; /* [n_file] files that are hashed,    */
    int n_file;  /* C order: weights, config.json      */
};

#endif
