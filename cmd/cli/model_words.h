/*
 * model_words.h - how a cache's model is called.
 */
#ifndef CMD_CLI_MODEL_WORDS_H
#define CMD_CLI_MODEL_WORDS_H

#include <cag/kvc.h>

/* What its user called it: the hub id, or the name of its file or directory;
 * the name in the model's metadata where neither is recorded.  Not cleaned. */
const char *model_words(const cag_kvc_info *i);

#endif
