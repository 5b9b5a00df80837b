#!/usr/bin/env python3
"""Write the bad model files of tests/golden/bad, and seeds for the fuzzers.

    python3 tests/tools/make_bad_models.py

Writes tests/golden/bad/{gguf,st,config}-*: each with a .msg that holds what
the reader's message must contain, and small sound and unsound seeds in
tests/fuzz/corpus/{gguf,safetensors,config}.  Only the standard library.
"""
import json
import os
import struct

BAD = "tests/golden/bad"
SEED = "tests/fuzz/corpus"
U32, F32, BOOL, STR, ARRAY, U64 = 4, 6, 7, 8, 9, 10


def s(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw)) + raw


def kv(key, kind, value):
    if kind == STR:
        body = s(value)
    elif kind == ARRAY:
        body = struct.pack("<IQ", STR, len(value)) + b"".join(map(s, value))
    else:
        body = struct.pack({U32: "<I", F32: "<f", BOOL: "<B", U64: "<Q"}[kind],
                           value)
    return s(key) + struct.pack("<I", kind) + body


def entry(name, dims, kind=0, off=0, n_dims=None):
    return (s(name) + struct.pack("<I", len(dims) if n_dims is None else n_dims)
            + b"".join(struct.pack("<Q", d) for d in dims)
            + struct.pack("<IQ", kind, off))


def gguf(kvs, entries, data=b"", version=3, n_kv=None, n_tensor=None,
         align=32):
    head = b"GGUF" + struct.pack("<IQQ", version,
                                 len(entries) if n_tensor is None else n_tensor,
                                 len(kvs) if n_kv is None else n_kv)
    head += b"".join(kvs) + b"".join(entries)
    return head + bytes(-len(head) % align) + data


def model(arch="llama", extra=(), drop=(), reshape={}, more=()):
    kvs = [kv("general.architecture", STR, arch),
           kv(arch + ".block_count", U32, 1),
           kv(arch + ".context_length", U32, 128),
           kv(arch + ".embedding_length", U32, 32),
           kv(arch + ".feed_forward_length", U32, 32),
           kv(arch + ".attention.head_count", U32, 2),
           kv(arch + ".attention.head_count_kv", U32, 1),
           kv(arch + ".attention.layer_norm_rms_epsilon", F32, 1e-5),
           kv("tokenizer.ggml.tokens", ARRAY, ["a", "b"])] + list(extra)
    shapes = {"token_embd.weight": (32, 2), "output_norm.weight": (32,),
              "blk.0.attn_norm.weight": (32,), "blk.0.ffn_norm.weight": (32,),
              "blk.0.attn_q.weight": (32, 32), "blk.0.attn_k.weight": (32, 16),
              "blk.0.attn_v.weight": (32, 16),
              "blk.0.attn_output.weight": (32, 32),
              "blk.0.ffn_gate.weight": (32, 32),
              "blk.0.ffn_up.weight": (32, 32),
              "blk.0.ffn_down.weight": (32, 32)}
    shapes.update(reshape)
    shapes.update(more)
    entries, off = [], 0
    for name, dims in shapes.items():
        if name in drop:
            continue
        n = 1
        for d in dims:
            n *= d
        matrix = len(dims) == 2 and dims[0] % 32 == 0
        entries.append(entry(name, dims, 2 if matrix else 0, off))
        off += n // 32 * 18 if matrix else 4 * n
        off += -off % 32
    return gguf(kvs, entries, bytes(off))


def st(tensors, data=b"", raw=None, length=None):
    head = raw if raw is not None else json.dumps(tensors).encode()
    return struct.pack("<Q", len(head) if length is None else length) + head \
        + data


