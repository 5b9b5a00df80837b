/*
 * model_open.h - shared by model.c (GGUF) and model_dir.c (directories).
 */
#ifndef MODEL_MODEL_OPEN_H
#define MODEL_MODEL_OPEN_H

#include "model/model.h"

/* Fill an empty model from a directory; on failure the caller closes it. */
cag_status model_open_dir(struct cag_model *m, const char *path, unsigned flags,
                          cag_error *err);
/* Append to m->file. */
cag_status model_add_file(struct cag_model *m, const char *path,
                          cag_error *err);
/* Check (UTF-8, no NUL) and copy the chat template; file is for messages. */
cag_status model_set_template(struct cag_model *m, const char *text, size_t n,
                              const char *file, cag_error *err);

#endif
