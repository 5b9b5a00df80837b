/*
 * model_words.c - see model_words.h.
 *
 * The name in a model's metadata is its maker's, often of the training run; a
 * user knows the file.
 */
#include "cmd/cli/model_words.h"

#include <string.h>

const char *model_words(const cag_kvc_info *i)
{
    const char *slash = i->model_path ? strrchr(i->model_path, '/') : NULL;

    if (i->model_hub)
        return i->model_hub;
    if (!i->model_path || (slash && !slash[1]))
        return i->model_name;
    return slash ? slash + 1 : i->model_path;
}
