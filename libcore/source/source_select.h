/*
 * source_select.h - which files of a directory or a pattern are sources.
 *
 * Patterns are those of gitignore(5) without "!".  Relative to the directory
 * that was named, one that has a slash in it (not at its end) is matched
 * against the whole path, another against the name at any depth; a slash at
 * the end asks for a directory.  "**" as a part of a path is any number of
 * directories, at the end everything below; * ? [] never match a slash.
 */
#ifndef SOURCE_SOURCE_SELECT_H
#define SOURCE_SOURCE_SELECT_H

#include <stdbool.h>

#include "source/sources.h"

/* What a directory takes without include, for messages. */
#define SOURCE_KINDS ".md, .markdown, .rst or .txt"

/* Is name one that a directory takes without include? */
bool source_is_text_name(const char *name);
/* The parts of path, one by one, against those of pattern ("**" included);
 * hidden names only by a part that begins with a point. */
bool source_match_path(const char *pattern, const char *path);
/* Does any pattern of list (NULL-terminated, or NULL) match rel? */
bool source_match_any(const char *const *list, const char *rel, bool is_dir);
/* Would a file of this name (rel, below a named directory) be read? */
bool source_selects(const struct source_opts *o, const char *rel);
/*
 * Would the sources read the file path, were it there?  true with the operand
 * in *which: a directory or pattern that takes it.
 */
bool source_would_read(const cag_source_spec *spec, int n_spec,
                       const struct source_opts *o, const char *path,
                       const char **which);

#endif
