/*
 * sniff.c - magics of the files people hand to the wrong program.
 *
 * safetensors has no magic: it is recognised by a little-endian header
 * length below 4 GiB followed by the header's JSON.
 */
#include "util/sniff.h"

#include <string.h>

#include "util/rd.h"

static const char lfs_magic[] = "version https://git-lfs";

static const struct {
    const char *magic;
    size_t n;
    const char *kind;
} kinds[] = {
    { lfs_magic, sizeof lfs_magic - 1,
      "a Git-LFS pointer (run 'git lfs pull' to fetch the file)" },
    { "\x89KVC\r\n\x1a\n", 8, "a .kvc cache" },
    { "\x89KVC", 4, "a .kvc cache damaged by a text-mode transfer" },
    { "GGUF", 4, "a GGUF model" },
    { "FUGG", 4, "a big-endian GGUF model" },
    /* llama.cpp writes these as little-endian u32 'ggsn', 'ggsq', 'ggla' */
    { "nsgg", 4, "a llama.cpp session file" },
    { "qsgg", 4, "a llama.cpp sequence state file" },
    { "algg", 4, "a llama.cpp LoRA adapter" },
    { "lmgg", 4, "a GGML model older than GGUF" },
    { "fmgg", 4, "a GGML model older than GGUF" },
    { "tjgg", 4, "a GGML model older than GGUF" },
    { "PK\x03\x04", 4, "a zip archive or PyTorch checkpoint" },
    { "\x80\x02", 2, "a Python pickle" },
    { "\x80\x03", 2, "a Python pickle" },
    { "\x80\x04", 2, "a Python pickle" },
    { "\x80\x05", 2, "a Python pickle" },
    { "\x93NUMPY", 6, "a NumPy array" },
    { "\x28\xb5\x2f\xfd", 4, "a zstd-compressed file" },
    { "\x1f\x8b", 2, "a gzip-compressed file" },
    { "\xfd"
      "7zXZ",
      5, "an xz-compressed file" },
    { "\x89PNG", 4, "an image" },
    { "\xff\xd8\xff", 3, "an image" },
    { "GIF8", 4, "an image" },
    { "%PDF-", 5, "a PDF document" },
    { "\x7f"
      "ELF",
      4, "a program" },
    { "SQLite format 3", 16, "an SQLite database" },
    { "#!", 2, "a script" },
    { "<!DOCTYPE", 9, "an HTML page" },
    { "<!doctype", 9, "an HTML page" },
    { "<html", 5, "an HTML page" },
    { "<?xml", 5, "an XML document" },
};

bool sniff_is_text(const uint8_t *head, size_t n)
{
    for (size_t i = 0; i < n && i < SNIFF_BYTES; i++)
        if ((head[i] < ' ' && !memchr("\t\n\r\f", head[i], 4)) ||
            head[i] == 0x7F)
            return false;
    return n > 0;
}

bool sniff_is_lfs(const uint8_t *head, size_t n)
{
    return n >= sizeof lfs_magic - 1 &&
           memcmp(head, lfs_magic, sizeof lfs_magic - 1) == 0;
}

const char *cag_file_kind(const void *head, size_t n)
{
    const uint8_t *p = head;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= kinds[i].n && memcmp(p, kinds[i].magic, kinds[i].n) == 0)
            return kinds[i].kind;
    if (n >= 10 && p[8] == '{' && (p[9] == '"' || p[9] == ' ' || p[9] == '}') &&
        rd_le64(p) < UINT64_C(1) << 32)
        return "a safetensors file";
    if (n >= 1 && p[0] == '{')
        return "a JSON document";
    return NULL;
}

void sniff_printable(char *dst, size_t cap, const char *s, size_t n)
{
    size_t i, m = n < cap ? n : cap - 1;

    for (i = 0; i < m; i++)
        dst[i] = s[i] >= 0x20 && s[i] < 0x7f ? s[i] : '?';
    dst[m] = '\0';
}
