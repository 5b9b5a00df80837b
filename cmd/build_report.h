/*
 * build_report.h - what cag-build says about a cache, for people and as JSON.
 */
#ifndef CMD_BUILD_REPORT_H
#define CMD_BUILD_REPORT_H

#include <cag/pipeline.h>

/* The summary of a build, on stderr; as JSON on stdout. */
void report_build(const char *path, const cag_build_report *r, bool json);
/* A dry run's table, or that of a text that does not fit: on stdout. */
void report_plan(const cag_build_report *r, bool json);
/* Check one cache and report; returns the exit status. */
int  report_check(const char *path, const cag_places *places,
                  bool verify_full, bool json);

#endif
