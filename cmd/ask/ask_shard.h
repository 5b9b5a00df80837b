/*
 * ask_shard.h - which rows of a batch are this run's, and into which file.
 */
#ifndef CMD_ASK_SHARD_H
#define CMD_ASK_SHARD_H

#include <cag/tool/batch_file.h>

/*
 * "I/N", or "auto": the place of this run among the tasks of a Slurm array or
 * of an indexed Kubernetes job, by their variables and CAG_SHARDS.  Anything
 * wrong ends the program (opt_fail).
 */
void ask_shard_parse(const char *text, int *shard, int *n_shard);

/* The name of this run's file: %i and %n of the pattern are its number and the
 * number of runs, %% is a percent sign; heap.  Ends the program if the runs
 * would share one file. */
char *ask_shard_name(const char *pattern, int shard, int n_shard);

/* Rows of files that were written by this pattern, with any numbers, to r,
 * whose own is called own. */
cag_status ask_shard_also(cag_rows *r, const char *pattern, const char *own,
                          cag_error *err);

/* The file is complete.  What a run with more shards left under a name that is
 * now nobody's, PATH, becomes PATH.part: its rows are in the files of this run,
 * and for another run with that many shards they are still there. */
void ask_shard_retire(const char *pattern, const char *own, int shard,
                      int n_shard);

#endif
