"""golden_gguf.py - the GGUF containers of make_golden.py.

gguf-py quantizes the legacy types; the K types are quantized here (min-max
per sub-block: not the best fit, valid blocks) and checked by dequantizing
with gguf-py.
"""

import math
import os

import gguf
import numpy as np
from gguf import GGMLQuantizationType as QT
from gguf import TokenType


def f16_bytes(x):
    return np.ascontiguousarray(x.astype(np.float16)).view(np.uint8)


def fit_k45(x, qmax):
    """x [n, 8, 32] -> d, dmin [n], sc, m, q, all that Q4_K and Q5_K store."""
    lo = np.minimum(x.min(-1), 0)
    hi = np.maximum(x.max(-1), 0)
    scale, mn = (hi - lo) / qmax, -lo
    d = (scale.max(-1) / 63).astype(np.float16).astype(np.float32)
    dm = (mn.max(-1) / 63).astype(np.float16).astype(np.float32)
    sc = np.clip(np.rint(scale / np.maximum(d, 1e-20)[:, None]), 1, 63)
    m = np.clip(np.rint(mn / np.maximum(dm, 1e-20)[:, None]), 0, 63)
    step = (d[:, None] * sc)[..., None]
    q = np.clip(np.rint((x + (dm[:, None] * m)[..., None]) / step), 0, qmax)
    return d, dm, sc.astype(np.uint8), m.astype(np.uint8), q.astype(np.uint8)


def pack_scales_k4(sc, m):
    out = np.zeros((sc.shape[0], 12), np.uint8)
    out[:, 0:4] = sc[:, :4] | ((sc[:, 4:] >> 4) << 6)
    out[:, 4:8] = m[:, :4] | ((m[:, 4:] >> 4) << 6)
    out[:, 8:12] = (sc[:, 4:] & 15) | ((m[:, 4:] & 15) << 4)
    return out


def nibbles(q):                       # q [n, 8, 32] < 16 -> [n, 128]
    return (q[:, 0::2] | (q[:, 1::2] << 4)).reshape(len(q), 128)


def quant_k(w, qt):
    rows, cols = w.shape
    x = w.reshape(-1, 256).astype(np.float32)
    n = len(x)
    if qt in (QT.Q4_K, QT.Q5_K):
        d, dm, sc, m, q = fit_k45(x.reshape(n, 8, 32), 15 if qt == QT.Q4_K else 31)
        parts = [f16_bytes(d).reshape(n, 2), f16_bytes(dm).reshape(n, 2),
                 pack_scales_k4(sc, m)]
        if qt == QT.Q5_K:
            bits = (q >> 4) << np.arange(8, dtype=np.uint8)[None, :, None]
            parts.append(np.bitwise_or.reduce(bits, axis=1))
        parts.append(nibbles(q & 15))
    else:
        g = x.reshape(n, 16, 16)
        scale = np.abs(g).max(-1) / 31
        d = (scale.max(-1) / 127).astype(np.float16).astype(np.float32)
        sc = np.clip(np.rint(scale / d[:, None]), 1, 127).astype(np.int8)
        # a few negative scales: the format allows them
        sc[:, 3] = -sc[:, 3]
        q = np.rint(g / (d[:, None] * sc)[..., None])
        q = (np.clip(q, -32, 31) + 32).astype(np.uint8).reshape(n, 2, 4, 32)
        lo = q & 15
        ql = np.concatenate([lo[:, :, 0] | (lo[:, :, 2] << 4),
                             lo[:, :, 1] | (lo[:, :, 3] << 4)], -1)
        hi = q >> 4
        qh = (hi[:, :, 0] | (hi[:, :, 1] << 2) | (hi[:, :, 2] << 4)
              | (hi[:, :, 3] << 6))
        parts = [ql.reshape(n, 128), qh.reshape(n, 64), sc.view(np.uint8),
                 f16_bytes(d).reshape(n, 2)]
    return np.concatenate(parts, axis=1).reshape(rows, -1)


