/*
 * backend.h - what this build and this machine can compute with.
 */
#ifndef CAG_BACKEND_H
#define CAG_BACKEND_H

#include <cag/error.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Is this how a device is named: auto, cpu, cuda, cuda:N?  Says nothing about
 * whether it is there. */
CAG_API bool cag_device_is_name(const char *device);
/* "all", "auto" or a number from 1 on, as cag_engine_opts wants it; false for
 * any other text. */
CAG_API bool cag_gpu_layers_of(const char *text, int *n);

/* What is known of GPUs, line by line: the plugin and where it was found or
 * looked for, the driver, each device.  plugin: as in cag_engine_opts. */
CAG_API void cag_cuda_list(const char *plugin,
                           void (*line)(void *ctx, const char *text),
                           void *ctx);

#ifdef __cplusplus
}
#endif
#endif
