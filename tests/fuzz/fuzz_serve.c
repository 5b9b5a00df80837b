/*
 * fuzz_serve.c - what strangers send to cag-serve.
 *
 * The first byte says which: 'C' the body of a chat, 'P' of a completion, 'S' a
 * chat whose system messages are prepended, 'K' the file of keys.
 */
#include <string.h>

#include "cmd/serve/api.h"
#include "cmd/serve/keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is refused is told as JSON. */
static void check_error(const struct api_error *e)
{
    struct buf b = BUF_INIT;
    jv *v = NULL;

    api_error_json(e, &b);
    if (e->http < 400 || !e->msg[0] ||
        jv_parse(b.data, b.size, NULL, &v, NULL) != CAG_OK)
        __builtin_trap();
    jv_free(v);
    buf_free(&b);
}

static void use_body(const char *text, size_t size, enum api_kind kind,
                     enum api_system system)
{
    const struct api_defaults d = { .system = system, .max_tok = 7 };
    struct api_request r;
    struct api_error e;

    if (!api_parse(&r, kind, text, size, &d, &e)) {
        check_error(&e);
        return;
    }
    if (!r.model || !r.question.data || jv_count(r.earlier) % 2 ||
        r.params.max_tok < 1)
        __builtin_trap();
    api_release(&r);
}

static void use_keys(const char *text, size_t size)
{
    struct keys k;

    if (keys_parse(text, size, "keys", &k, NULL) == CAG_OK) {
        const struct key *one = keys_find(&k, "secret");

        if (one)
            key_may(one, "kb");
        keys_release(&k);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 1;

    if (size == 0)
        return 0;
    if (data[0] == 'K')
        use_keys(text, size - 1);
    else
        use_body(text, size - 1,
                 data[0] == 'P'   ? API_COMPLETION
                 : data[0] == 'R' ? API_RESPONSE
                                  : API_CHAT,
                 data[0] == 'S' ? API_SYSTEM_PREPEND : API_SYSTEM_REFUSE);
    return 0;
}
