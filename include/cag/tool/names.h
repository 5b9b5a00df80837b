/*
 * names.h - lists of names, for --version, messages and completions.  All are
 * static strings.
 */
#ifndef CAG_TOOL_NAMES_H
#define CAG_TOOL_NAMES_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Name i of the built-in chat templates, from 0; NULL past the end. */
const char *cag_template_name(int i);

/* Kernel set i of this build ("scalar", "avx2", ...), NULL past the end.
 * usable: this CPU runs it; chosen: sessions on the CPU use it.  Either may
 * be NULL.  With a wrong CAG_KERNELS none is chosen. */
const char *cag_kernels_at(int i, bool *usable, bool *chosen);

/* How --precision fast would read a prompt on this CPU, in words; NULL: it has
 * nothing faster. */
const char *cag_fast_how(void);

/* Backend i of this build ("cpu"), NULL past the end. */
const char *cag_backend_at(int i);

#ifdef __cplusplus
}
#endif
#endif
