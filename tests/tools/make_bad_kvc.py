#!/usr/bin/env python3
"""Make tests/golden/bad/kvc-*: damaged or foreign files, and their messages.

Run from the repository root after the golden files in tests/golden/kvc.
"""
import hashlib
import pathlib
import struct

good = pathlib.Path("tests/golden/kvc/v1.0-f16z.kvc").read_bytes()
size = len(good)
flipped = bytearray(good[:4096])
flipped[200] ^= 0x10

lossy = pathlib.Path("tests/fuzz/corpus/kvc/file-q8h").read_bytes()[1:]


def seal(data, name=None):
    """Digests of one section and of the header made right again."""
    data = bytearray(data)
    for at in range(128, 128 + 64 * struct.unpack_from("<I", data, 12)[0], 64):
        off, size = struct.unpack_from("<QQ", data, at + 8)
        if name and data[at:at + 4] == name:
            data[at + 24:at + 56] = hashlib.sha256(data[off:off + size]).digest()
    data[32:64] = bytes(32)
    data[32:64] = hashlib.sha256(data[:4096]).digest()
    return bytes(data)


def receipt(old, new):
    """The lossy file with other numbers of the same length in its receipt."""
    at = lossy.index(b'{"codec":"q8h","kl"')
    assert len(old) == len(new) and old in lossy[at:]
    return seal(lossy[:at] + lossy[at:].replace(old, new, 1), b"RCPT")


cases = {
    "rcpt-missing": (seal(lossy.replace(b"RCPT", b"RCPU", 1)),
                     "section RCPT is missing: codec q8h changes values, and a cache without a "
                     "receipt of how much is not used"),
    "rcpt-nan": (receipt(b'"max":"3a449ba6"', b'"max":"7fc00000"'),
                 "RCPT: kl.max is missing or wrong, expected 8 hex digits of an f32 in 0..3.403e+38"),
    "rcpt-mean-above-max": (receipt(b'"mean":"37', b'"mean":"40'),
                            "RCPT: kl.mean is missing or wrong, expected 8 hex digits of an f32 in "
                            "0..0.00075"),
    "rcpt-span": (receipt(b'"begin":1', b'"begin":3'),
                  "RCPT: probe.begin is missing or wrong, expected an integer in 1..2"),
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
