/*
 * check_model.h - what check_cuda measures with: a random model, a cache.
 */
#ifndef CHECK_MODEL_H
#define CHECK_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <cag/session.h>

#define CHECK_MAX_LAYER 64

struct check_shape {
    const char *name;
    int d_model, d_ff, n_layer, n_head, n_kv_head, d_head, n_vocab;
};

uint64_t check_random(void);
/* A model directory in dir; false with a message. */
bool check_model_make(const struct check_shape *s, const char *dir);
void check_model_remove(const char *dir);
/* The first n tokens' K and V of s as a cache of codec f16. */
cag_status check_cache_write(const cag_session *s, const cag_model *m, int n,
                             const char *path, cag_error *err);
/* A cache of codec q8h that nobody computed: any codes, in a range that keys
 * and values have. */
cag_status check_cache_codes(const cag_model *m, int n, const char *path,
                             cag_error *err);

#endif
