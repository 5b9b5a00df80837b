/*
 * engine_opts.h - the options of the engine, for every program that has one.
 *
 * A new one is a row of OPT_ENGINE, a line of engine_opts_fill and a
 * paragraph in cag(7), ENGINE OPTIONS.
 */
#ifndef CMD_CLI_ENGINE_OPTS_H
#define CMD_CLI_ENGINE_OPTS_H

#include <cag/session.h>

#include "cmd/cli/opt.h"

struct engine_cli {
    const char *device, *gpu_layers;
    int n_thread, precision;
};

/* precisions is engine_precision, or engine_precision_auto where a cache says
 * which one it was built with. */
#define OPT_ENGINE(e, precisions)                                             \
    OPT_INT('t', "threads", &(e)->n_thread, 1, 512, "N", "CAG_THREADS",       \
            "CPU threads"),                                                   \
        OPT_CHOICE_OF(0, "precision", &(e)->precision, precisions, NULL,      \
                      "exact: f32 throughout; fast: prompts sooner, with "    \
                      "fewer bits"),                                          \
        OPT_STR(0, "device", &(e)->device, "auto|cpu|cuda[:N]", "CAG_DEVICE", \
                "where to compute"),                                          \
        OPT_STR(0, "gpu-layers", &(e)->gpu_layers, "all|auto|N", NULL,        \
                "layers on the GPU; the CPU has the others")

const char *engine_precision(int i);      /* all but "auto" */
const char *engine_precision_auto(int i); /* all            */

/* What was given, as the library takes it; wrong usage ends the program. */
void engine_opts_fill(const struct engine_cli *e, cag_engine_opts *out);

/* For --print-config: in words what 0 and NULL stand for. */
void engine_opts_show(const struct engine_cli *e);

#endif
