#!/usr/bin/env python3
"""Record token ids of the tokenizers library as goldens for test_tok_golden.

    make_tok_golden.py TOKENIZERS_DIR DEMO_MODEL.gguf OUT_DIR

TOKENIZERS_DIR holds qwen3, llama3_1 and mistral_spm, each with a
tokenizer.json.zst.  Qwen3's (Apache-2.0) is copied.  Of the other two only the
settings are used (normalizer, splitting, post-processor, names of control
tokens), with a vocabulary of our own in them: the first few thousand tokens of
Qwen3 for Llama-3, and one learned from this project's texts for the SPM one;
both as tokenizer.json and as GGUF.  Needs tokenizers, gguf, zstd(1).

A golden file: source (beside it), patch (members of the tokenizer.json that
are replaced first, "model" member by member), cases: t text, p ids as plain
text, s ids as template text where they differ.  runs: t repeated n times, p
ids as [id, how often].

Plain text is text in which no added token is looked for, but for those of
white space alone; the oracle for it is the same tokenizer without them.
"""
import json
import os
import subprocess
import sys

import gguf
import tokenizers
from tokenizers import Tokenizer

from tok_texts import RUNS, texts


def unzst(path):
    return subprocess.run(["zstd", "-dcq", path], check=True,
                          stdout=subprocess.PIPE).stdout


