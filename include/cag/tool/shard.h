/*
 * shard.h - a batch that is spread over many runs, each with a file of its own.
 *
 * Each run answers the rows whose number is its own modulo the number of runs
 * (cag_batch_opts.shard).  A file that is complete ends with a line that says
 * so, and of which batch it is a part: the cache, the options, the questions
 * and the number of shards.  From these lines alone, and the rows before them,
 * a set of files can be judged: no run needs to know of any other.
 */
#ifndef CAG_TOOL_SHARD_H
#define CAG_TOOL_SHARD_H

#include <cag/batch.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CAG_SHARDS_MAX = 1 << 16 };

/* The last line of a complete file. */
typedef struct cag_shard {
    int shard, n_shard;
    int64_t n_row, n_failed; /* rows of the file                          */
    int64_t n_input;         /* rows of all shards                        */
    char content_id[65];     /* of the cache                              */
    char options[17];        /* digest: what rows that say nothing get    */
    char questions[17];      /* digest of the rows of all shards          */
} cag_shard;

/* What a run of all its rows has come to.  CAG_E_USAGE, CAG_E_NOMEM. */
cag_status cag_shard_of(const cag_kb *kb, const cag_batch_opts *o,
                        const cag_batch_report *r, cag_shard *out,
                        cag_error *err);
/* As a line [n] with its newline; heap.  CAG_E_NOMEM. */
cag_status cag_shard_line(const cag_shard *s, char **line, size_t *n,
                          cag_error *err);

/* What is wrong with a file, as bits. */
enum {
    CAG_SHARD_OPEN = 1,       /* no last line: a run is not done yet       */
    CAG_SHARD_DAMAGED = 2,    /* other rows than its last line says        */
    CAG_SHARD_CACHE = 4,      /* of another cache than most                */
    CAG_SHARD_OPTIONS = 8,    /* answered with other options               */
    CAG_SHARD_QUESTIONS = 16, /* of other questions                        */
    CAG_SHARD_COUNT = 32,     /* of another number of shards               */
    CAG_SHARD_TWICE = 64      /* rows that an earlier file has             */
};

typedef struct cag_shard_file {
    const char *path; /* the caller's                                      */
    unsigned wrong;   /* 0: a part of the whole                            */
    cag_shard end;    /* zeroed where there is none                        */
    int64_t n_row;    /* found                                             */
    int64_t n_failed;
    int64_t n_twice;    /* with the number of a row that stood before ...  */
    int64_t line_twice; /* ... the first of them                           */
} cag_shard_file;

typedef struct cag_shards {
    cag_shard_file *file; /* [n_file], as they were given; heap            */
    int n_file;
    cag_shard of;  /* what most of them are parts of (shard: no meaning) */
    int *missing;  /* [n_missing] shards without a whole file; heap      */
    int n_missing; /* -1: no file is complete, so nobody knows           */
    int64_t n_row, n_failed; /* of the whole files                         */
    bool complete;           /* each row of the questions exactly once     */
} cag_shards;

/*
 * Judge a set of files.  One called .part is open and does no harm: its rows
 * are somewhere else, or its shard is missing.  Memory: 16 bytes a row.
 *
 *   out  zeroed first; cag_shards_release after CAG_OK
 *
 * Errors: CAG_E_MISSING, CAG_E_IO, CAG_E_FORMAT (a file holds a line that is
 * neither row nor end), CAG_E_NOMEM.
 */
cag_status cag_shards_check(const char *const *path, int n_path,
                            cag_shards *out, cag_error *err);
void cag_shards_release(cag_shards *s);

#ifdef __cplusplus
}
#endif
#endif
