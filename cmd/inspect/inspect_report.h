/*
 * inspect_report.h - the views cag-inspect has of one cache.
 */
#ifndef CMD_INSPECT_REPORT_H
#define CMD_INSPECT_REPORT_H

#include <cag/build.h>

void inspect_summary(const cag_kvc *k);
void inspect_json(const cag_kvc *k);
/* "sha256  path" lines for sha256sum -c, run in the cache's directory */
void inspect_sources(const cag_kvc *k, bool json);
void inspect_tokens(const cag_kvc *k, bool json);
void inspect_tensors(const cag_kvc *k, bool json);
void inspect_text(const cag_kvc *k, bool json);
void inspect_digest(const cag_kvc *k, bool json);
void inspect_sound(const cag_kvc *k); /* JSON, after a full check */
void inspect_devices(bool json);
/* One line per cache found below each word; returns the exit status. */
int inspect_list(char **word, const cag_places *places, bool json);
/* Files of a batch that was spread over many runs; the exit status. */
int inspect_shards(char **word, bool json);
/* The models that -m finds by name; returns the exit status. */
int inspect_models(const cag_places *places, bool json);
int inspect_diff(const cag_kvc *a, const cag_kvc *b, bool json);

#endif
