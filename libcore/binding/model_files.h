/*
 * model_files.h - find the model of a cache, and tell whether it is the one.
 *
 * A model is the digests of its files (weights, config, tokenizer), recorded
 * in META.model.files as [{name, sha256, size_bytes}]; a path is only a hint.
 */
#ifndef BINDING_MODEL_FILES_H
#define BINDING_MODEL_FILES_H

#include <cag/base.h>
#include <cag/kvc.h>

#include "model/fingerprint.h"
#include "util/file.h"
#include "util/json.h"

struct model_file {
    char *name; /* last component */
    struct file_id id;
    uint8_t sha256[SHA256_SIZE];
};
struct model_files {
    struct model_file *v; /* [n], C order of names */
    int n;
};

/* Digests of the files a model consists of (path: GGUF or directory). */
cag_status model_files_list(const char *path,
                            const struct fingerprint_memory *mem,
                            struct model_files *out, cag_error *err);
/* Is path still what was listed?  By stat alone: nothing is hashed, so never of
 * files that changed a moment ago. */
bool model_files_unchanged(const struct model_files *f, const char *path);
/* Would a write to path reach a file of the model directory?  By its name: it
 * need not be there. */
bool model_files_has(const char *path, const char *model);
void model_files_release(struct model_files *f);
bool model_files_same(const struct model_files *f, const jv *recorded);
/* New JSON array, NULL when out of memory. */
jv *model_files_json(const struct model_files *f);

/*
 * Where the cache's model should be, nothing hashed: the recorded path
 * relative to the .kvc's directory, or its hub id.  *path is a heap string.
 */
cag_status model_files_recorded(const cag_kvc *k, const char *kvc_dir,
                                const cag_places *places, char **path,
                                cag_error *err);

/*
 * The model to answer with: wanted (-m) if given; else the recorded path,
 * the hub id, places->model, the files in places->models.  Only the recorded
 * digests are accepted.  CAG_E_MISMATCH when the one asked for is another
 * model (both digests), CAG_E_MISSING with every place tried.
 */
cag_status model_files_locate(const cag_kvc *k, const char *wanted,
                              const cag_places *places,
                              const struct fingerprint_memory *mem, char **path,
                              cag_error *err);

/* The same where no model can be named, as for a check. */
cag_status model_files_look(const cag_kvc *k, const cag_places *places,
                            const struct fingerprint_memory *mem, char **path,
                            cag_error *err);

#endif
