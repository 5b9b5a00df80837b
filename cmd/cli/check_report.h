/*
 * check_report.h - is a cache fresh?  Said by cag-build --check and by
 * cag-inspect -t, for people and as JSON, with the same words and statuses.
 */
#ifndef CMD_CLI_CHECK_REPORT_H
#define CMD_CLI_CHECK_REPORT_H

#include <cag/build.h>

#include "cmd/cli/places.h"

/* Of two exit statuses the one that counts: unusable is worse than stale,
 * stale worse than not seen. */
int report_worse(int a, int b);
/* Check one cache and report; returns the exit status. */
int report_check(const char *path, const cag_places *places, bool verify_full,
                 bool json);
/* The same of a build that a manifest describes. */
int report_check_build(const cag_build_opts *b, const char *manifest,
                       bool json);
/* After a refresh that failed: what else to do, where a refresh cannot help. */
void report_way_out(const char *path);

#endif
