#!/usr/bin/env python3
"""models.py - model files for run.py, made from what is at hand.

    models.py demo MODEL.gguf OUT.gguf --type Q8_0|BF16|F16
    models.py qwen3-0.6b OUT.gguf --type Q8_0|BF16|F16

demo    the same model with its matrices in another weight type
qwen3-0.6b
        random weights in the shape of Qwen3-0.6B, with Qwen3's tokenizer (from
        tests/golden/tok): speed does not depend on what the weights say, and
        nothing needs to be downloaded

Needs numpy, gguf and, for qwen3-0.6b, the zstd program.
"""
import argparse
import json
import os
import subprocess

import gguf
import numpy as np
from gguf import GGMLQuantizationType as QT
from gguf import quants

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENIZER = os.path.join(HERE, "../../golden/tok/qwen3.json.zst")
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n'"
    " + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
FILE_TYPE = {
    "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
    "BF16": gguf.LlamaFileType.MOSTLY_BF16,
    "F16": gguf.LlamaFileType.MOSTLY_F16,
}


def add_matrix(w, name, data, kind):
    w.add_tensor(name, quants.quantize(data, QT[kind]), raw_dtype=QT[kind])


def copy_fields(w, reader):
    for f in reader.fields.values():
        if f.name.startswith("GGUF.") or f.name in (
                "general.architecture", "general.file_type",
                "general.quantization_version"):
            continue
        kind = f.types[0]
        sub = f.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        w.add_key_value(f.name, f.contents(), kind, sub_type=sub)


def demo(o):
    reader = gguf.GGUFReader(o.model)
    arch = reader.fields["general.architecture"].contents()
    w = gguf.GGUFWriter(o.out, arch)
    copy_fields(w, reader)
    w.add_file_type(FILE_TYPE[o.type])
    w.add_quantization_version(2)
    for t in reader.tensors:
        data = quants.dequantize(t.data, t.tensor_type)
        if len(t.shape) == 2:
            add_matrix(w, t.name, data, o.type)
        else:
            w.add_tensor(t.name, data.astype(np.float32))
    return w


def add_tokenizer(w, n_vocab):
    raw = subprocess.run(["zstd", "-qdc", TOKENIZER], check=True,
                         stdout=subprocess.PIPE).stdout
    t = json.loads(raw)
    tokens = [f"[PAD{i}]" for i in range(n_vocab)]
    kinds = [int(gguf.TokenType.UNUSED)] * n_vocab
    for text, i in t["model"]["vocab"].items():
        tokens[i], kinds[i] = text, int(gguf.TokenType.NORMAL)
    for a in t["added_tokens"]:
        tokens[a["id"]] = a["content"]
        kinds[a["id"]] = int(gguf.TokenType.CONTROL if a["special"]
                             else gguf.TokenType.USER_DEFINED)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens)
    w.add_token_types(kinds)
    w.add_token_merges([m if isinstance(m, str) else " ".join(m)
                        for m in t["model"]["merges"]])
    w.add_eos_token_id(151645)
    w.add_pad_token_id(151643)
    w.add_add_bos_token(False)
    w.add_chat_template(CHATML)


def qwen3(o):
    n_layer, d, d_ff, n_head, n_kv, d_head, n_vocab = (
        28, 1024, 3072, 16, 8, 128, 151936)
    rng = np.random.default_rng(20261129)

    def matrix(rows, cols):
        m = rng.standard_normal((rows, cols), dtype=np.float32)
        return m * np.float32(0.02)

    w = gguf.GGUFWriter(o.out, "qwen3")
    w.add_name("qwen3-0.6b shape, random weights")
    w.add_block_count(n_layer)
    w.add_context_length(40960)
    w.add_embedding_length(d)
    w.add_feed_forward_length(d_ff)
    w.add_head_count(n_head)
    w.add_head_count_kv(n_kv)
    w.add_key_length(d_head)
    w.add_value_length(d_head)
    w.add_rope_freq_base(1e6)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_file_type(FILE_TYPE[o.type])
    w.add_quantization_version(2)
    add_tokenizer(w, n_vocab)
    add_matrix(w, "token_embd.weight", matrix(n_vocab, d), o.type)
    w.add_tensor("output_norm.weight", np.ones(d, np.float32))
    for i in range(n_layer):
        b = f"blk.{i}."
        w.add_tensor(b + "attn_norm.weight", np.ones(d, np.float32))
        w.add_tensor(b + "ffn_norm.weight", np.ones(d, np.float32))
        w.add_tensor(b + "attn_q_norm.weight", np.ones(d_head, np.float32))
        w.add_tensor(b + "attn_k_norm.weight", np.ones(d_head, np.float32))
        for name, rows, cols in (("attn_q", n_head * d_head, d),
                                 ("attn_k", n_kv * d_head, d),
                                 ("attn_v", n_kv * d_head, d),
                                 ("attn_output", d, n_head * d_head),
                                 ("ffn_gate", d_ff, d), ("ffn_up", d_ff, d),
                                 ("ffn_down", d, d_ff)):
            add_matrix(w, b + name + ".weight", matrix(rows, cols), o.type)
    return w


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sub = p.add_subparsers(dest="what", required=True)
    s = sub.add_parser("demo")
    s.add_argument("model")
    for s in (s, sub.add_parser("qwen3-0.6b")):
        s.add_argument("out")
        s.add_argument("--type", choices=sorted(FILE_TYPE), default="Q8_0")
    o = p.parse_args()
    w = demo(o) if o.what == "demo" else qwen3(o)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
