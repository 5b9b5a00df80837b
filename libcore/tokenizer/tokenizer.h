/*
 * tokenizer/tokenizer.h - how a cag_tokenizer is made; internal.
 *
 * Whatever the source (tokenizer.json, GGUF keys), a tokenizer is first
 * compiled into one position-independent blob (tok_blob.c), and is then
 * used from the blob in place: a .kvc carries the blob in its TKNZ section,
 * so that a question never parses an 11 MB tokenizer.json.  The SHA-256 of
 * the blob is the tokenizer's digest.
 */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include <cag/tokenizer.h>

#include "format/gguf.h"
#include "util/buf.h"

/* From a model directory: tokenizer.json (+ tokenizer_config.json,
 * generation_config.json, config.json for bos/eos, where present). */
cag_status tok_from_dir(const char *dir, cag_tokenizer **out, cag_error *err);
/* From the text of a tokenizer.json alone; name is for messages. */
cag_status tok_from_json(const char *text, size_t n, const char *name,
                         cag_tokenizer **out, cag_error *err);
/* From the tokenizer.ggml.* keys. */
cag_status tok_from_gguf(const struct gguf *g, cag_tokenizer **out,
                         cag_error *err);
/* Over a blob that stays mapped as long as the tokenizer lives.  Everything
 * is range-checked; no parsing, no copy.  name is for messages. */
cag_status tok_from_blob(const void *blob, size_t size, const char *name,
                         cag_tokenizer **out, cag_error *err);
/* The compiled form; valid as long as the tokenizer. */
const void *tok_blob(const cag_tokenizer *t, size_t *size);
void tok_free(cag_tokenizer *t);

/*
 * At least so many ids cag_encode gives for pieces of valid UTF-8, found
 * without tokenizing: what cannot fit need not be tokenized, which takes forty
 * times its memory.  0 where nothing can be said.  Template pieces and white
 * space at the ends of the others do not count.
 */
size_t tok_least_ids(const cag_tokenizer *t, const cag_text *piece, size_t n);

#endif
