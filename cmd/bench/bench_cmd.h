/*
 * bench_cmd.h - the parts of cag-bench.
 *
 *   cag-bench.c       commands, options
 *   bench_eval.c      questions with known answers, judged
 *   bench_probe.c     token ids in, continuation and logits out
 *   bench_process.c   a cag-ask process and its clock
 *   bench_output.c    a report as table, CSV, JSON
 *   bench_words.c     units for people, and the sentence that sums up
 *   bench_svg.c       a report as a drawing
 *   bench_axes.c      its scales, and ticks that are round
 */
#ifndef CMD_BENCH_CMD_H
#define CMD_BENCH_CMD_H

#include <cag/tool/bench.h>
#include <stdio.h>

#include "cmd/cli/engine_opts.h"

/* The commands; they return the exit status. */
int bench_eval(int argc, char **argv);
extern const opt_usage bench_eval_usage;
int bench_probe(int argc, char **argv);
extern const opt_usage bench_probe_usage;

struct bench_ask {
    const char *ask; /* path of cag-ask */
    const struct engine_cli *engine;
    int n_gen;
};
/* The cag-ask that lies beside this program (heap, free()), or NULL. */
char *bench_find_ask(void);
/* A cag_bench_process_fn; ctx is a struct bench_ask. */
cag_status bench_ask_process(void *ctx, const char *kvc, const char *model,
                             const char *question, bool no_cache,
                             cag_bench_process *out, cag_error *err);

enum { BENCH_MD, BENCH_CSV, BENCH_JSON, BENCH_JSONL };
extern const char *const bench_formats[];
/* A file that replaces what path names (cag_open_output); NULL: err. */
FILE *bench_create(const char *path, cag_error *err);
/* Print a report; false after a message. */
bool bench_print(const cag_bench_report *r, int format, FILE *to);
bool bench_print_svg(const cag_bench_report *r, FILE *to);

#endif
