/*
 * tokenizer.h - text to token ids and back.
 *
 * A tokenizer is immutable and thread-safe.  Text handed in is UTF-8;
 * invalid UTF-8 is CAG_E_FORMAT with the byte's offset.
 *
 * Text from sources and questions can never become a control token: only
 * pieces marked CAG_TEXT_TEMPLATE are searched for added tokens, special or
 * not (<think> and <tool_call> steer a model as well).  Added tokens of
 * white space alone are text and found everywhere.  All pieces between two
 * added tokens are tokenized as one text, so a border between pieces changes
 * nothing.
 */
#ifndef CAG_TOKENIZER_H
#define CAG_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cag/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cag_tokenizer cag_tokenizer;

#define CAG_TEXT_TEMPLATE 1u /* special tokens in this piece are honoured  */

typedef struct cag_text {
    const char *text; /* need not be NUL-terminated                 */
    size_t size;
    unsigned flags;
} cag_text;

typedef struct cag_ids {
    int32_t *id;  /* [n] heap (cag_free)                        */
    int64_t *off; /* [n] byte offset of each id's first byte in
                     the joined input, or NULL if not asked.
                     Never decreasing; an id that begins inside
                     a character has that character's offset    */
    size_t n;
    size_t n_dropped; /* bytes the vocabulary has no token for      */
} cag_ids;
#define CAG_IDS_INIT     \
    {                    \
        NULL, NULL, 0, 0 \
    }

#define CAG_ENCODE_BOS                                \
    1u /* add what the tokenizer itself puts in front \
          (post-processor, add_bos_token) unless the  \
          pieces already begin with it               */
#define CAG_ENCODE_OFFSETS 2u

/* Tokenize n pieces as one text.  Time is linear or n log n in its length. */
CAG_API cag_status cag_encode(const cag_tokenizer *t, const cag_text *piece,
                              size_t n, unsigned flags, cag_ids *out,
                              cag_error *err);
CAG_API void cag_ids_free(cag_ids *ids);

/*
 * The bytes an id stands for; *size is 0 for a control token unless
 * special is true, then its text.  NULL for an id outside the vocabulary.
 * (An SPM tokenizer's leading space is kept; see cag_decode.)
 */
CAG_API const char *cag_token_bytes(const cag_tokenizer *t, int32_t id,
                                    bool special, size_t *size);
/*
 * Text of n ids: heap string, NUL-terminated; size may be NULL.  The space
 * that an SPM tokenizer puts in front is taken off.  The bytes are the
 * tokens' own: ids that end inside a character give a partial character.
 * An id outside the vocabulary is CAG_E_USAGE.
 */
CAG_API cag_status cag_decode(const cag_tokenizer *t, const int32_t *id,
                              size_t n, bool special, char **text, size_t *size,
                              cag_error *err);
/* Id of a token by its exact text (special or not), -1 if none. */
CAG_API int32_t cag_token_id(const cag_tokenizer *t, const char *text,
                             size_t size);
CAG_API bool cag_token_is_special(const cag_tokenizer *t, int32_t id);
CAG_API int cag_tokenizer_n_vocab(const cag_tokenizer *t);
CAG_API int32_t cag_tokenizer_bos(const cag_tokenizer *t); /* -1 if none */
CAG_API bool cag_tokenizer_adds_bos(const cag_tokenizer *t);
/* Ids that end an answer by the tokenizer's and generation configs. */
CAG_API const int32_t *cag_tokenizer_eos(const cag_tokenizer *t, size_t *n);

#ifdef __cplusplus
}
#endif
#endif
