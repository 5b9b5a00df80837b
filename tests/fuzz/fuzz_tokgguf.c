/*
 * fuzz_tokgguf.c - any GGUF as a tokenizer: what tok_from_gguf lets through
 * must encode and decode whatever it is given.
 */
#include <cag/model.h>

#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "Hello  w\xc3\xb6rld 123<s>\n\n\xe2\x96\x81x";
    const cag_text piece = { text, sizeof text - 1, CAG_TEXT_TEMPLATE };
    cag_ids ids = CAG_IDS_INIT;
    cag_tokenizer *t = NULL;
    struct gguf *g = NULL;
    char *back = NULL;

    if (gguf_parse(data, size, "fuzz", &g, NULL) != CAG_OK)
        return 0;
    if (tok_from_gguf(g, &t, NULL) == CAG_OK) {
        if (cag_encode(t, &piece, 1, CAG_ENCODE_BOS | CAG_ENCODE_OFFSETS, &ids,
                       NULL) == CAG_OK)
            cag_decode(t, ids.id, ids.n, true, &back, NULL, NULL);
        cag_ids_free(&ids);
        cag_free(back);
        tok_free(t);
    }
    gguf_close(g);
    return 0;
}
