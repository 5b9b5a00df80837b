/*
 * build_opts.h - the options of cag-build and where their values come from:
 * option, environment, manifest, default, in this order.
 */
#ifndef CMD_BUILD_OPTS_H
#define CMD_BUILD_OPTS_H

#include <cag/manifest.h>

#include "cmd/cli/engine_opts.h"

struct build_cli {
    const char *model, *output, *files0, *title, *system, *system_file, *label,
        *refusal, *ack, *template_name, *template_file, *template_date,
        *depfile, *recode, *mode, *manifest, *questions;
    struct engine_cli engine;
    int codec, calibrate, front, verify, chunk;
    int64_t n_ctx, reserve, max_memory;
    double lock_timeout, checkpoint_s, max_loss;
    struct opt_list include, exclude;
    bool checkpoint, force, check, keep_mtime, dry_run, refresh, json,
        allow_outside;
};
extern struct build_cli cli;
extern const opt_spec build_specs[];

/* Values the manifest gives and nobody else did.  Returns an exit status. */
int build_take_manifest(const cag_manifest *m);
/* Ends the program where --recode names no codec to convert to. */
void build_check_recode(void);
/* --questions: before the build, which may take long, that the file can be
 * read; after it, measure the null of the cache that was built.  Returns an
 * exit status. */
int build_null_check(void);
int build_null(const cag_build_opts *b);
/* Has the cache at path a null? */
bool build_has_null(const char *path);
/* For --print-config: in words what 0 and -1 stand for. */
void build_show_defaults(void);
/* All but sources; reads the files that options name.  m, or NULL, says where
 * in a manifest a wrong value stands. */
int build_fill(cag_build_opts *b, const cag_manifest *m);

#endif
