/*
 * build_hint.h - who waits long for a prefill hears of --precision fast.
 */
#ifndef CMD_BUILD_HINT_H
#define CMD_BUILD_HINT_H

#include <cag/base.h>

/* Have the hooks say, on a terminal and once, what would be faster. */
void build_hint(cag_hooks *h);

#endif
