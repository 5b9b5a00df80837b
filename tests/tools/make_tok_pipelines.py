#!/usr/bin/env python3
"""Record what the tokenizers library makes of random pipelines, for
test_tok_golden: normalizers x pre-tokenizers x added tokens.

    make_tok_pipelines.py OUT.json

Two small vocabularies, one over bytes and one over characters, and pipelines
of every normalizer and pre-tokenizer that tok_json.c accepts, in the orders in
which they occur, with added tokens of all flags.  Texts are made of what such
a pipeline can be wrong about.  A pipeline that the library cannot load, or a
text on which it gives up, is left out.  Seeded: the same library gives the
same file.  Needs tokenizers.

p: ids as plain text (only added tokens of white space are looked for), s: as
template text, where they differ.
"""
import json
import random
import sys

import tokenizers
from tokenizers import Tokenizer

N_PIPELINE, N_TEXT = 160, 12
MARK = "\u2581"
GPT2 = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|"
        r"\s+(?!\S)|\s+")
REGEX = [GPT2, r"\p{N}{1,3}", r" ?\w+", r"\s+", r"[\r\n]", " ", "a+",
         r"[^\s]+|\s+", " +", r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|\s+", MARK,
         "[a-z]+", r"\S"]
STRING = [" ", MARK, "a", "  ", MARK + MARK, "ab", "\n", " a", "é", "."]
ADDED = ["<foo>", "foo", "<b c>", "  ", " ", "bar", "é<é>", "<x>", "a b",
         "\n\n", "e\u0301", "<foo>b", "Ａ"]
BITS = list("abcde ABC 012 .,'\n\t  ") + [
    MARK, "é", "e\u0301", "\u0301", "\u00a0", "\u3000", "ﬁ", "中", "😀",
    "\u1e9b\u0323", "가", "ᄀ", "ᅡ", "\u0338", "'s", "<foo>", "<foo>", "foo",
    "bar", "<b c>", "  ", "a b", "<x>", "é<é>"]


def byte_letters():
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in own]
    return {**{b: chr(b) for b in own},
            **{b: chr(256 + i) for i, b in enumerate(rest)}}


def grow(r, vocab, pool):
    merges = []
    for _ in range(60):
        a, b = r.choice(pool), r.choice(pool)
        if a + b not in vocab and len(a + b) < 7:
            vocab[a + b] = len(vocab)
            pool.append(a + b)
            merges.append([a, b])
    return merges


def model(r, kind):
    letter = byte_letters()
    if kind == "bytes":
        vocab = {letter[b]: b for b in range(256)}
        pool = [letter[b] for b in b"abcde ABC012.'"]
    else:
        names = ["<unk>"] + [f"<0x{b:02X}>" for b in range(256)]
        vocab = {s: i for i, s in enumerate(
            names + list("abcdeABC012.,'\n") + [MARK, "é"])}
        pool = list("abcde" + MARK * 3 + "AB01.'")
    merges = grow(r, vocab, pool)
    return {"type": "BPE", "dropout": None, "vocab": vocab, "merges": merges,
            "unk_token": "<unk>" if kind == "chars" else None,
            "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": kind == "chars",
            "ignore_merges": False}


def sequence(r, list_key, items):
    if not items:
        return None
    if len(items) == 1 and r.random() < 0.5:
        return items[0]
    return {"type": "Sequence", list_key: items}


def split(r, regex):
    pattern = {"Regex": r.choice(REGEX)} if regex and r.random() < 0.5 else {
        "String": r.choice(STRING)}
    how = r.choice(["Isolated", "Removed", "MergedWithPrevious",
                    "MergedWithNext"])
    return {"type": "Split", "pattern": pattern, "behavior": how,
            "invert": how in ("Isolated", "Removed") and r.random() < 0.2 and
            (regex or how == "Isolated")}


