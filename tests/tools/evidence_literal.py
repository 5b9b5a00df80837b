#!/usr/bin/env python3
"""Every piece of evidence is literally in the file at its place.

    evidence_literal.py DIR < rows.jsonl     rows of cag-ask --json or --batch
    evidence_literal.py --text < stderr      what --evidence prints for people
    evidence_literal.py --grep < stdout      --evidence-format grep

DIR is the cache's directory, which paths of rows are relative to.  Prints the
number of pieces; a piece that is not there is an error.
"""
import json
import os
import re
import sys


def lines_of(data, first, last):
    return b"\n".join(data.split(b"\n")[first - 1:last])


def check_row(row, where):
    n = 0
    for piece in row.get("evidence", []) + row.get("quotes", []):
        data = open(os.path.join(where, piece["path"]), "rb").read()
        text = piece["text"].encode()
        assert data[piece["byte_from"]:piece["byte_to"]] == text, piece
        assert 1 <= piece["line_from"] <= piece["line_to"], piece
        assert data[:piece["byte_from"]].count(b"\n") + 1 == piece["line_from"], piece
        assert data[:piece["byte_to"]].count(b"\n") + 1 == piece["line_to"], piece
        assert text in lines_of(data, piece["line_from"], piece["line_to"]), piece
        if "sha256" in piece:
            import hashlib
            assert hashlib.sha256(data).hexdigest() == piece["sha256"], piece
        n += 1
    return n


def check_text(out):
    n, lines, want = 0, out.split(b"\n"), []
    for line in lines:
        m = re.match(rb"([^ :][^:]*):(\d+)(?:-(\d+))?: (.*)$", line)
        if m and os.path.exists(m[1]):
            data = open(m[1], "rb").read()
            first = int(m[2])
            want = lines_of(data, first, int(m[3] or first)).split(b"\n")
            assert m[4] in want.pop(0).rstrip(b"\r"), line
            n += 1
        elif line.startswith(b"    "):
            assert line[4:] in want.pop(0).rstrip(b"\r"), line
        else:
            assert not want, (line, want)
    return n


def check_grep(out):
    n = 0
    for line in out.split(b"\n")[:-1]:
        name, number, text = line.split(b":", 2)
        at = lines_of(open(name, "rb").read(), int(number), int(number))
        assert text and text in at.rstrip(b"\r"), line
        n += 1
    return n


def main():
    data = sys.stdin.buffer.read()
    if sys.argv[1] == "--text":
        n = check_text(data)
    elif sys.argv[1] == "--grep":
        n = check_grep(data)
    else:
        n = sum(check_row(json.loads(line), sys.argv[1]) for line in data.splitlines())
    print(n)


main()
