/*
 * build_report.h - what cag-build says about a cache, for people and as JSON.
 */
#ifndef CMD_BUILD_REPORT_H
#define CMD_BUILD_REPORT_H

#include <stdio.h>

#include <cag/build.h>

/* The summary of a build, on stderr; as JSON on stdout. */
void report_build(const char *path, const cag_build_report *r, bool json);
/* What a dry run found, on stdout; path is the output, or NULL. */
void report_plan(const char *path, const cag_build_report *r, bool json);
/* Do the sources leave room for question and answer? */
bool report_fits(const cag_build_report *r);
/* Tokens by source, in their order; unless all, the largest, by size.  Where
 * they do not fit, what to leave out. */
void report_table(FILE *to, const cag_build_report *r, bool all);

#endif