def t(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


LFS = (b"version https://git-lfs.github.com/spec/v1\noid sha256:"
       b"4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
       b"size 98362432\n")
ARCH = kv("general.architecture", STR, "llama")
good = model()

bad_gguf = {
    "only-magic": (b"GGUF", "ends inside the GGUF header"),
    "git-lfs": (LFS, "a Git-LFS pointer (run 'git lfs pull'"),
    "safetensors": (st({"a": t("F32", [1], 0, 4)}, bytes(4)),
                    "not a GGUF model but a safetensors file"),
    "kvc": (b"\x89KVC\r\n\x1a\n" + bytes(56), "a .kvc cache"),
    "html": (b"<!DOCTYPE html><html>404", "an HTML page"),
    "version-1": (gguf([ARCH], [], version=1), "GGUF version 1"),
    "big-endian": (gguf([ARCH], [], version=0x03000000), "big-endian"),
    "n-tensors": (gguf([ARCH], [], n_tensor=1 << 60), "n_tensors"),
    "n-kv": (gguf([ARCH], [], n_kv=1 << 61), "n_kv"),
    "key-length": (gguf([struct.pack("<Q", 1 << 63) + b"abcdefghij"], []),
                   "key is 9223372036854775808 bytes long"),
    "string-length": (gguf([s("k") + struct.pack("<IQ", STR, 1 << 30)], []),
                      "string value is 1073741824 bytes long"),
    "array-length": (gguf([s("k") + struct.pack("<IIQ", ARRAY, 0, 1 << 40)],
                          []), "key k: 1099511627776 values of type u8"),
    "alignment-0": (gguf([kv("general.alignment", U32, 0)], []),
                    "general.alignment is 0, expected a power of two"),
    "alignment-24": (gguf([kv("general.alignment", U32, 24)], []),
                     "general.alignment is 24"),
    "alignment-string": (gguf([kv("general.alignment", STR, "32")], []),
                         "general.alignment is of type string"),
    "n-dims": (gguf([ARCH], [entry("w", [1] * 9)], bytes(64)), "n_dims"),
    "type": (gguf([ARCH], [entry("blk.0.w", [256], 10)], bytes(64)),
             "tensor blk.0.w has type 10 (Q2_K)"),
    "offset": (gguf([ARCH], [entry("w", [8], 0, 1 << 63)], bytes(32)),
               "the data of tensor w (32 bytes) lies beyond the end"),
    "one-byte-short": (gguf([ARCH], [entry("w", [8])], bytes(31)),
                       "the data of tensor w (32 bytes) lies beyond the end"),
    "overlap": (gguf([ARCH], [entry("v", [16]), entry("w", [16], 0, 32)],
                     bytes(96)), "tensor w overlaps another's"),
    "key-twice": (gguf([ARCH, ARCH], []),
                  "key general.architecture occurs twice"),
    "tensor-twice": (gguf([ARCH], [entry("w", [8]), entry("w", [8], 0, 32)],
                          bytes(64)), "tensor w occurs twice"),
    "arch": (model("gemma3"), 'general.architecture is "gemma3"'),
    "softcap": (model(extra=[kv("llama.attn_logit_softcapping", F32, 50)]),
                "key llama.attn_logit_softcapping"),
    "rope-type": (model(extra=[kv("llama.rope.scaling.type", STR,
                                  "longrope")]),
                  'key llama.rope.scaling.type is "longrope"'),
    "partial-rope": (model(extra=[kv("llama.rope.dimension_count", U32, 8)]),
                     "partial rotary"),
    "missing-tensor": (model(drop=["blk.0.ffn_up.weight"]),
                       "tensor blk.0.ffn_up.weight is missing"),
    "unused-tensor": (model(more={"blk.0.attn_q.bias2": (32,)}),
                      "tensor blk.0.attn_q.bias2 has no place"),
    "shape": (model(reshape={"blk.0.attn_k.weight": (32, 32)}),
              "blk.0.attn_k.weight has the shape [32, 32], expected [16, 32]"),
}

bad_st = {
    "git-lfs": (LFS, "a Git-LFS pointer (run 'git lfs pull'"),
    "gguf": (good[:64], "not a safetensors file but a GGUF model"),
    "length-huge": (st({}, length=(1 << 64) - 1), "limit is 100 MB"),
    "length-100mb": (st({}, length=100000001), "limit is 100 MB"),
    "length-file": (st({}, bytes(8), length=18), "a header of 18 bytes"),
    "length-0": (st({}, length=0), "begin with '{'"),
    "no-brace": (st(None, raw=b'{"a":{"dtype":"F32"'), ""),
    "reversed": (st({"w": t("F32", [2], 16, 8)}, bytes(16)),
                 "tensor w: data_offsets [16, 8] are reversed"),
    "negative": (st({"w": t("F32", [2], -8, 8)}, bytes(16)),
                 "tensor w: data_offsets are not two whole numbers"),
    "empty-span": (st({"w": t("F32", [2], 8, 8)}, bytes(16)),
                   "tensor w: data_offsets [8, 8] hold 0 bytes"),
    "beyond": (st({"w": t("F32", [2], 16, 24)}, bytes(16)), "tensor w"),
    "dtype": (st({"w": t("F64", [2], 0, 16)}, bytes(16)),
              "tensor w has dtype F64"),
    "overlap": (st({"v": t("F32", [2], 0, 8), "w": t("F32", [2], 4, 12)},
                   bytes(16)), "tensor w overlaps another's"),
}

base = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 100,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5}


