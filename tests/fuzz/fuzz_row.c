/*
 * fuzz_row.c - rows of a batch, and the PRMT section of a cache.
 *
 * The first byte says which: 'J' a row of JSON, 'T' a row of text, 'P' PRMT.
 * A row is parsed and, as a failed one, written again: what came in with it
 * is carried along.
 */
#include <string.h>

#include "prompt/prompt.h"
#include "batch/batch_row.h"
#include "util/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_row(const char *text, size_t size, bool jsonl)
{
    cag_error err = CAG_ERROR_INIT;
    struct buf out = BUF_INIT;
    cag_ask_params defaults;
    struct row r;

    cag_ask_params_init(&defaults);
    if (row_parse(&r, text, size, 7, jsonl ? "question" : NULL, &defaults,
                  &err) == CAG_OK) {
        if (!r.error.status)
            cag_fail(&r.error, CAG_E_LIMIT, NULL, -1, "does not fit");
        /* one line, whatever came in */
        if (row_write(NULL, &r, NULL, "", &out, &err) != CAG_OK ||
            out.size < 2 || out.data[out.size - 1] != '\n' ||
            memchr(out.data, '\n', out.size - 1))
            __builtin_trap();
    }
    buf_free(&out);
    row_release(&r);
}

static void use_prmt(const char *text, size_t size)
{
    cag_error err = CAG_ERROR_INIT;
    struct prompt_tail t;
    jv *v = NULL;

    if (jv_parse(text, size, "PRMT", &v, &err) == CAG_OK &&
        prompt_tail_from_json(v, "PRMT", &t, &err) == CAG_OK)
        prompt_tail_release(&t);
    jv_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;

    if (size == 0)
        return 0;
    if (data[0] == 'P')
        use_prmt(text, size - 1);
    else
        use_row(text, size - 1, data[0] == 'J');
    return 0;
}
