#!/usr/bin/env python3
"""Record the ids that each named pre-tokenizer of GGUF files gives, for
test_tok_golden: tokenizer.ggml.pre names a list of patterns.

    make_tok_pre.py OUT.json

The patterns are those of the families' own tokenizer.json, run by the
tokenizers library over the byte vocabulary of make_tok_pipelines.py; the
names are the ones that llama.cpp gives them.  Seeded; needs tokenizers.
"""
import json
import random
import sys

import tokenizers
from tokenizers import Tokenizer

from make_tok_pipelines import model

N_TEXT = 60
SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|"
        r"\s+(?!\S)|\s+")
QWEN2 = (SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
         + TAIL)
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
WORD = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|[^\r\n\p{L}\p{N}]?"
        r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|%s|"
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL)
GPT4O = WORD % (SHORT + "?", SHORT + "?", r"\p{N}{1,3}")
CJK = "[一-龥ࠀ-一가-\ud7ff]+"
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|"
             r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
             + TAIL)
CASED = (
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf"
    "\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f"
    "\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481"
    "\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd"
    "\u1e00-\u1f15\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a]+")
STOP = " ?[^(\\s|.,!?…。，、।۔،)]+"
GROUPS = [  # names, NFC, ignore_merges, patterns
    (["jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0",
      "mellum", "modern-bert", "gpt-2"], False, False, [GPT2]),
    (["falcon-h1", "midm-2.0", "lfm2", "jina-v5-nano", "llama-bpe"], False,
     True, [LLAMA3]),
    (["minicpm5"], False, True,
     [r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")]),
    (["deepseek-r1-qwen", "f2llmv2", "qwen2"], True, False, [QWEN2]),
    (["kormo", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"],
     False, False, [QWEN2]),
    (["kanana2", "talkie", "minimax-m2", "gpt-4o"], False, False, [GPT4O]),
    (["hunyuan-dense", "deepseek-v3"], False, False,
     [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", DEEPSEEK3]),
    (["deepseek-llm"], False, False,
     ["[\r\n]", CASED,
      r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", CJK, r"\p{N}+"]),
    (["seed-coder"], False, False,
     [SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|"
      + TAIL]),
    (["viking"], False, False, [STOP, r"\p{N}"]),
    (["poro-chat", "bloom", "gpt3-finnish"], False, False, [STOP]),
    (["superbpe"], False, False, [r"\p{N}+", r"(?=(\d{3})+(?!\d))"]),
]
BITS = list("abcde ABC 0123456789 .,'!?(|)\n\r\t  ") + [
    "1234", "56789", "0000000", " 12", "'s", "'LL", "don't", "É", "é", "e\u0301",
    "Ωω", "Жж", "ﬁ", "中文", "かな", "カナ", "한국", "！", "。", "，", "、", "“", "”",
    "\u00a0", "\u3000", "…", "।", "۔", "،", "😀", "!ab", "/x", "\r\n", "   ", "\n\n",
    "x=1;", "ª", "ǅ", "٣", "²", "Ⅷ", "->", "$5"]


def main():
    r = random.Random(11341)
    base = model(r, "bytes")
    groups = []
    for names, nfc, ignore, patterns in GROUPS:
        steps = [{"type": "Split", "pattern": {"Regex": p}, "invert": False,
                  "behavior": "Isolated"} for p in patterns]
        steps.append({"type": "ByteLevel", "add_prefix_space": False,
                      "trim_offsets": True, "use_regex": False})
        t = Tokenizer.from_str(json.dumps(
            {"version": "1.0", "truncation": None, "padding": None,
             "added_tokens": [], "post_processor": None, "decoder": None,
             "normalizer": {"type": "NFC"} if nfc else None,
             "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
             "model": {**base, "ignore_merges": ignore}}))
        cases = []
        for _ in range(N_TEXT):
            s = "".join(r.choice(BITS) for _ in range(r.randint(1, 24)))
            cases.append({"t": s,
                          "p": t.encode(s, add_special_tokens=False).ids})
        groups.append({"names": names, "cases": cases})
    with open(sys.argv[1], "w", encoding="utf-8", newline="\n") as f:
        json.dump({"oracle": "tokenizers " + tokenizers.__version__,
                   "tokens": sorted(base["vocab"], key=base["vocab"].get),
                   "merges": [" ".join(m) for m in base["merges"]],
                   "groups": groups}, f, ensure_ascii=False,
                  separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
