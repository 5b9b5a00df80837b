"""golden_mutate.py - deliberate mistakes, and how far each moves the recorded
logits: the table of tests/golden/README.md."""

import contextlib
import json
import os

import torch
from transformers.models.llama import modeling_llama
from transformers.models.qwen3 import modeling_qwen3

from golden_gguf import permute
from golden_model import make_weights, specs
from golden_oracle import (EAGER, PROMPT_LENGTHS, attention_f16, golden_ids,
                           model_of_values, set_attention)


def mask_at(nq, nk, rule):
    """Positions [q, k] for which rule(q_pos, k_pos) holds."""
    q = torch.arange(nk - nq, nk)[:, None]
    k = torch.arange(nk)[None, :]
    return rule(q, k)


def attention_with(edit):
    def fn(module, query, key, value, mask, *a, **kw):
        query, key, value, mask = edit(module, query, key, value, mask)
        return EAGER(module, query, key.half().float(), value.half().float(),
                     mask, *a, **kw)
    return fn


def hide(rule):
    def edit(module, q, k, v, mask):
        nq, nk = q.shape[2], k.shape[2]
        if mask is None:
            mask = torch.zeros(1, 1, nq, nk)
        m = mask[..., :nk].clone()
        m.masked_fill_(mask_at(nq, nk, rule), torch.finfo(m.dtype).min)
        return q, k, v, m
    return attention_with(edit)


def show(rule):
    def edit(module, q, k, v, mask):
        nq, nk = q.shape[2], k.shape[2]
        if mask is None:
            return q, k, v, mask
        m = mask[..., :nk].clone()
        m.masked_fill_(mask_at(nq, nk, rule), 0.0)
        return q, k, v, m
    return attention_with(edit)


def wrong_group(module, q, k, v, mask):
    """Head h reads KV head h % n_kv instead of h / group."""
    n_head, n_kv = q.shape[1], k.shape[1]
    order = torch.argsort(torch.arange(n_head) % n_kv, stable=True)
    return q[:, order], k, v, mask


def bad_scale(module, q, k, v, mask):
    cfg = module.config
    f = (cfg.hidden_size / cfg.num_attention_heads / module.head_dim) ** -0.5
    return q * f, k, v, mask


def patched(module, name, fn):
    class Patch:
        def __enter__(self):
            self.old = getattr(module, name)
            setattr(module, name, fn(self.old))

        def __exit__(self, *a):
            setattr(module, name, self.old)
    return Patch()


def mutate_values(s, w, what):
    w = {k: v.copy() for k, v in w.items()}
    for k in w:
        if what == "perm" and k.endswith("q_proj.weight"):
            w[k] = permute(w[k], s["n_head"])
        if what == "perm" and k.endswith("k_proj.weight"):
            w[k] = permute(w[k], s["n_kv"])
        if what == "perm k only" and k.endswith("k_proj.weight"):
            w[k] = permute(w[k], s["n_kv"])
        if what == "perm bias" and k.endswith("k_proj.bias"):
            w[k] = permute(w[k], s["n_kv"])
        if what == "no k bias" and k.endswith("k_proj.bias"):
            w[k][:] = 0
        if what == "no o bias" and k.endswith("o_proj.bias"):
            w[k][:] = 0
        if what == "q norm weight" and k.endswith("q_norm.weight"):
            w[k][:] = 1
        if what == "k norm weight" and k.endswith("k_norm.weight"):
            w[k][:] = 1
        if what == "lost channel" and k.endswith("0.mlp.down_proj.weight"):
            w[k][:, -1] = 0
        if what == "embedding as head" and k == "lm_head.weight":
            w[k] = w["model.embed_tokens.weight"]
    return w


def interleaved(old):
    def fn(q, k, cos, sin, unsqueeze_dim=1):
        def swap(x):
            h = x.shape[-1] // 2
            return x.reshape(*x.shape[:-1], h, 2).transpose(-1, -2).reshape(x.shape)
        return old(swap(q), swap(k), cos, sin, unsqueeze_dim)
    return fn


def shifted_positions(first):
    def wrap(old):
        def fwd(self, x, position_ids, *a, **kw):
            return old(self, x, position_ids + (position_ids >= first).long(), *a, **kw)
        return fwd
    return wrap


def no_q_norm():
    """Qwen3 attention whose q_norm does nothing: k_norm is as it was."""
    def wrap(old):
        def init(self, config, layer_idx):
            old(self, config, layer_idx)
            self.q_norm.forward = lambda x: x
        return init
    return patched(modeling_qwen3.Qwen3Attention, "__init__", wrap)


