/*
 * chat_fixture.h - a tiny byte-level tokenizer with control tokens, made in
 * memory: 256 bytes, a few merges that would cross a careless cut, and the
 * control tokens of several families.
 */
#ifndef CHAT_FIXTURE_H
#define CHAT_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tokenizer/tokenizer.h"
#include "util/text.h"

static const char *const fixture_special[] = {
    "<|im_start|>",      "<|im_end|>",    "<s>",        "</s>",
    "<start_of_turn>",   "<end_of_turn>", "<|user|>",   "<|assistant|>",
    "<|system|>",        "<|end|>",       "<|eot_id|>", "<|start_header_id|>",
    "<|end_header_id|>",
};
#define FIXTURE_N_SPECIAL \
    (int)(sizeof fixture_special / sizeof *fixture_special)
#define FIXTURE_FIRST (256 + 5)

/* GPT-2's printable stand-in for a byte, as a JSON string's inside */
static void fixture_byte(struct buf *b, int byte)
{
    uint32_t cp = (uint32_t)byte, extra = 0;
    for (int i = 0; i < byte; i++)
        extra += i < 33 || (i > 126 && i < 161) || i == 173;
    if (byte < 33 || (byte > 126 && byte < 161) || byte == 173)
        cp = 256 + extra;
    buf_printf(b, "\\u%04x", cp);
}

static void fixture_json(struct buf *b)
{
    static const char merges[][2] = {
        { '\n', '\n' }, { '.', '\n' }, { ' ', 'Q' },
        { '\r', '\n' }, { 'a', 'b' },
    };
    buf_str(b, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,"
               "\"added_tokens\":[");
    for (int i = 0; i < FIXTURE_N_SPECIAL; i++)
        buf_printf(b,
                   "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,"
                   "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
                   "\"special\":true}",
                   i ? "," : "", FIXTURE_FIRST + i, fixture_special[i]);
    buf_str(b, "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":"
               "\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":"
               "true,\"use_regex\":true},\"post_processor\":null,\"decoder\":"
               "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
               "\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":"
               "\"BPE\",\"dropout\":null,\"unk_token\":null,"
               "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":"
               "null,\"fuse_unk\":false,\"byte_fallback\":false,\"vocab\":{");
    for (int i = 0; i < 256; i++) {
        buf_str(b, i ? ",\"" : "\"");
        fixture_byte(b, i);
        buf_printf(b, "\":%d", i);
    }
    for (int i = 0; i < 5; i++) {
        buf_str(b, ",\"");
        fixture_byte(b, merges[i][0]);
        fixture_byte(b, merges[i][1]);
        buf_printf(b, "\":%d", 256 + i);
    }
    buf_str(b, "},\"merges\":[");
    for (int i = 0; i < 5; i++) {
        buf_str(b, i ? ",[\"" : "[\"");
        fixture_byte(b, merges[i][0]);
        buf_str(b, "\",\"");
        fixture_byte(b, merges[i][1]);
        buf_str(b, "\"]");
    }
    buf_str(b, "]}}");
}

static cag_status fixture_write(const char *dir, const char *name,
                                const char *text, size_t n)
{
    char path[300];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    if (!f || fwrite(text, 1, n, f) != n || fclose(f) != 0)
        return CAG_E_IO;
    return CAG_OK;
}

/* A tokenizer whose bos is <s> and whose eos is </s>. */
static cag_status fixture_tokenizer(cag_tokenizer **t, cag_error *err)
{
    static const char config[] =
        "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\","
        "\"add_bos_token\":false}";
    char dir[] = "/tmp/cag-test-XXXXXX", path[300];
    struct buf b = BUF_INIT;
    cag_status st;
    if (!mkdtemp(dir))
        return CAG_E_IO;
    fixture_json(&b);
    st = fixture_write(dir, "tokenizer.json", b.data, b.size);
    if (st == CAG_OK)
        st = fixture_write(dir, "tokenizer_config.json", config,
                           sizeof config - 1);
    if (st == CAG_OK)
        st = tok_from_dir(dir, t, err);
    buf_free(&b);
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    unlink(path);
    rmdir(dir);
    return st;
}

static cag_tokenizer *tok; /* from setup to teardown */

static int setup(void **state)
{
    cag_error err = CAG_ERROR_INIT;
    (void)state;
    if (fixture_tokenizer(&tok, &err) != CAG_OK) {
        print_error("%s: %s\n", err.file, err.msg);
        return -1;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tok_free(tok);
    return 0;
}

static int32_t fixture_id(const cag_tokenizer *t, const char *text)
{
    return cag_token_id(t, text, strlen(text));
}

#endif
