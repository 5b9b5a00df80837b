/*
 * focus_json.h - how an answer was chosen, as members of its row: look (the one
 * given), looks (all of them), passages.
 */
#ifndef ASK_FOCUS_JSON_H
#define ASK_FOCUS_JSON_H

#include <cag/ask.h>

#include "util/json.h"

bool focus_json_add(jv *row, const cag_looked *l);
/* Is a member of a row called so? */
bool focus_json_has(const char *key);
/* The looks of a row that an earlier run put out, their texts alone, for
 * focus_judge; NULL: it has none, or memory is short (*failed). */
cag_looked *focus_json_read(const jv *row, bool *failed);

#endif
