/*
 * kvc_kind.c - what a foreign file is, by its first bytes, so that "not a
 * .kvc cache" can say what was given instead.
 */
#include <cag/kvc.h>

#include <string.h>

#include "util/rd.h"

static const struct {
    const char *magic;
    size_t      n;
    const char *kind;
} kinds[] = {
    { "\x89KVC\r\n\x1a\n", 8, "a .kvc cache" },
    { "\x89KVC", 4, "a .kvc cache damaged by a text-mode transfer" },
    { "GGUF", 4, "a GGUF model" },
    { "FUGG", 4, "a big-endian GGUF model" },
    /* llama.cpp writes these as little-endian u32 'ggsn', 'ggsq', 'ggla' */
    { "nsgg", 4, "a llama.cpp session file" },
    { "qsgg", 4, "a llama.cpp sequence state file" },
    { "algg", 4, "a llama.cpp LoRA adapter" },
    { "lmgg", 4, "a GGML model (older than GGUF)" },
    { "fmgg", 4, "a GGML model (older than GGUF)" },
    { "tjgg", 4, "a GGML model (older than GGUF)" },
    { "version https://git-lfs.github.com/", 35,
      "a Git LFS pointer (run git lfs pull)" },
    { "PK\x03\x04", 4, "a zip archive (or a PyTorch file)" },
    { "\x80\x02", 2, "a Python pickle" },
    { "\x80\x03", 2, "a Python pickle" },
    { "\x80\x04", 2, "a Python pickle" },
    { "\x80\x05", 2, "a Python pickle" },
    { "\x93NUMPY", 6, "a NumPy array" },
    { "\x28\xb5\x2f\xfd", 4, "a zstd file" },
    { "\x1f\x8b", 2, "a gzip file" },
    { "\xfd" "7zXZ", 5, "an xz file" },
    { "\x89PNG", 4, "a PNG image" },
    { "%PDF-", 5, "a PDF document" },
    { "\x7f" "ELF", 4, "an ELF program" },
    { "SQLite format 3", 16, "an SQLite database" },
    { "#!", 2, "a script" },
    { "<!DOCTYPE", 9, "an HTML page" },
    { "<!doctype", 9, "an HTML page" },
    { "<html", 5, "an HTML page" },
    { "<?xml", 5, "an XML document" },
};

const char *cag_file_kind(const void *head, size_t n)
{
    const uint8_t *p = head;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= kinds[i].n && memcmp(p, kinds[i].magic, kinds[i].n) == 0)
            return kinds[i].kind;
    /* u64 length of a JSON header, then the header */
    if (n >= 10 && p[8] == '{' && (p[9] == '"' || p[9] == '}') &&
        rd_le64(p) < UINT64_C(1) << 32)
        return "a safetensors file";
    if (n >= 1 && p[0] == '{')
        return "a JSON document";
    return NULL;
}
