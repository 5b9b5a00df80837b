/*
 * fuzz_tok.c - a tokenizer.json from outside; what it makes must encode and
 * decode any text.  After a NUL byte the input is the text.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tokenizer/tokenizer.h"
#include "util/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - data) : size;
    const char *text = nul ? (const char *)nul + 1 : "ab ab <x>\n";
    cag_text piece[2] = { { text, nul ? size - n - 1 : 10, 0 } };
    cag_tokenizer *t = NULL;
    cag_ids ids = CAG_IDS_INIT;
    char *back = NULL;

    piece[1] = piece[0];
    piece[1].flags = CAG_TEXT_TEMPLATE;
    if (tok_from_json((const char *)data, n, "fuzz", &t, NULL) != CAG_OK)
        return 0;
    if (cag_encode(t, piece, 2, CAG_ENCODE_BOS | CAG_ENCODE_OFFSETS, &ids,
                   NULL) == CAG_OK) {
        for (size_t i = 0; i < ids.n; i++)
            if (ids.id[i] < 0 || ids.id[i] >= cag_tokenizer_n_vocab(t) ||
                ids.off[i] < 0 || (size_t)ids.off[i] > 2 * piece[0].size)
                __builtin_trap();
        if (cag_decode(t, ids.id, ids.n, true, &back, NULL, NULL) == CAG_OK)
            mem_free(back);
        cag_ids_free(&ids);
    }
    tok_free(t);
    return 0;
}