def mutations(out):
    """A table for the README: model, mistake, prompts caught, how far."""
    byname = {s["name"]: s for s in specs()}
    tol = 0.002

    def run(name, label, values=None, attention=attention_f16, change=None,
            patch=None):
        s = byname[name]
        with open(os.path.join(out, "logits", name + ".json"), encoding="utf-8") as f:
            gold = json.load(f)
        s2 = dict(s, **(change or {}))
        w = make_weights(s)
        ids = golden_ids(max(PROMPT_LENGTHS), gold["n_vocab"])
        set_attention(attention)
        worst, caught = 0.0, []
        with torch.no_grad(), patch or contextlib.nullcontext():
            m = model_of_values(s2, mutate_values(s, w, values) if values else w)
            lg = m(torch.tensor([ids])).logits[0]
        set_attention(EAGER)
        for p in gold["prompts"]:
            d = max(abs(float(lg[p["n"] - 1, i]) - v)
                    for i, v in p["f16"]["top"] + p["f16"]["fixed"])
            worst = max(worst, d)
            if d > tol:
                caught.append(p["n"])
        print("| %s | %s | %d of %d%s | %.3g |" % (
            name, label, len(caught), len(gold["prompts"]),
            " (from %d)" % caught[0] if caught else "", worst))

    print("| model | mistake | prompts off by more than %g | largest |" % tol)
    print("|---|---|---|---|")
    for n in ("llama", "qwen3", "mistral"):
        run(n, "none (noise of this measurement)")
        run(n, "K and V not rounded to f16", attention=EAGER)
    run("llama", "key 63 lost for later tiles", attention=hide(
        lambda q, k: (k == 63) & (q >= 64)))
    run("llama", "last key of every full tile lost", attention=hide(
        lambda q, k: (k % 64 == 63) & (k // 64 < q // 64)))
    run("llama", "first key of a tile invisible to its own row", attention=hide(
        lambda q, k: (k % 64 == 0) & (k == q) & (q > 0)))
    run("llama", "a row sees one key of the future inside its tile", attention=show(
        lambda q, k: (k == q + 1) & (k // 64 == q // 64)))
    run("llama", "key 1023 lost behind the span border", attention=hide(
        lambda q, k: (k == 1023) & (q >= 1024)))
    run("llama3", "key 1023 lost behind the span border", attention=hide(
        lambda q, k: (k == 1023) & (q >= 1024)))
    run("llama-linear", "key 1024 lost behind the span border", attention=hide(
        lambda q, k: (k == 1024) & (q > 1024)))
    run("mistral", "span 0 lost for rows of span 1", attention=hide(
        lambda q, k: (k < 1024) & (q >= 1024)))
    run("mistral", "a window of 1024 applied", attention=hide(
        lambda q, k: k <= q - 1024))
    run("llama", "eps 1e-5 instead of 2e-3", change={"eps": 1e-5})
    run("qwen3", "eps 1e-6 instead of 5e-4", change={"eps": 1e-6})
    run("qwen3", "q norm left out", patch=no_q_norm())
    run("qwen3", "k norm weight left out", values="k norm weight")
    run("qwen3-tied", "q norm weight left out", values="q norm weight")
    run("llama", "rows of Wq and Wk taken as stored in GGUF", values="perm")
    run("llama", "rows of Wk alone taken as stored", values="perm k only")
    run("llama", "channels rotated in neighbouring pairs",
        patch=patched(modeling_llama, "apply_rotary_pos_emb", interleaved))
    run("llama", "positions one too high from token 64 on", patch=patched(
        modeling_llama.LlamaRotaryEmbedding, "forward", shifted_positions(64)))
    run("llama3", "positions one too high from token 1024 on", patch=patched(
        modeling_llama.LlamaRotaryEmbedding, "forward", shifted_positions(1024)))
    run("llama3", "llama3 scaling ignored", change={"rope": None})
    run("llama3", "llama3 scaling with factor 8", change={
        "rope": dict(byname["llama3"]["rope"], factor=8.0)})
    run("llama3", "scores scaled by d_model / n_head", attention=attention_with(bad_scale))
    run("llama-yarn", "yarn ignored", change={"rope": None})
    run("llama-yarn", "yarn without its factor on cos and sin", change={
        "rope": dict(byname["llama-yarn"]["rope"], attention_factor=1.0)})
    run("llama-linear", "linear scaling ignored", change={"rope": None})
    run("llama-bias", "K bias not un-permuted", values="perm bias")
    run("llama-bias", "output bias left out", values="no o bias")
    run("qwen2", "K bias left out", values="no k bias")
    run("mistral", "heads h % n_kv instead of h / group",
        attention=attention_with(wrong_group))
    run("llama", "last channel of d_ff lost in layer 0", values="lost channel")
    run("llama", "embedding used as output matrix", values="embedding as head")
    run("llama", "rope theta 500000 instead of 10000", change={"theta": 500000.0})
