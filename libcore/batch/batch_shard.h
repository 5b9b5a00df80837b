/*
 * batch_shard.h - the last line of a shard's file, from the inside.
 */
#ifndef BATCH_BATCH_SHARD_H
#define BATCH_BATCH_SHARD_H

#include <cag/tool/shard.h>

#include "util/json.h"

/* Is this line of a file of rows its last one?  *s is filled then. */
bool shard_read(const jv *line, cag_shard *s);

#endif
