/*
 * fuzz_jinja.c - any template, rendered over one conversation.
 *
 * Compiling and rendering must end in bounded time with text or an error,
 * and spans must cover the text exactly.
 */
#include <stdlib.h>
#include <string.h>

#include "template/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char json[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"know\"},"
        "{\"role\":\"user\",\"content\":\" caf\\u00e9 <|x|> \"},"
        "{\"role\":\"assistant\",\"content\":\"<think>a</think>b\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\","
        "\"text\":\"t\"}]}],\"tools\":null,\"n\":3,\"f\":2.5,"
        "\"add_generation_prompt\":true,\"bos_token\":\"<s>\"}";
    struct jinja *t = NULL;
    jv *vars = NULL;
    struct buf out = BUF_INIT;
    struct jinja_spans spans = { 0 };
    if (jinja_compile((const char *)data, size, "fuzz", &t, NULL) != CAG_OK)
        return 0;
    if (jv_parse(json, strlen(json), "vars", &vars, NULL) != CAG_OK)
        abort();
    if (jinja_render_spans(t, vars, 1764000000, &out, &spans, NULL) == CAG_OK &&
        out.size && (spans.n == 0 || spans.s[spans.n - 1].end != out.size))
        abort();
    jinja_spans_free(&spans);
    buf_free(&out);
    jv_free(vars);
    jinja_free(t);
    return 0;
}
