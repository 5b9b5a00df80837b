/*
 * backend_plugin.h - what libcag-cuda.so exports: one function that gives
 * this table.
 *
 * The plugin is a piece of the library that happens to be loaded late: it
 * shares the structs of model/, kvc/ and engine/ with the program that opens
 * it.  So a plugin serves exactly the version it was built with; abi says so
 * before anything else of the table is believed.
 */
#ifndef ENGINE_BACKEND_PLUGIN_H
#define ENGINE_BACKEND_PLUGIN_H

#include "engine/backend.h"
#include "model/model.h"

#define CUDA_PLUGIN_FILE  "libcag-cuda.so"
#define CUDA_PLUGIN_ENTRY "cag_cuda_plugin"

struct cuda_device {
    char name[256];
    int sm;     /* 89: compute capability 8.9 */
    int sm_min; /* the least the kernels run on */
    uint64_t mem_total;
};

struct cuda_plugin {
    uint64_t abi;        /* cuda_plugin_abi() of its build */
    const char *version; /* of cag */
    /* *n = 0 and an error without a driver or with one that is too old;
     * *driver and *runtime (13000 is 13.0, 0: none) are set either way. */
    cag_status (*count)(int *n, int *driver, int *runtime, cag_error *err);
    cag_status (*describe)(int i, struct cuda_device *out, cag_error *err);
    /* Device i.  CAG_E_NOMEM with both numbers when the model and the scratch
     * do not fit, before anything is allocated; CAG_E_BACKEND when the device
     * cannot be used. */
    cag_status (*open)(int i, const cag_model *m,
                       const struct backend_opts *opts, struct backend **out,
                       cag_error *err);
};

typedef const struct cuda_plugin *cuda_plugin_fn(void);

/* A number that differs when the layout of a shared struct does. */
static inline uint64_t cuda_plugin_abi(void)
{
    const size_t sizes[] = { sizeof(struct cuda_plugin),
                             sizeof(struct cuda_device),
                             sizeof(struct cag_model),
                             sizeof(struct model_layer),
                             sizeof(struct backend),
                             sizeof(struct backend_ops),
                             sizeof(struct backend_opts),
                             sizeof(struct forward_row),
                             sizeof(struct forward_req),
                             sizeof(struct kvc_shape),
                             sizeof(cag_error) };
    uint64_t h = 1; /* raised by hand for other changes */

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        h = h * 1099511628211u + sizes[i];
    return h;
}

#endif
