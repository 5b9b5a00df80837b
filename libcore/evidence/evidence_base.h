/*
 * evidence_base.h - all that evidence needs of an open cache: its sources'
 * texts, their index, and where they stand in the files of today.
 *
 * Made once for a cache, at the first answer that is checked.  A file is
 * looked at when a piece of it is given for the first time: its SHA-256 says
 * whether it is the one that was read, and then where the cached text begins
 * in it (a byte order mark or front matter may stand before).
 */
#ifndef EVIDENCE_EVIDENCE_BASE_H
#define EVIDENCE_EVIDENCE_BASE_H

#include <cag/evidence.h>
#include <cag/kvc.h>

#include "evidence/evidence_index.h"
#include "util/buf.h"

struct evidence_base {
    const cag_kvc *kvc;      /* borrowed */
    struct index_text *text; /* [n] views into the cached text */
    int n;
    struct evidence_index *index;
    struct evidence_file {
        bool known;
        cag_source_state state;
        uint64_t byte; /* of the file, where the text begins */
        int64_t line;  /* lines before that */
        char *shown;   /* its path from the current directory, or NULL */
    } * file;
    char *dir;          /* the cache's, links followed */
    struct buf *folded; /* [n] text with each white space as one blank; NULL
                           before the first quote */
    struct words_table facts; /* of all texts, support_facts.h */
    bool has_facts;
    int32_t *line_of; /* [tokens of the cache], see evidence_base_lines */
};

cag_status evidence_base_new(const cag_kvc *k, struct evidence_base **out,
                             cag_error *err);
void evidence_base_free(struct evidence_base *b);
/* The line of the index in which each token of the cache begins, -1 for those
 * of no source: b->line_of, made at the first call.  CAG_E_NOMEM. */
cag_status evidence_base_lines(struct evidence_base *b, cag_error *err);
/* Bytes [from, to) of the text of a source, as a piece of its file.
 * Errors: CAG_E_NOMEM; a file that cannot be read is CAG_SOURCE_MISSING. */
cag_status evidence_base_piece(struct evidence_base *b, int source,
                               uint64_t from, uint64_t to, cag_piece *out,
                               cag_error *err);

#endif