def write_json(path, doc):
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        json.dump(doc, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def patched(doc, patch):
    doc = dict(doc)
    for key, value in patch.items():
        doc[key] = {**doc[key], **value} if key == "model" else value
    return doc


def record(out, name, source, doc, patch=None, step=1):
    doc = patched(doc, patch or {})
    blank = [a for a in doc["added_tokens"]
             if not a["special"] and not a["content"].strip(" \t\r\n")]
    template = Tokenizer.from_str(json.dumps(doc))
    plain = Tokenizer.from_str(json.dumps({**doc, "added_tokens": blank,
                                           "post_processor": None}))
    special = [a["content"] for a in doc["added_tokens"]]
    cases = []
    for i, t in enumerate(texts(special[:4] + special[-8:])):
        if step > 1 and i % step:
            continue
        p = plain.encode(t, add_special_tokens=False).ids
        s = template.encode(t, add_special_tokens=False).ids
        cases.append({"t": t, "p": p} if p == s else {"t": t, "p": p, "s": s})
    golden = {"oracle": "tokenizers " + tokenizers.__version__,
              "source": source, "patch": patch or {}, "cases": cases}
    if not patch:
        golden["runs"] = [
            {"t": unit, "n": n, "p": run_lengths(
                plain.encode(unit * n, add_special_tokens=False).ids)}
            for unit, n in RUNS]
    write_json(f"{out}/{name}.golden.json", golden)


def run_lengths(ids):
    """[[id, how often], ...]"""
    out = []
    for i in ids:
        if out and out[-1][0] == i:
            out[-1][1] += 1
        else:
            out.append([i, 1])
    return out


def renumber(doc, keep):
    """Cut a tokenizer.json down to the ids in keep."""
    vocab = doc["model"]["vocab"]
    order = sorted((i, s) for s, i in vocab.items() if i in keep)
    new = {s: k for k, (_, s) in enumerate(order)}
    merges = []
    for m in doc["model"]["merges"]:
        a, b = m.split(" ") if isinstance(m, str) else m
        if a in new and b in new and a + b in new:
            merges.append(f"{a} {b}")
    doc["model"]["vocab"] = new
    doc["model"]["merges"] = merges
    for a in doc["added_tokens"]:
        a["id"] = new.get(a["content"], -1)
    n = len(new)
    for a in doc["added_tokens"]:
        if a["id"] < 0:
            a["id"], n = n, n + 1
    for p in [doc["post_processor"]] + doc["post_processor"].get(
            "processors", []):
        for s in p.get("special_tokens", {}).values():
            s["ids"] = [a["id"] for a in doc["added_tokens"]
                        if a["content"] == s["id"]]
    return doc


def cut_llama3(doc, qwen):
    doc["model"]["vocab"] = vocab = qwen["model"]["vocab"]
    doc["model"]["merges"] = qwen["model"]["merges"]
    keep = {i for i in vocab.values() if i < 2500}
    # reachable only through ignore_merges, because no merge leads there
    for word in ["ĠViá»ĩt", "Ġtokenizer"]:
        keep.add(vocab[word])
    doc["added_tokens"] = doc["added_tokens"][:12]
    return renumber(doc, keep)


def learn_spm(doc, corpus):
    """SPM's layout: control tokens, 256 bytes, merged tokens, characters."""
    t = Tokenizer(tokenizers.models.BPE())
    t.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    t.train_from_iterator(corpus, tokenizers.trainers.BpeTrainer(
        vocab_size=2400, show_progress=False))
    learned = json.loads(t.to_str())["model"]
    merges = [m.split(" ") if isinstance(m, str) else m
              for m in learned["merges"]]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    made = list(dict.fromkeys(a + b for a, b in merges))
    chars = sorted(c for c in learned["vocab"] if len(c) == 1)
    doc["model"]["vocab"] = {
        s: i for i, s in enumerate(dict.fromkeys(tokens + made + chars))}
    doc["model"]["merges"] = [f"{a} {b}" for a, b in merges]
    return doc


def write_configs(directory, doc, bos, eos):
    ids = {a["content"]: a["id"] for a in doc["added_tokens"]}
    os.makedirs(directory, exist_ok=True)
    write_json(f"{directory}/tokenizer.json", doc)
    write_json(f"{directory}/tokenizer_config.json",
               {"bos_token": {"content": bos}, "eos_token": eos,
                "model_max_length": 10**30,
                "tokenizer_class": "PreTrainedTokenizerFast"})
    write_json(f"{directory}/generation_config.json",
               {"eos_token_id": [ids[eos], 0]})


def write_gguf(path, doc, model, pre, bos, eos, byte_tokens):
    vocab = doc["model"]["vocab"]
    special = {a["content"]: a["id"] for a in doc["added_tokens"]}
    by_id = {i: s for s, i in {**vocab, **special}.items()}
    tokens = [by_id[i] for i in range(len(by_id))]
    kind = gguf.TokenType
    types = [kind.UNKNOWN if t == "<unk>" else
             kind.CONTROL if t in special else
             kind.BYTE if byte_tokens and t.startswith("<0x") else
             kind.NORMAL for t in tokens]
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model(model)
    w.add_token_list(tokens)
    w.add_token_types(types)
    if pre:
        w.add_tokenizer_pre(pre)
        w.add_token_merges(doc["model"]["merges"])
    else:
        # a SentencePiece score is minus the rank at which a token was made
        rank = {}
        for i, m in enumerate(doc["model"]["merges"]):
            rank.setdefault(m.replace(" ", ""), i)
        w.add_token_scores([0.0 if k != kind.NORMAL else
                            -float(rank.get(t, 1e6))
                            for t, k in zip(tokens, types)])
        w.add_unk_token_id(special["<unk>"])
    w.add_bos_token_id(special[bos])
    w.add_eos_token_id(special[eos])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def smollm2(path):
    """The demo model's tokenizer as its own tokenizer.json spells it."""
    r = gguf.GGUFReader(path)
    get = lambda k: r.fields["tokenizer.ggml." + k].contents()
    tokens, types = get("tokens"), get("token_type")
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"),
                          False)
    return {
        "version": "1.0", "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": i, "content": t, "special": True, **flags}
                         for i, t in enumerate(tokens) if types[i] == 3],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False,
             "trim_offsets": True, "use_regex": True}]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True,
                    "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)},
                  "merges": get("merges")},
    }


