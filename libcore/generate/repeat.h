/*
 * repeat.h - does an answer only repeat itself?
 *
 * A small model that takes the likeliest token can fall into a loop: the same
 * sentence again and again, up to the limit of the answer.
 */
#ifndef ASK_REPEAT_H
#define ASK_REPEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REPEAT_MAX = 128,   /* tokens of what is repeated, at most            */
    REPEAT_TIMES = 6,   /* it stands there so often, exactly ...          */
    REPEAT_TOKENS = 128 /* ... and in so many tokens at least             */
};

/* Are the last tokens of ids [n] one run of tokens, REPEAT_TIMES and in
 * REPEAT_TOKENS tokens at least? */
bool repeat_ends(const int32_t *ids, size_t n);

#endif
