#!/usr/bin/env python3
"""Make tests/golden/bad/kvc-*: damaged or foreign files, and their messages.

Run from the repository root after the golden files in tests/golden/kvc.
"""
import pathlib
import struct

good = pathlib.Path("tests/golden/kvc/v1.0-f16z.kvc").read_bytes()
size = len(good)
flipped = bytearray(good[:4096])
flipped[200] ^= 0x10

cases = {
    "empty": (b"", "the file is empty, expected a .kvc cache"),
    "truncated": (good[:5000],
                  f"the file has 5000 bytes, its header says {size}: it is truncated"),
    "truncated-header": (good[:100],
                         "the file is truncated: 100 bytes, a header takes 4096"),
    "version-2": (good[:8] + struct.pack("<HH", 2, 0) + good[12:4096],
                  "format version 2, this program reads up to 1: use a newer one"),
    "text-mode": (good[:200].replace(b"\r\n", b"\n"),
                  "this is a .kvc cache damaged by a text-mode transfer, expected a .kvc cache"),
    "gguf": (b"GGUF" + struct.pack("<IQQ", 3, 0, 0),
             "this is a GGUF model, expected a .kvc cache"),
    "git-lfs": (b"version https://git-lfs.github.com/spec/v1\n"
                b"oid sha256:" + b"0" * 64 + b"\nsize 53248\n",
                "this is a Git-LFS pointer (run 'git lfs pull' to fetch the file), expected a .kvc cache"),
    "llama-session": (struct.pack("<III", 0x6767736E, 10, 0),
                      "this is a llama.cpp session file, expected a .kvc cache"),
    "flipped-header": (bytes(flipped), "the header is damaged (SHA-256 differs)"),
}
out = pathlib.Path("tests/golden/bad")
out.mkdir(exist_ok=True)
for name, (data, message) in cases.items():
    (out / f"kvc-{name}.kvc").write_bytes(data)
    (out / f"kvc-{name}.msg").write_text(message + "\n")
