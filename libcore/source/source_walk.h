/*
 * source_walk.h - the files of a directory or of a pattern, sorted.
 *
 * What cannot be seen is not passed over: a directory that cannot be read is
 * an error, a file that cannot be reached is in the list, and reading it is
 * the error that names it.
 */
#ifndef SOURCE_SOURCE_WALK_H
#define SOURCE_SOURCE_WALK_H

#include "source/sources.h"

struct source_names {
    char **v; /* [n], heap strings */
    size_t n, cap;
};

struct source_walk {
    const cag_source_spec *spec;
    const struct source_opts *o; /* may be NULL */
    struct source_set *set;      /* where is counted what is passed over */
    struct source_names files;   /* found */
};

/* Takes s over, also on failure; NULL is memory that is short. */
bool source_names_add(struct source_names *l, char *s);
void source_names_sort(struct source_names *l);
void source_names_free(struct source_names *l);

/* The names in dir, sorted; hidden ones only if asked for.  CAG_E_MISSING
 * with errno, CAG_E_IO, CAG_E_LIMIT (max_entries), CAG_E_NOMEM. */
cag_status source_walk_list(struct source_walk *w, const char *dir, bool hidden,
                            struct source_names *entries, cag_error *err);
/* Count path as passed over; the user hears of it with -v. */
cag_status source_walk_skip(struct source_walk *w, enum source_skip why,
                            const char *path, cag_error *err);
/* path as a file to read, if it is one or cannot be seen.  Takes it over. */
cag_status source_walk_take(struct source_walk *w, char *path, cag_error *err);
/* Everything that spec, a directory, takes. */
cag_status source_walk_directory(struct source_walk *w, cag_error *err);
/* Everything that matches spec, a pattern.  In source_glob.c. */
cag_status source_walk_pattern(struct source_walk *w, cag_error *err);

#endif
