"""golden_model.py - the tiny models of make_golden.py: shapes, config.json,
weights from fixed seeds, and the directories transformers reads.

Weights are rounded to values that bfloat16 and float16 both hold, so a
model's BF16, F16 and F32 containers share one golden.
"""

import json
import math
import os
import shutil

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from golden_tok import QWEN2_TEMPLATE, QWEN3_TEMPLATE, tok_llama3, tok_qwen, tok_smollm, tok_spm


def spec(name, arch, tok, *, d_model, d_ff, n_head, n_kv, d_head, n_layer=2,
         n_vocab=None, tied=False, eps=1e-3, theta=10000.0, rope=None,
         bias=False, hf="bf16", shards=1, gguf=("F32",), seed=1, full_f32=False,
         new_rope_style=False, head_copy=False, n_ctx=8192):
    return dict(locals())


def specs():
    smol, l3, spm = tok_smollm(), tok_llama3(), tok_spm()
    q2, q3 = tok_qwen(QWEN2_TEMPLATE), tok_qwen(QWEN3_TEMPLATE)
    return [
        # d_model 96 and d_ff 160: 3 and 5 blocks of 32, one KV head
        spec("llama", "llama", smol, d_model=96, d_ff=160, n_head=3, n_kv=1,
             d_head=32, eps=2e-3, hf="bf16", shards=2, seed=11,
             gguf=("F32", "F16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")),
        # own head size of 80, llama3 scaling as Llama 3.2 has it
        spec("llama3", "llama", l3, d_model=64, d_ff=96, n_head=2, n_kv=2,
             d_head=80, tied=True, theta=500000.0, hf="bf16", seed=12,
             gguf=("F16",),
             rope={"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 64}),
        spec("llama-yarn", "llama", smol, d_model=64, d_ff=96, n_head=4, n_kv=2,
             d_head=32, tied=True, hf="f32", full_f32=True, seed=13,
             rope={"rope_type": "yarn", "factor": 4.0,
                   "original_max_position_embeddings": 512}, new_rope_style=True),
        spec("llama-linear", "llama", smol, d_model=64, d_ff=96, n_head=2, n_kv=1,
             d_head=32, hf="f16", seed=14, gguf=("F16",),
             rope={"type": "linear", "factor": 2.5}),
        spec("llama-bias", "llama", smol, d_model=64, d_ff=96, n_head=2, n_kv=1,
             d_head=32, tied=True, bias=True, hf="bf16", seed=15, gguf=("BF16",)),
        # padded vocabulary, as Qwen has it
        spec("qwen2", "qwen2", q2, d_model=128, d_ff=96, n_head=2, n_kv=1,
             d_head=64, n_vocab=336, tied=True, theta=1000000.0, hf="bf16", seed=16,
             gguf=("F16",)),
        spec("qwen3", "qwen3", q3, d_model=64, d_ff=96, n_head=3, n_kv=3,
             d_head=128, n_vocab=344, theta=1000000.0, eps=5e-4, hf="bf16", seed=17,
             gguf=("F16",)),
        # tied, yet with a copy of the embedding as lm_head, as Qwen3-0.6B has it
        spec("qwen3-tied", "qwen3", q3, d_model=64, d_ff=64, n_head=4, n_kv=2,
             d_head=64, n_vocab=344, tied=True, theta=1000000.0, hf="f32",
             full_f32=True, seed=18, new_rope_style=True, head_copy=True),
        spec("mistral", "mistral", spm, d_model=64, d_ff=96, n_head=6, n_kv=3,
             d_head=32, n_layer=3, hf="bf16", seed=19, gguf=("F16",)),
        # every legacy type in one file, d_model 320 = 10 blocks, d_ff 544 = 17
        spec("llama-mix", "llama", smol, d_model=320, d_ff=544, n_head=5, n_kv=1,
             d_head=64, tied=True, hf=None, gguf=("MIX",), seed=20),
        spec("llama-k", "llama", smol, d_model=256, d_ff=512, n_head=4, n_kv=1,
             d_head=64, tied=True, hf=None, gguf=("Q4_K", "Q56_K"), seed=21),
    ]


HF_ARCH = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM",
           "qwen3": "Qwen3ForCausalLM", "mistral": "MistralForCausalLM"}
TORCH_DTYPE = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def config_json(s):
    tk = s["tok"]
    eos = tk.tok.token_to_id(tk.eos)
    bos = tk.tok.token_to_id(tk.bos) if tk.bos else None
    c = {
        "architectures": [HF_ARCH[s["arch"]]],
        "model_type": s["arch"],
        "hidden_size": s["d_model"],
        "intermediate_size": s["d_ff"],
        "num_hidden_layers": s["n_layer"],
        "num_attention_heads": s["n_head"],
        "num_key_value_heads": s["n_kv"],
        "vocab_size": s["n_vocab"] or tk.n,
        "max_position_embeddings": s["n_ctx"],
        "rms_norm_eps": s["eps"],
        "hidden_act": "silu",
        "tie_word_embeddings": s["tied"],
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
        "bos_token_id": bos,
        "eos_token_id": eos,
        "torch_dtype": TORCH_DTYPE[s["hf"] or "f32"],
        "transformers_version": transformers.__version__,
    }
    if s["arch"] == "llama":
        c["attention_bias"] = s["bias"]
        c["mlp_bias"] = False
    if s["arch"] == "qwen3":
        c["attention_bias"] = False
    if s["arch"] in ("qwen2", "qwen3"):
        c.update(use_sliding_window=False, sliding_window=None,
                 max_window_layers=s["n_layer"])
    if s["arch"] == "mistral":
        c["sliding_window"] = None
    if s["d_head"] * s["n_head"] != s["d_model"] or s["arch"] == "qwen3":
        c["head_dim"] = s["d_head"]
    if s["new_rope_style"]:
        c["rope_parameters"] = dict({"rope_type": "default"}, **(s["rope"] or {}),
                                    rope_theta=s["theta"])
        c["dtype"] = c.pop("torch_dtype")
    else:
        c["rope_theta"] = s["theta"]
        c["rope_scaling"] = s["rope"]
    return c


def both_halves(x):
    """Nearest value that bfloat16 and float16 both hold."""
    x = torch.tensor(np.ascontiguousarray(x), dtype=torch.float32)
    x = x.to(torch.bfloat16).to(torch.float32)
    x[x.abs() < 2.0**-15] = 0.0
    assert torch.equal(x, x.half().float())
    return x.numpy()


def make_weights(s):
    """HF names -> f32 arrays.  Gains are chosen so that attention is peaked
    (scores with a standard deviation of about 2.5) and logits spread."""
    rng = np.random.Generator(np.random.PCG64(s["seed"]))
    d, ff, dh = s["d_model"], s["d_ff"], s["d_head"]
    nq, nk = s["n_head"] * dh, s["n_kv"] * dh
    n_vocab = s["n_vocab"] or s["tok"].n
    w = {}

    def mat(name, n_out, d_in, gain):
        w[name] = rng.standard_normal((n_out, d_in)) * (gain / math.sqrt(d_in))

    def vec(name, n, mean, std):
        w[name] = mean + std * rng.standard_normal(n)

    # a tied head would mostly repeat the last token if the embedding were as
    # large as what the layers add to it: small embedding, large last norm
    mat("model.embed_tokens.weight", n_vocab, d, 0.7 if s["tied"] else 3.0)
    for i in range(s["n_layer"]):
        p = "model.layers.%d." % i
        vec(p + "input_layernorm.weight", d, 1.0, 0.15)
        mat(p + "self_attn.q_proj.weight", nq, d, 1.6)
        mat(p + "self_attn.k_proj.weight", nk, d, 1.6)
        mat(p + "self_attn.v_proj.weight", nk, d, 1.0)
        mat(p + "self_attn.o_proj.weight", d, nq, 0.8)
        if s["arch"] == "qwen2" or s["bias"]:
            vec(p + "self_attn.q_proj.bias", nq, 0.0, 0.4)
            vec(p + "self_attn.k_proj.bias", nk, 0.0, 0.4)
            vec(p + "self_attn.v_proj.bias", nk, 0.0, 0.15)
        if s["bias"]:
            vec(p + "self_attn.o_proj.bias", d, 0.0, 0.1)
        if s["arch"] == "qwen3":
            vec(p + "self_attn.q_norm.weight", dh, 1.5, 0.4)
            vec(p + "self_attn.k_norm.weight", dh, 1.5, 0.4)
        vec(p + "post_attention_layernorm.weight", d, 1.0, 0.15)
        mat(p + "mlp.gate_proj.weight", ff, d, 1.2)
        mat(p + "mlp.up_proj.weight", ff, d, 1.0)
        mat(p + "mlp.down_proj.weight", d, ff, 0.9)
    vec("model.norm.weight", d, 4.0 if s["tied"] else 1.0, 0.15)
    if not s["tied"]:
        mat("lm_head.weight", n_vocab, d, 3.0)
    for k, v in w.items():
        v = v.astype(np.float32)
        w[k] = v if s["full_f32"] else both_halves(v)
    return w


def write_json(path, obj):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(obj, f, ensure_ascii=False, indent=1)
        f.write("\n")


def write_hf(s, w, out):
    d = os.path.join(out, "models", s["name"])
    shutil.rmtree(d, ignore_errors=True)
    os.makedirs(d)
    c = config_json(s)
    write_json(os.path.join(d, "config.json"), c)
    write_json(os.path.join(d, "generation_config.json"),
               {"bos_token_id": c["bos_token_id"], "eos_token_id": eos_list(s),
                "do_sample": False, "transformers_version": transformers.__version__})
    tk = s["tok"]
    # one directory has its merges as "a b", the older way
    write_json(os.path.join(d, "tokenizer.json"), tk.json(s["arch"] == "qwen2"))
    write_json(os.path.join(d, "tokenizer_config.json"), {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tk.bos, "eos_token": tk.eos, "add_bos_token": tk.bos is not None,
        "clean_up_tokenization_spaces": False, "model_max_length": s["n_ctx"],
        "chat_template": tk.template})
    dt = getattr(torch, TORCH_DTYPE[s["hf"]])
    t = {k: torch.from_numpy(v).to(dt).contiguous() for k, v in w.items()}
    if s["head_copy"]:
        t["lm_head.weight"] = t["model.embed_tokens.weight"].clone()
    if s["shards"] == 1:
        save_file(t, os.path.join(d, "model.safetensors"), metadata={"format": "pt"})
        return d
    names = list(t)
    per = -(-len(names) // s["shards"])
    index, total = {}, 0
    for i in range(s["shards"]):
        part = {k: t[k] for k in names[i * per:(i + 1) * per]}
        fn = "model-%05d-of-%05d.safetensors" % (i + 1, s["shards"])
        save_file(part, os.path.join(d, fn), metadata={"format": "pt"})
        for k, v in part.items():
            index[k] = fn
            total += v.numel() * v.element_size()
    write_json(os.path.join(d, "model.safetensors.index.json"),
               {"metadata": {"total_size": total},
                "weight_map": dict(sorted(index.items()))})
    return d


def eos_list(s):
    tk = s["tok"]
    ids = [tk.tok.token_to_id(tk.eos)]
    for t in ("<|endoftext|>", "<|end_of_text|>"):
        if t in tk.special and tk.tok.token_to_id(t) not in ids:
            ids.append(tk.tok.token_to_id(t))
    return ids if len(ids) > 1 else ids[0]
