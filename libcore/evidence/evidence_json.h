/*
 * evidence_json.h - what was found about an answer, as members of its row.
 */
#ifndef EVIDENCE_EVIDENCE_JSON_H
#define EVIDENCE_EVIDENCE_JSON_H

#include <cag/evidence.h>

#include "util/json.h"

/* false when out of memory. */
bool evidence_json_add(jv *row, const cag_checked *c);
/* Append a piece of a source to a list, with its sha256. */
bool evidence_json_piece(jv *list, const cag_piece *p);
/* A score as it is written. */
double evidence_json_score(double v);
/* Is it a member that evidence_json_add writes? */
bool evidence_json_has(const char *key);

#endif
