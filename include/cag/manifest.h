/*
 * manifest.h - a build described in YAML: cag-manifest(5).
 *
 * A manifest says what a command line of cag-build says, and what it cannot:
 * globs, titles and filters for single sources.  The same meaning gives the
 * same bytes.  Paths are relative to the manifest's directory.
 */
#ifndef CAG_MANIFEST_H
#define CAG_MANIFEST_H

#include <cag/build.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a value stands. */
typedef struct cag_manifest_place {
    const char *key;
    int line, column; /* from 1 */
} cag_manifest_place;

typedef struct cag_manifest {
    /* NULL or -1 where the manifest says nothing */
    const char *model, *output, *codec, *precision, *device, *gpu_layers;
    const char *system, *system_file, *label, *refusal, *acknowledgement;
    const char *chat_template, *chat_template_file, *template_date;
    const char *front_matter, *depfile, *calibrate, *questions;
    const char *const *include, *const *exclude; /* NULL-terminated */
    int64_t ctx_size, reserve, threads, batch_size, max_memory;
    double max_loss;              /* -1 if not given, as the above   */
    cag_manifest_place place[32]; /* [n_place] of values given        */
    int n_place;
    const cag_source_spec *source; /* [n_source] */
    int n_source;
    const char *path;
    void *arena; /* owns all of it */
} cag_manifest;

/*
 * Load and check.  CAG_E_CONFIG with file, line and column for anything that
 * is not in the schema: unknown and duplicate keys, tags, anchors and
 * aliases, a second document, a number out of range.  CAG_E_MISSING,
 * CAG_E_NOMEM.
 */
CAG_API cag_status cag_manifest_load(const char *path, cag_manifest **out,
                                     cag_error *err);
CAG_API void cag_manifest_free(cag_manifest *m);

#ifdef __cplusplus
}
#endif
#endif
