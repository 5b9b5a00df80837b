/*
 * rebuild_hint.h - what to type when a cache is stale.
 */
#ifndef BINDING_REBUILD_HINT_H
#define BINDING_REBUILD_HINT_H

#include <cag/kvc.h>

/*
 * Heap; NULL when memory is short.  filtered: a filtered source changed, and
 * no recorded filter is run.  lost: a source that was named itself is gone, so
 * that --refresh would not find it.
 */
char *rebuild_hint(const cag_kvc *k, bool filtered, bool lost);

#endif
