/*
 * config_check.h - shared by config_gguf.c and config_json.c.
 */
#ifndef MODEL_CONFIG_CHECK_H
#define MODEL_CONFIG_CHECK_H

#include "model/config.h"

/* Ranges: generous for real models, small enough that products of two stay
 * far from 2^63. */
#define CONFIG_MAX_DIM   (1 << 20)
#define CONFIG_MAX_HEAD  4096
#define CONFIG_MAX_VOCAB (1 << 24)
#define CONFIG_MAX_CTX   (1 << 30)

cag_status config_check(const struct model_config *c, const char *file,
                        cag_error *err);
/* Add an id to c->eos unless it is there; false when it is no id of the
 * vocabulary or there are too many. */
bool config_add_eos(struct model_config *c, int64_t id);

#endif