def quantize(w, qt):
    """-> (stored array, f32 values it stands for)"""
    if qt == QT.F32:
        return w, w
    if qt == QT.F16:
        h = w.astype(np.float16)
        return h, h.astype(np.float32)
    if qt in (QT.Q4_K, QT.Q5_K, QT.Q6_K):
        b = quant_k(w, qt)
    else:
        b = gguf.quants.quantize(np.ascontiguousarray(w), qt)
    v = gguf.quants.dequantize(b, qt).reshape(w.shape).astype(np.float32)
    err = np.abs(v - w).max() / np.abs(w).max()
    limit = {QT.BF16: 0.005, QT.Q8_0: 0.01, QT.Q6_K: 0.04}.get(qt, 0.15)
    assert err < limit, (qt, err)
    return b, v


# ----------------------------------------------------------------------------
# GGUF

def permute(w, n_head):
    """What llama.cpp's converter does to the rows of Wq and Wk."""
    return (w.reshape(n_head, 2, w.shape[0] // n_head // 2, *w.shape[1:])
            .swapaxes(1, 2).reshape(w.shape))


def unpermute(w, n_head):
    return (w.reshape(n_head, w.shape[0] // n_head // 2, 2, *w.shape[1:])
            .swapaxes(1, 2).reshape(w.shape))


GG = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q",
      "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
      "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
      "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm",
      "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
      "mlp.down_proj": "ffn_down"}


def gguf_name(hf):
    top = {"model.embed_tokens.weight": "token_embd.weight",
           "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight"}
    if hf in top:
        return top[hf]
    p = hf.split(".")
    return "blk.%s.%s.%s" % (p[2], GG[".".join(p[3:-1])], p[-1])


# every legacy type, each as the attention's and the MLP's
MIX = ({"attn_q": QT.F16, "attn_k": QT.BF16, "attn_v": QT.F32, "attn_output": QT.Q8_0,
        "ffn_gate": QT.Q4_0, "ffn_up": QT.Q5_1, "ffn_down": QT.Q4_1},
       {"attn_q": QT.Q5_0, "attn_k": QT.Q4_1, "attn_v": QT.Q8_0, "attn_output": QT.BF16,
        "ffn_gate": QT.Q8_0, "ffn_up": QT.Q4_0, "ffn_down": QT.Q5_0})


def tensor_type(kind, name, count):
    if kind == "MIX":
        p = name.split(".")
        return MIX[int(p[1])][p[2]] if p[0] == "blk" else QT.Q8_0
    if kind == "Q56_K":               # embedding Q6_K, then in turns
        return (QT.Q6_K, QT.Q5_K)[count % 2]
    return QT[kind]


def llama3_factors(s):
    r, dh = s["rope"], s["d_head"]
    old = r["original_max_position_embeddings"]
    out = []
    for i in range(0, dh, 2):
        freq = 1.0 / s["theta"] ** (i / dh)
        wl = 2 * math.pi / freq
        if wl < old / r["high_freq_factor"]:
            out.append(1.0)
        elif wl > old / r["low_freq_factor"]:
            out.append(r["factor"])
        else:
            sm = ((old / wl - r["low_freq_factor"])
                  / (r["high_freq_factor"] - r["low_freq_factor"]))
            out.append(1 / ((1 - sm) / r["factor"] + sm))
    return np.array(out, np.float32)


def gguf_tokenizer(wr, s):
    tk = s["tok"]
    n_vocab = s["n_vocab"] or tk.n
    toks = tk.tokens()
    types = []
    for t in toks:
        if t == "<unk>":
            types.append(TokenType.UNKNOWN)
        elif t in tk.special:
            types.append(TokenType.CONTROL)
        elif t in tk.plain:
            types.append(TokenType.USER_DEFINED)
        elif tk.pre == "spm" and t.startswith("<0x") and len(t) == 6:
            types.append(TokenType.BYTE)
        else:
            types.append(TokenType.NORMAL)
    for i in range(len(toks), n_vocab):
        toks.append("[PAD%d]" % i)
        types.append(TokenType.UNUSED)
    if tk.pre == "spm":
        wr.add_tokenizer_model("llama")
        wr.add_tokenizer_pre("default")
        wr.add_token_list(toks)
        wr.add_token_scores([0.0 if i < 259 else float(259 - i)
                             for i in range(n_vocab)])
        wr.add_token_types(types)
        wr.add_add_space_prefix(True)
        wr.add_unk_token_id(0)
    else:
        wr.add_tokenizer_model("gpt2")
        wr.add_tokenizer_pre(tk.pre)
        wr.add_token_list(toks)
        wr.add_token_types(types)
        wr.add_token_merges([" ".join(p) for p in tk.json()["model"]["merges"]])
    wr.add_eos_token_id(tk.tok.token_to_id(tk.eos))
    if tk.bos:
        wr.add_bos_token_id(tk.tok.token_to_id(tk.bos))
    wr.add_add_bos_token(tk.bos is not None)
    wr.add_add_eos_token(False)
    wr.add_chat_template(tk.template)


def write_gguf(s, w, kind, out):
    """-> (path, HF names -> the values the file stands for)"""
    arch = "llama" if s["arch"] == "mistral" else s["arch"]
    path = os.path.join(out, "models", "%s.%s.gguf" % (s["name"], kind))
    wr = gguf.GGUFWriter(path, arch)
    wr.add_name(s["name"])
    wr.add_file_type({"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7,
                      "Q5_0": 8, "Q5_1": 9, "Q4_K": 14, "Q56_K": 18,
                      "BF16": 32, "MIX": 7}[kind])
    wr.add_context_length(s["n_ctx"])
    wr.add_embedding_length(s["d_model"])
    wr.add_block_count(s["n_layer"])
    wr.add_feed_forward_length(s["d_ff"])
    wr.add_head_count(s["n_head"])
    wr.add_head_count_kv(s["n_kv"])
    wr.add_layer_norm_rms_eps(s["eps"])
    wr.add_rope_freq_base(s["theta"])
    wr.add_vocab_size(s["n_vocab"] or s["tok"].n)
    if arch == "llama":
        wr.add_rope_dimension_count(s["d_head"])
    if s["d_head"] * s["n_head"] != s["d_model"] or s["arch"] == "qwen3":
        wr.add_key_length(s["d_head"])
        wr.add_value_length(s["d_head"])
    r = s["rope"]
    kind_of_rope = (r.get("rope_type") or r.get("type")) if r else None
    if kind_of_rope == "linear":
        wr.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        wr.add_rope_scaling_factor(r["factor"])
    elif kind_of_rope == "yarn":
        wr.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        wr.add_rope_scaling_factor(r["factor"])
        wr.add_rope_scaling_orig_ctx_len(r["original_max_position_embeddings"])
    elif kind_of_rope == "llama3":
        wr.add_tensor("rope_freqs.weight", llama3_factors(s))
    gguf_tokenizer(wr, s)
    values, count = {}, 0
    for hf, v in w.items():
        name = gguf_name(hf)
        n_head = 0
        if arch == "llama" and ".attn_q." in name:
            n_head = s["n_head"]
        elif arch == "llama" and ".attn_k." in name:
            n_head = s["n_kv"]
        x = permute(v, n_head) if n_head else v
        if v.ndim == 1:
            wr.add_tensor(name, np.ascontiguousarray(x.astype(np.float32)))
            values[hf] = v
            continue
        qt = tensor_type(kind, name, count)
        count += 1
        stored, y = quantize(np.ascontiguousarray(x), qt)
        wr.add_tensor(name, stored,
                      raw_dtype=None if qt in (QT.F32, QT.F16) else qt)
        values[hf] = unpermute(y, n_head) if n_head else y
    wr.write_header_to_file()
    wr.write_kv_data_to_file()
    wr.write_tensors_to_file()
    wr.close()
    return path, values
