#!/usr/bin/env python3
"""No text of a cache reaches a terminal as a control character.

    forged_text.py CAG-INSPECT CACHE.kvc

Puts ESC, DEL and U+009B, as JSON writes them and as bytes, into each string
of the cache's META in turn, makes the digests right again, and looks at it
with every view of cag-inspect: on a pseudo terminal nothing but printable
text may come, and through a pipe the JSON holds none of them unescaped.
Prints how many forgeries were shown; some are refused when they are opened.
"""
import hashlib
import json
import os
import pty
import re
import struct
import subprocess
import sys

VIEWS = [[], ["--json"], ["--sources"], ["--sources", "--json"], ["-l"],
         ["-l", "--json"], ["--tensors"], ["--tensors", "--json"], ["--digest"],
         ["--check"], ["-t"]]
BAD = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")


def sections(data):
    for at in range(128, 128 + 64 * struct.unpack_from("<I", data, 12)[0], 64):
        yield at, data[at:at + 4], *struct.unpack_from("<QQ", data, at + 8)


def seal(data, at, off, size):
    data[at + 24:at + 56] = hashlib.sha256(data[off:off + size]).digest()
    data[32:64] = bytes(32)
    data[32:64] = hashlib.sha256(data[:4096]).digest()


def forgeries(data):
    """Every string value of META, its head replaced by what a terminal obeys."""
    at, _, off, size = next(s for s in sections(data) if s[1] == b"META")
    meta = bytes(data[off:off + size])
    for m in re.finditer(rb'(?<=:)"((?:[^"\\]|\\.)*)"', meta):
        text = m.group(1)
        for evil in (rb"\u001b", b"\x7f", b"\xc2\x9b"):
            if len(text) < len(evil):
                continue
            out = bytearray(data)
            begin = off + m.start(1)
            out[begin:begin + len(text)] = evil + b"x" * (len(text) - len(evil))
            seal(out, at, off, size)
            yield out


def on_terminal(argv):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "dumb"
        os.execv(argv[0], argv)
    text = b""
    while True:
        try:
            got = os.read(fd, 65536)
        except OSError:
            break
        if not got:
            break
        text += got
    os.waitpid(pid, 0)
    os.close(fd)
    return text


def main():
    inspect, path = sys.argv[1:]
    data = bytearray(open(path, "rb").read())
    shown = wrong = 0
    for forged in forgeries(data):
        with open("forged.kvc", "wb") as f:
            f.write(forged)
        if subprocess.run([inspect, "-q", "forged.kvc"], capture_output=True).returncode:
            continue
        shown += 1
        for view in VIEWS:
            text = on_terminal([inspect, *view, "forged.kvc"])
            for m in BAD.finditer(text):
                print("on a terminal:", view, text[max(0, m.start() - 30):m.end() + 30])
                wrong += 1
            if "--json" in view:
                text = subprocess.run([inspect, *view, "forged.kvc"], capture_output=True).stdout
                json.loads(text)
                if BAD.search(text):
                    print("JSON:", view, text[:200])
                    wrong += 1
    print(shown, "forgeries shown,", wrong, "wrong")
    return wrong > 0 or shown < 5


if __name__ == "__main__":
    sys.exit(main())
