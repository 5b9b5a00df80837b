/*
 * fuzz_tokblob.c - a compiled tokenizer out of a damaged .kvc: it is refused
 * or works without a bad access, and every id it gives is in its vocabulary.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tokenizer/tokenizer.h"
#include "util/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "<x>ab  ba \xe2\x96\x81 e\xcc\x81 \xf0\x9f\x98"
                               "\x80 1234\n\nabababababababababababababababab"
                               "abababababababababababababababababababababab";
    const cag_text piece[2] = { { text, sizeof text - 1, CAG_TEXT_TEMPLATE },
                                { text, sizeof text - 1, 0 } };
    cag_tokenizer *t = NULL;
    cag_ids ids = CAG_IDS_INIT;
    char *back = NULL;

    if (tok_from_blob(data, size, "fuzz", &t, NULL) != CAG_OK)
        return 0;
    if (cag_encode(t, piece, 2, CAG_ENCODE_BOS | CAG_ENCODE_OFFSETS, &ids,
                   NULL) == CAG_OK) {
        for (size_t i = 0; i < ids.n; i++)
            if (ids.id[i] < 0 || ids.id[i] >= cag_tokenizer_n_vocab(t))
                __builtin_trap();
        if (cag_decode(t, ids.id, ids.n, true, &back, NULL, NULL) == CAG_OK)
            mem_free(back);
        cag_ids_free(&ids);
    }
    cag_token_id(t, "ab", 2);
    tok_free(t);
    return 0;
}