def steps(r, regex):
    return [split(r, regex) if r.random() < 0.7 else
            {"type": "Digits", "individual_digits": r.random() < 0.5}
            for _ in range(r.choice([0, 0, 1, 1, 2]))]


def pipeline(r, kind):
    nfc = {"type": "NFC"}
    prepend = {"type": "Prepend", "prepend": MARK}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    if kind == "bytes":
        norm = r.choice([[], [nfc], [nfc], [nfc, nfc]])
        pre = steps(r, True)
        pre.append({"type": "ByteLevel", "trim_offsets": True,
                    "add_prefix_space": not pre and r.random() < 0.5,
                    "use_regex": r.random() < 0.5})
    else:
        norm = r.choice([[], [replace], [replace], [prepend, replace],
                         [replace, prepend], [replace, replace]])
        pre = steps(r, False) if norm else []
        if prepend not in norm and (not norm or not pre and r.random() < 0.4):
            pre = [{"type": "Metaspace", "replacement": MARK,
                    "prepend_scheme": r.choice(["always", "first", "never"]),
                    "split": r.random() < 0.6}]
    return {"normalizer": sequence(r, "normalizers", norm),
            "pre_tokenizer": sequence(r, "pretokenizers", pre),
            "added_tokens": [],
            "model": {"fuse_unk": r.random() < 0.5,
                      "ignore_merges": r.random() < 0.3}}


def added(r, vocab):
    out, fresh = [], len(vocab)
    for content in r.sample(ADDED, r.randint(0, 5)):
        id_ = vocab.get(content, fresh)
        fresh += content not in vocab
        out.append({"id": id_, "content": content,
                    "single_word": r.random() < 0.15,
                    "lstrip": r.random() < 0.2, "rstrip": r.random() < 0.2,
                    "normalized": r.random() < 0.4,
                    "special": r.random() < 0.5})
    return out


def library(doc, added_tokens):
    return Tokenizer.from_str(json.dumps({**doc, "added_tokens": added_tokens}))


def cases(r, doc):
    blank = [a for a in doc["added_tokens"]
             if not a["special"] and not a["content"].strip(" \t\r\n")]
    template, out = library(doc, doc["added_tokens"]), []
    # numbered without gaps there, so another id than in the whole
    names = {a["content"]: a["id"] for a in blank}
    plain = library(doc, blank)
    back = {plain.token_to_id(c): i for c, i in names.items()}
    while len(out) < N_TEXT:
        t = "".join(r.choice(BITS) for _ in range(r.randint(0, 14)))
        try:
            s = template.encode(t, add_special_tokens=False).ids
            p = plain.encode(t, add_special_tokens=False).ids
        except BaseException:
            continue
        p = [back.get(i, i) for i in p]
        out.append({"t": t, "p": p} if p == s else {"t": t, "p": p, "s": s})
    return out


def main():
    r = random.Random(2303)
    models = {kind: model(r, kind) for kind in ("bytes", "chars")}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True,
                  "trim_offsets": True, "use_regex": True}
    docs = {kind: {"version": "1.0", "truncation": None, "padding": None,
                   "added_tokens": [], "normalizer": None,
                   "pre_tokenizer": None, "post_processor": None,
                   "decoder": byte_level if kind == "bytes" else None,
                   "model": m} for kind, m in models.items()}
    pipelines = []
    while len(pipelines) < N_PIPELINE:
        kind = r.choice(["bytes", "chars"])
        patch = pipeline(r, kind)
        patch["added_tokens"] = added(r, models[kind]["vocab"])
        doc = {**docs[kind], **patch,
               "model": {**models[kind], **patch["model"]}}
        pipelines.append({"base": kind, "patch": patch, "cases": cases(r, doc)})
    with open(sys.argv[1], "w", encoding="utf-8", newline="\n") as f:
        json.dump({"oracle": "tokenizers " + tokenizers.__version__,
                   "base": docs, "pipelines": pipelines}, f,
                  ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
