/*
 * evidence.h - what an answer stands on: lines of the sources, verbatim
 * quotes, what stands nowhere, and a label.
 *
 * It is found by words, after the answer, from the cached text, and with a
 * cache that has copy heads by where these looked while the answer was made:
 * the same question, answer and cache give the same bytes.
 */
#ifndef CAG_EVIDENCE_H
#define CAG_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cag/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How well the knowledge holds an answer up.  Both labels ask that every
 * number, date and name of the answer stands in knowledge or question.
 *
 *   STRONG  one sentence of the knowledge has most of the question's words and
 *           the new ones of the answer (score >= CAG_SUPPORT_SCORE, or
 *           CAG_SUPPORT_SCORE_AGAIN where a later look found the answer: it was
 *           taken for its score)
 *   WEAK    not that, but quotes are most of what is new in the answer
 *           (CAG_SUPPORT_QUOTED), or the model looked at one place more than
 *           it does where the text has no answer (the cache's null,
 *           cag_kvc_attention), and half of the new words stand there
 *   NONE    neither: the text does not visibly say this
 *
 * It is no proof: numbers that were swapped, a "not" that was lost and
 * questions made to mislead pass; a right answer to a question in other
 * words than the text's may get NONE.
 */
typedef enum cag_support {
    CAG_SUPPORT_NONE,
    CAG_SUPPORT_WEAK,
    CAG_SUPPORT_STRONG
} cag_support;
#define CAG_SUPPORT_SCORE       0.10
#define CAG_SUPPORT_SCORE_AGAIN 0.125
#define CAG_SUPPORT_QUOTED      0.67
#define CAG_SUPPORT_SHARED      0.50

/* The file of a source, compared with what was read when the cache was built.
 */
typedef enum cag_source_state {
    CAG_SOURCE_SAME,
    CAG_SOURCE_CHANGED, /* lines and bytes are those of the cached text    */
    CAG_SOURCE_MISSING, /* so are these                                    */
    CAG_SOURCE_PIPE     /* it was standard input or a pipe: no file        */
} cag_source_state;
/* "same", "changed", "missing", "pipe" */
CAG_API const char *cag_source_state_name(cag_source_state s);
/* "none", "weak", "strong" */
CAG_API const char *cag_support_name(cag_support s);

/* A piece of a source.  Strings are the cache's: valid while it is open. */
typedef struct cag_piece {
    const char *source; /* the name the model sees                       */
    const char *path;   /* relative to the cache's directory, or NULL     */
    const char *file;   /* the same from the current directory, or NULL  */
    const char *sha256; /* of the file, as it was read                   */
    cag_source_state state;
    bool filtered; /* lines and bytes are of the filter's output         */
    int64_t line_from, line_to;  /* from 1; both included                */
    uint64_t byte_from, byte_to; /* [byte_from, byte_to)                 */
    const char *text;            /* [size] those bytes; no NUL after them */
    size_t size;
} cag_piece;

typedef struct cag_evidence {
    cag_piece at;
    double score; /* 0 .. 1 */
} cag_evidence;

/* Six or more tokens of the answer that stand in a source, but for white
 * space. */
typedef struct cag_quote {
    cag_piece at;
    int n_tok;
} cag_quote;

typedef struct cag_checked {
    cag_evidence *evidence; /* [n_evidence] best first, at most three */
    int n_evidence;
    cag_quote *quote; /* [n_quote] in the answer's order */
    int n_quote;
    char **unsupported; /* [n_unsupported] numbers, dates and names of the
                           answer that stand in neither text nor question  */
    int n_unsupported;
    double score; /* what support is decided by, 0 .. 1 */
    cag_support support;
    const char *refused_by; /* "model", "evidence"; NULL: not refused  */
    char *withheld;         /* [n_withheld] the answer that was not given,
                               or NULL; the answer's text is the refusal */
    size_t n_withheld;
    const char *by; /* "words"; "words+heads": by the attention of the cache's
                       copy heads, too; static */
} cag_checked;

#ifdef __cplusplus
}
#endif
#endif