def llama_variants(doc):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False,
                  "trim_offsets": True, "use_regex": False}

    def split(pattern, behavior, invert=False):
        return {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": pattern, "behavior": behavior,
             "invert": invert}, byte_level]}
    regex = doc["pre_tokenizer"]["pretokenizers"][0]["pattern"]
    n = len(doc["model"]["vocab"])
    flag = lambda content, special=True, **kw: {
        "content": content, "single_word": False, "lstrip": False,
        "rstrip": False, "normalized": False, "special": special, **kw}
    # the library numbers added tokens without gaps: white space comes first
    blank = [flag("\t\t", special=False), flag("    ", special=False),
             flag("<x>"), flag("<y>", special=False)]
    added = [flag("<l>", lstrip=True), flag("<r>", rstrip=True),
             flag("<lr>", lstrip=True, rstrip=True),
             flag("zork", special=False, single_word=True),
             flag("<n>", special=False, normalized=True), flag("<|a|>"),
             flag("<|a|>b", special=False)]
    for tokens in added, blank:
        for i, a in enumerate(tokens):
            a["id"] = n + i
    return {
        "blank": {"added_tokens": blank, "post_processor": None},
        "flags": {"added_tokens": added, "post_processor": None},
        "gpt2": {"pre_tokenizer": {**byte_level, "use_regex": True,
                                   "add_prefix_space": True},
                 "model": {"ignore_merges": False}},
        "digits": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": False},
            {**byte_level, "use_regex": True}]}},
        "removed": {"pre_tokenizer": split(regex, "Removed", True)},
        "gaps": {"pre_tokenizer": split({"String": "."}, "Removed")},
        "previous": {"pre_tokenizer": split({"String": " "},
                                            "MergedWithPrevious")},
        "next": {"pre_tokenizer": split({"Regex": "\\d|\\w\\s"},
                                        "MergedWithNext")},
        "gpt4o": {"pre_tokenizer": split({"Regex":
            "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"
            "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
            "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
            "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
            "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|"
            "\\s+(?!\\S)|\\s+"}, "Isolated")},
    }


def spm_variants():
    def meta(scheme, split):
        m = {"type": "Metaspace", "replacement": "▁",
             "prepend_scheme": scheme, "split": split}
        return {"normalizer": None, "pre_tokenizer": m, "decoder": m}
    return {
        "meta_first": meta("first", False),
        "meta_always": meta("always", True),
        "meta_never": meta("never", False),
        "unk": {"model": {"byte_fallback": False}},
        "unk_each": {"model": {"byte_fallback": False, "fuse_unk": False}},
    }


def main():
    shared, model, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    data = unzst(f"{shared}/qwen3/tokenizer.json.zst")
    subprocess.run(["zstd", "-19", "-q", "-f",
                    f"--stream-size={len(data)}", "-o",
                    f"{out}/qwen3.json.zst"],
                   input=data, check=True)
    record(out, "qwen3", "qwen3.json.zst", json.loads(data))

    doc = cut_llama3(json.loads(unzst(
        f"{shared}/llama3_1/tokenizer.json.zst")), json.loads(data))
    bos, eos = "<|begin_of_text|>", "<|eot_id|>"
    write_configs(f"{out}/llama3_like", doc, bos, eos)
    write_gguf(f"{out}/llama3_like.gguf", doc, "gpt2", "llama-bpe", bos, eos,
               False)
    record(out, "llama3_like", "llama3_like", doc)
    for name, patch in llama_variants(doc).items():
        record(out, "llama3_" + name, "llama3_like", doc, patch,
               1 if name in ("flags", "blank") else 4)

    top = os.path.dirname(os.path.abspath(__file__)) + "/../.."
    corpus = [open(f"{top}/{name}", encoding="utf-8").read() for name in
              ("README.md", "examples/knowledge.txt",
               "examples/docs/time.md")] + texts([])
    # neither NUL nor the names of byte tokens may become vocabulary
    corpus = ["".join(c if c.isprintable() and c != "<" else " " for c in t)
              for t in corpus]
    doc = learn_spm(json.loads(unzst(
        f"{shared}/mistral_spm/tokenizer.json.zst")), corpus)
    write_configs(f"{out}/spm_like", doc, "<s>", "</s>")
    write_gguf(f"{out}/spm_like.gguf", doc, "llama", None, "<s>", "</s>",
               True)
    record(out, "spm_like", "spm_like", doc)
    for name, patch in spm_variants().items():
        record(out, "spm_" + name, "spm_like", doc, patch, 4)

    record(out, "smollm2", "models/SmolLM2-135M-Instruct.Q4_1.gguf",
           smollm2(model))


if __name__ == "__main__":
    main()
