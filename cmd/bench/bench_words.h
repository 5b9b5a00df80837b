/*
 * bench_words.h - figures in units and words for people.
 */
#ifndef CMD_BENCH_WORDS_H
#define CMD_BENCH_WORDS_H

#include <cag/tool/bench.h>

/* The unit that a value like v is best read in, and by what to divide:
 * seconds in ms, bytes in MiB. */
struct bench_unit {
    const char *name;
    double by;
};
struct bench_unit bench_unit(const char *unit, double v);
/* About three digits: "86.3", "0.125", "6344". */
const char *bench_digits(char out[32], double v);
/* The same with its unit: "86.3 ms". */
const char *bench_amount(char out[48], const char *unit, double v);

/* What the report comes to, in a sentence (""  if it has no such figures). */
const char *bench_summary(const cag_bench_report *r, char out[256]);
/* A figure by name, at the longest text it was measured for; or NULL. */
const cag_bench_figure *bench_find(const cag_bench_report *r, const char *name);

#endif