def cfg(**more):
    return json.dumps({**base, **more}).encode()


bad_config = {
    "type": (cfg(model_type="bert"), 'model_type is "bert"'),
    "act": (cfg(hidden_act="gelu"), 'hidden_act is "gelu"'),
    "awq": (cfg(quantization_config={"quant_method": "awq"}),
            "key quantization_config"),
    "dynamic": (cfg(rope_scaling={"type": "dynamic", "factor": 2.0}),
                'rope_scaling.rope_type is "dynamic"'),
    "longrope": (cfg(rope_parameters={"rope_type": "longrope"}),
                 'rope_parameters.rope_type is "longrope"'),
    "window": (cfg(model_type="qwen2", sliding_window=64,
                   use_sliding_window=True, max_window_layers=1),
               "key max_window_layers: a sliding window in 1 of 2 layers"),
    "softcap": (cfg(attn_logit_softcapping=50.0), "attn_logit_softcapping"),
    "experts": (cfg(num_local_experts=8), "num_local_experts"),
    "heads": (cfg(num_key_value_heads=3), "groups of 3"),
    "missing": (json.dumps({"model_type": "llama"}).encode(),
                "num_hidden_layers"),
}

good_st = {
    "one": st({"__metadata__": {"format": "pt"},
               "a": t("BF16", [2, 3], 0, 12), "b": t("F32", [], 12, 16),
               "c": t("F16", [0, 4], 16, 16)}, bytes(16)),
    "unaligned": st(None, b"xyz!", raw=b'{"a":{"dtype":"F32","shape":[1],'
                                       b'"data_offsets":[0,4]}}'),
}
good_config = {
    "llama": cfg(),
    "llama3": cfg(rope_theta=500000.0, rope_scaling={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}),
    "qwen3": cfg(model_type="qwen3", head_dim=16, tie_word_embeddings=True,
                 sliding_window=None, use_sliding_window=False,
                 eos_token_id=[1, 2], layer_types=["full_attention"] * 2),
    "yarn": cfg(rope_parameters={"rope_type": "yarn", "factor": 4.0,
                                 "rope_theta": 1e6, "mscale": 1.0,
                                 "mscale_all_dim": 0.5, "beta_fast": 32,
                                 "original_max_position_embeddings": 1024,
                                 "truncate": False}),
}
good_gguf = {
    "llama": good,
    "qwen2": model("qwen2", more={"blk.0.attn_q.bias": (32,),
                                  "blk.0.attn_k.bias": (16,),
                                  "blk.0.attn_v.bias": (16,)}),
    "yarn": model(extra=[kv("llama.rope.scaling.type", STR, "yarn"),
                         kv("llama.rope.scaling.factor", F32, 4)]),
    "freqs": model(more={"rope_freqs.weight": (8,)}),
}


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


for kind, ext, cases, seeds, good_ones in (
        ("gguf", ".gguf", bad_gguf, "gguf", good_gguf),
        ("st", ".safetensors", bad_st, "safetensors", good_st),
        ("config", ".json", bad_config, "config", good_config)):
    for name, (data, msg) in cases.items():
        write("%s/%s-%s%s" % (BAD, kind, name, ext), data)
        write("%s/%s-%s.msg" % (BAD, kind, name), msg.encode() + b"\n")
        if len(data) < 1024:
            write("%s/%s/bad-%s" % (SEED, seeds, name), data)
    for name, data in good_ones.items():
        write("%s/%s/%s" % (SEED, seeds, name), data)
