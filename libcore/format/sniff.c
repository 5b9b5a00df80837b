/*
 * sniff.c - magics of the files people hand to the wrong program.
 *
 * safetensors has no magic: it is recognised by its first ten bytes, a
 * little-endian header length (under 2^40) followed by `{"` - no other file
 * in this list begins so.
 */
#include "format/sniff.h"

#include <string.h>

static const char lfs_magic[] = "version https://git-lfs";

static bool starts(const uint8_t *p, size_t n, const char *magic, size_t len)
{
    return n >= len && memcmp(p, magic, len) == 0;
}

bool sniff_is_lfs(const uint8_t *head, size_t n)
{
    return starts(head, n, lfs_magic, sizeof lfs_magic - 1);
}

const char *sniff_kind(const uint8_t *head, size_t n)
{
    if (sniff_is_lfs(head, n))
        return "a Git-LFS pointer (run 'git lfs pull' to fetch the file)";
    if (starts(head, n, "GGUF", 4))
        return "a GGUF model";
    if (starts(head, n, "\x89KV" "C\r\n\x1a\n", 8))
        return "a .kvc cache of cag";
    if (starts(head, n, "\x89KV" "C", 4))
        return "a .kvc cache of cag, damaged by a text-mode transfer";
    if (starts(head, n, "ggsn", 4) || starts(head, n, "nsgg", 4) ||
        starts(head, n, "ggsq", 4) || starts(head, n, "qsgg", 4))
        return "a llama.cpp session file";
    if (starts(head, n, "lmgg", 4) || starts(head, n, "fmgg", 4) ||
        starts(head, n, "tjgg", 4))
        return "a GGML model older than GGUF";
    if (starts(head, n, "PK\x03\x04", 4))
        return "a zip archive or PyTorch checkpoint";
    if (starts(head, n, "\x28\xb5\x2f\xfd", 4))
        return "a zstd-compressed file";
    if (starts(head, n, "\x1f\x8b", 2))
        return "a gzip-compressed file";
    if (n >= 10 && head[5] == 0 && head[6] == 0 && head[7] == 0 &&
        head[8] == '{' && (head[9] == '"' || head[9] == ' ' ||
                           head[9] == '}'))
        return "a safetensors file";
    if (starts(head, n, "<!DOCTYPE html", 14) || starts(head, n, "<html", 5))
        return "an HTML page";
    return NULL;
}

void sniff_printable(char *dst, size_t cap, const char *s, size_t n)
{
    size_t i, m = n < cap ? n : cap - 1;

    for (i = 0; i < m; i++)
        dst[i] = s[i] >= 0x20 && s[i] < 0x7f ? s[i] : '?';
    dst[m] = '\0';
}
