#!/usr/bin/env python3
"""make_golden.py - tiny models and what transformers computes with them.

The engine is tested against logits that another implementation computed:
transformers, float32, eager attention, on the very files under
tests/golden/models.  This script makes those files from fixed seeds and
records the logits, so that `make check` needs neither torch nor a network.

    python3 make_golden.py OUT                 every model, every golden
    python3 make_golden.py OUT --only llama    one family
    python3 make_golden.py OUT --mutations     what deliberate mistakes move
    python3 make_golden.py OUT --demo GGUF     goldens of the demo model

OUT is tests/golden.  Needs torch, transformers, tokenizers, gguf,
safetensors and numpy; tests/golden/README.md names the versions used and
describes the formats.

Three things make the files small and the goldens sharp:

 - weights are rounded to values that bfloat16 and float16 both hold, so a
   model's BF16, F16 and F32 containers share one golden;
 - every golden is computed twice: with K and V as they are ("f32") and with
   K (after RoPE) and V rounded to float16 before attention reads them
   ("f16"), which is what the engine keeps.  The second needs no tolerance
   for the cache;
 - all prompts are prefixes of one id sequence, so one long prefill can be
   checked at many lengths.
"""

import argparse
import contextlib
import json
import math
import os
import shutil
import sys

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import torch  # noqa: E402
import gguf  # noqa: E402
from gguf import GGMLQuantizationType as QT  # noqa: E402
from gguf import TokenType  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,  # noqa: E402
                        normalizers, pre_tokenizers, processors, trainers)
import transformers  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402
from transformers.models.llama import modeling_llama  # noqa: E402
from transformers.models.mistral import modeling_mistral  # noqa: E402
from transformers.models.qwen2 import modeling_qwen2  # noqa: E402
from transformers.models.qwen3 import modeling_qwen3  # noqa: E402

MODELING = (modeling_llama, modeling_mistral, modeling_qwen2, modeling_qwen3)

PROMPT_LENGTHS = (1, 2, 63, 64, 65, 700, 1023, 1024, 1025, 2100)
ID_SEED = 20260112
N_NEXT = 20
N_TOP = 16
FIXED_IDS = (0, 1, 2, 63, 64, 127, 128, 255, 256, 300)

# ----------------------------------------------------------------------------
# ids: s[0] = seed; s[i+1] = s[i] * A + C mod 2^64; id[i] = (s[i+1] >> 33) % m


def golden_ids(n, n_vocab, seed=ID_SEED):
    s, ids = seed, []
    for _ in range(n):
        s = (s * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        ids.append((s >> 33) % n_vocab)
    return ids


# ----------------------------------------------------------------------------
# tokenizers: real, small, one of each family the tools read

TEXT = """
The answer is not available in the knowledge base. Answer only from the
knowledge base and give only the direct answer. The station stands on a hill
above the town, and the people who work there know every road that leads to
it. In the morning they measure the water, the soil and the wind; in the
evening they write the numbers into a book. What is the name of the station?
Where does the road begin, and how long does it take to reach the river? The
first test was in March, the second in June, and the third was never finished
because the instrument was lost. When it was found again it still worked.
There are 12 rooms, 3 towers and 1 well. It's said that nobody has ever
counted the stairs, but they'll tell you there are 144. Für die Küche: 2 Äpfel,
¿dónde está? 日本語のテキスト。 Привет, мир. naïve café 🙂
def main(args): return [int(x) for x in args if x != "0"]
"""

SMOLLM_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] "
    "!= 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant."
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")

QWEN2_TEMPLATE = (
    "{%- if messages[0]['role'] == 'system' -%}\n"
    "    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n"
    "{%- else -%}\n"
    "    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}\n"
    "{%- endif -%}\n"
    "{%- for message in messages -%}\n"
    "    {%- if (message.role == 'user') or (message.role == 'assistant') "
    "or (message.role == 'system' and not loop.first) -%}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + message.content + "
    "'<|im_end|>' + '\\n' }}\n"
    "    {%- endif -%}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "    {{- '<|im_start|>assistant\\n' }}\n"
    "{%- endif -%}\n")

QWEN3_TEMPLATE = (
    "{%- for message in messages %}\n"
    "    {%- set content = message.content if message.content is string else '' %}\n"
    "    {%- if message.role == 'assistant' and '</think>' in content %}\n"
    "        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n"
    "    {%- endif %}\n"
    "    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|im_start|>assistant\\n' }}\n"
    "    {%- if enable_thinking is defined and enable_thinking is false %}\n"
    "        {{- '<think>\\n\\n</think>\\n\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endif %}\n")

LLAMA3_TEMPLATE = (
    "{{- bos_token }}\n"
    "{%- if not date_string is defined %}\n"
    "    {%- if strftime_now is defined %}\n"
    "        {%- set date_string = strftime_now(\"%d %b %Y\") %}\n"
    "    {%- else %}\n"
    "        {%- set date_string = \"26 Jul 2024\" %}\n"
    "    {%- endif %}\n"
    "{%- endif %}\n"
    "{%- if messages[0]['role'] == 'system' %}\n"
    "    {%- set system_message = messages[0]['content']|trim %}\n"
    "    {%- set messages = messages[1:] %}\n"
    "{%- else %}\n"
    "    {%- set system_message = \"\" %}\n"
    "{%- endif %}\n"
    "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n"
    "{{- \"Today Date: \" + date_string + \"\\n\\n\" }}\n"
    "{{- system_message }}\n"
    "{{- \"<|eot_id|>\" }}\n"
    "{%- for message in messages %}\n"
    "    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'"
    " + message['content'] | trim + '<|eot_id|>' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n"
    "{%- endif %}\n")

MISTRAL_TEMPLATE = (
    "{%- if messages[0]['role'] == 'system' %}\n"
    "    {%- set system_message = messages[0]['content'] + '\\n\\n' %}\n"
    "    {%- set loop_messages = messages[1:] %}\n"
    "{%- else %}\n"
    "    {%- set system_message = '' %}\n"
    "    {%- set loop_messages = messages %}\n"
    "{%- endif %}\n"
    "{{- bos_token }}\n"
    "{%- for message in loop_messages %}\n"
    "    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\n"
    "        {{- raise_exception('roles must alternate user/assistant') }}\n"
    "    {%- endif %}\n"
    "    {%- if message['role'] == 'user' %}\n"
    "        {%- if loop.first %}\n"
    "            {{- '[INST] ' + system_message + message['content'] + ' [/INST]' }}\n"
    "        {%- else %}\n"
    "            {{- '[INST] ' + message['content'] + ' [/INST]' }}\n"
    "        {%- endif %}\n"
    "    {%- else %}\n"
    "        {{- ' ' + message['content'] + eos_token }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n")

QWEN_RE = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
           r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3_RE = QWEN_RE.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


class Tok:
    """A tokenizers.Tokenizer with what both containers need to say of it."""

    def __init__(self, tok, special, eos, bos, template, pre, plain=()):
        self.tok, self.special, self.template = tok, special, template
        self.eos, self.bos, self.pre = eos, bos, pre
        self.plain = plain            # added tokens that are not special
        self.n = tok.get_vocab_size()

    def json(self, merges_as_text=False):
        j = json.loads(self.tok.to_str())
        if merges_as_text:
            j["model"]["merges"] = [" ".join(p) for p in j["model"]["merges"]]
        return j

    def tokens(self):
        v = self.tok.get_vocab(with_added_tokens=True)
        out = [None] * len(v)
        for s, i in v.items():
            out[i] = s
        return out


def byte_level(n_merge, special, pre_tok, pre, eos, bos, template,
               normalizer=None, post=None, plain=()):
    tok = Tokenizer(models.BPE(ignore_merges=(pre == "llama-bpe")))
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = pre_tok
    tok.decoder = decoders.ByteLevel()
    first = pre == "smollm"           # SmolLM puts its specials first
    trainer = trainers.BpeTrainer(
        vocab_size=256 + n_merge + (len(special) if first else 0),
        show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(s, special=True, normalized=False)
                        for s in special] if first else [])
    tok.train_from_iterator([TEXT], trainer)
    if not first:
        tok.add_special_tokens([AddedToken(s, special=True, normalized=False)
                                for s in special])
    if plain:
        tok.add_tokens([AddedToken(s, special=False, normalized=False)
                        for s in plain])
    if post:
        tok.post_processor = post(tok)
    return Tok(tok, special, eos, bos, template, pre, plain)


def tok_smollm():
    return byte_level(
        65, ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"],
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                 pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        "smollm", "<|im_end|>", None, SMOLLM_TEMPLATE)


def tok_qwen(template):
    return byte_level(
        60, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(QWEN_RE), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
        "qwen2", "<|im_end|>", None, template, normalizer=normalizers.NFC(),
        plain=["<think>", "</think>"] if template is QWEN3_TEMPLATE else ())


def tok_llama3():
    def post(tok):
        b = "<|begin_of_text|>"
        return processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=b + " $A", pair=b + " $A " + b + ":1 $B:1",
                special_tokens=[(b, tok.token_to_id(b))])])
    return byte_level(
        58, ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
             "<|end_header_id|>", "<|eot_id|>"],
        pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3_RE), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
        "llama-bpe", "<|eot_id|>", "<|begin_of_text|>", LLAMA3_TEMPLATE, post=post)


def tok_spm():
    """Llama-2 / Mistral style: byte fallback, a space in front."""
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    text = [ln for ln in TEXT.splitlines() if ln.isascii()]
    t.train_from_iterator(text, trainers.BpeTrainer(
        vocab_size=140, show_progress=False, max_token_length=8))
    j = json.loads(t.to_str())["model"]
    pieces = [p for p, _ in sorted(j["vocab"].items(), key=lambda e: e[1])]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for b in range(256):
        vocab["<0x%02X>" % b] = 3 + b
    single = [p for p in pieces if len(p) == 1]
    # as sentencepiece orders them: merged pieces by rank, letters last
    for p in [p for p in pieces if len(p) > 1] + single:
        vocab.setdefault(p, len(vocab))
    # a merge's rank is its result's place in the vocabulary
    merges = sorted((tuple(m) for m in j["merges"]),
                    key=lambda m: vocab[m[0] + m[1]])
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>",
                               fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"),
                                           normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "),
                                     decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    tok.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False)
                            for s in ("<unk>", "<s>", "</s>")])
    return Tok(tok, ["<unk>", "<s>", "</s>"], "</s>", "<s>", MISTRAL_TEMPLATE, "spm")


# ----------------------------------------------------------------------------
# models

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


# ----------------------------------------------------------------------------
# quantized blocks.  gguf-py quantizes the legacy types; the K types are
# quantized here (min-max per sub-block: not the best fit, valid blocks) and
# checked by dequantizing with gguf-py.

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


# ----------------------------------------------------------------------------
# the oracle

EAGER = modeling_llama.eager_attention_forward


def attention_f16(module, query, key, value, mask, *a, **kw):
    """Attention that sees only what the engine keeps: f16 K and V."""
    return EAGER(module, query, key.half().float(), value.half().float(),
                 mask, *a, **kw)


def set_attention(fn):
    for m in MODELING:
        m.eager_attention_forward = fn


def load_values(model, values):
    sd = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in values.items()}
    missing, unexpected = model.load_state_dict(sd, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()


def model_of_values(s, values):
    cfg = AutoConfig.for_model(**config_json(s))
    m = AutoModelForCausalLM.from_config(cfg, dtype=torch.float32,
                                         attn_implementation="eager").eval()
    load_values(m, values)
    return m


def r9(x):
    return float("%.9g" % float(x))


@torch.no_grad()
def continuation(model, ids, fixed, n_next=N_NEXT):
    """Logits after ids, then the greedy ids with each step's logit, margin."""
    out = model(torch.tensor([ids]), use_cache=True, logits_to_keep=1)
    lg = out.logits[0, -1]
    top = torch.topk(lg, N_TOP)
    g = {"top": [[int(i), r9(v)] for v, i in zip(top.values, top.indices)],
         "fixed": [[i, r9(lg[i])] for i in fixed if i < len(lg)],
         "next": [], "next_logit": [], "margin": []}
    for _ in range(n_next):
        t2 = torch.topk(lg, 2)
        nxt = int(t2.indices[0])
        g["next"].append(nxt)
        g["next_logit"].append(r9(t2.values[0]))
        g["margin"].append(r9(t2.values[0] - t2.values[1]))
        out = model(torch.tensor([[nxt]]), use_cache=True,
                    past_key_values=out.past_key_values, logits_to_keep=1)
        lg = out.logits[0, -1]
    return g


def record(model, n_vocab):
    rows = []
    long_ids = golden_ids(max(PROMPT_LENGTHS), n_vocab)
    for n in PROMPT_LENGTHS:
        row = {"n": n}
        for kv, fn in (("f32", EAGER), ("f16", attention_f16)):
            set_attention(fn)
            row[kv] = continuation(model, long_ids[:n], FIXED_IDS)
        set_attention(EAGER)
        rows.append(row)
    return rows


def dump(obj):
    """JSON that diffs by line: one line per prompt and kv kind."""
    def flat(v):
        return json.dumps(v, separators=(",", ":"), ensure_ascii=False)
    head = [" %s: %s" % (json.dumps(k), flat(v)) for k, v in obj.items()
            if k != "prompts"]
    rows = []
    for r in obj["prompts"]:
        plain = ["%s:%s" % (json.dumps(k), flat(v)) for k, v in r.items()
                 if k not in ("f32", "f16")]
        kinds = ["   %s:%s" % (json.dumps(k), flat(r[k]))
                 for k in ("f32", "f16") if k in r]
        rows.append("  {" + ",".join(plain) + ",\n" + ",\n".join(kinds) + "}")
    return ("{\n" + ",\n".join(head) + ",\n \"prompts\": [\n"
            + ",\n".join(rows) + "\n ]\n}\n")


def write_golden(s, suffix, files, model, out):
    n_vocab = s["n_vocab"] or s["tok"].n
    g = {"schema": 1, "name": s["name"] + suffix,
         "files": [os.path.relpath(f, out) for f in files],
         "oracle": "transformers %s, torch %s, float32, eager" % (
             transformers.__version__, torch.__version__),
         "n_vocab": n_vocab, "id_seed": ID_SEED, "prompts": record(model, n_vocab)}
    os.makedirs(os.path.join(out, "logits"), exist_ok=True)
    path = os.path.join(out, "logits", g["name"] + ".json")
    with open(path, "w", encoding="utf-8") as f:
        f.write(dump(g))
    low = min(min(p["f16"]["margin"]) for p in g["prompts"])
    spread = np.std([v for p in g["prompts"] for _, v in p["f32"]["fixed"]])
    print("%-20s logits std %.2f, smallest margin %.4f, distinct next %d" % (
        g["name"], spread, low,
        len({t for p in g["prompts"] for t in p["f32"]["next"]})))


def make_model(s, out):
    w = make_weights(s)
    os.makedirs(os.path.join(out, "models"), exist_ok=True)
    exact, groups = [], []
    if s["hf"]:
        exact.append(write_hf(s, w, out))
    for kind in s["gguf"]:
        path, values = write_gguf(s, w, kind, out)
        if all(np.array_equal(values[k], w[k]) for k in w):
            exact.append(path)
        else:
            groups.append((kind, path, values))
    if exact:
        if s["hf"]:
            model = AutoModelForCausalLM.from_pretrained(
                exact[0], dtype=torch.float32, attn_implementation="eager").eval()
            for k, v in model.state_dict().items():
                if k in w:
                    assert np.array_equal(v.numpy(), w[k]), k
        else:
            model = model_of_values(s, w)
        write_golden(s, "", exact, model, out)
    for kind, path, values in groups:
        write_golden(s, "." + kind, [path], model_of_values(s, values), out)


# ----------------------------------------------------------------------------
# the demo model: real weights, real text

def demo_model(path):
    """(model, values, encode) of a llama-architecture GGUF file."""
    r = gguf.GGUFReader(path)

    def get(key):
        return r.fields[key].contents()
    c = {"model_type": "llama", "architectures": ["LlamaForCausalLM"],
         "hidden_size": get("llama.embedding_length"),
         "intermediate_size": get("llama.feed_forward_length"),
         "num_hidden_layers": get("llama.block_count"),
         "num_attention_heads": get("llama.attention.head_count"),
         "num_key_value_heads": get("llama.attention.head_count_kv"),
         "vocab_size": len(get("tokenizer.ggml.tokens")),
         "max_position_embeddings": get("llama.context_length"),
         "rms_norm_eps": get("llama.attention.layer_norm_rms_epsilon"),
         "rope_theta": get("llama.rope.freq_base"), "tie_word_embeddings": True}
    back = {v: k for k, v in GG.items()}
    values = {}
    for t in r.tensors:
        v = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        v = v.reshape([int(n) for n in reversed(t.shape)])
        if ".attn_q." in t.name:
            v = unpermute(v, c["num_attention_heads"])
        elif ".attn_k." in t.name:
            v = unpermute(v, c["num_key_value_heads"])
        p = t.name.split(".")
        if p[0] == "blk":
            name = "model.layers.%s.%s.%s" % (p[1], back[p[2]], p[3])
        else:
            name = {"token_embd": "model.embed_tokens.weight",
                    "output_norm": "model.norm.weight"}[p[0]]
        values[name] = v
    m = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(**c), dtype=torch.float32,
        attn_implementation="eager").eval()
    load_values(m, values)

    toks = get("tokenizer.ggml.tokens")
    tok = Tokenizer(models.BPE(
        vocab={s: i for i, s in enumerate(toks)},
        merges=[tuple(x.split(" ")) for x in get("tokenizer.ggml.merges")]))
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tok.decoder = decoders.ByteLevel()
    types = get("tokenizer.ggml.token_type")
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False)
                            for s, k in zip(toks, types) if k == TokenType.CONTROL])
    return m, tok


DEMO_SYSTEM = ("Answer only from the knowledge base and give only the direct "
               "answer.\n\nKNOWLEDGE BASE:\n\n")


def demo(path, out):
    here = os.path.dirname(os.path.abspath(__file__))
    ex = os.path.join(here, "..", "..", "examples")
    with open(os.path.join(ex, "knowledge.txt"), encoding="utf-8") as f:
        atish = f.read()
    with open(os.path.join(ex, "docs", "time.md"), encoding="utf-8") as f:
        tz = f.read()

    def chat(knowledge, question):
        return ("<|im_start|>system\n" + DEMO_SYSTEM + knowledge + "<|im_end|>\n"
                "<|im_start|>user\n" + question + "<|im_end|>\n"
                "<|im_start|>assistant\n")
    m, tok = demo_model(path)
    texts = [
        ("plain", "The capital of France is"),
        ("chat", "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, "
                 "trained by Hugging Face<|im_end|>\n<|im_start|>user\nWhy is the sky "
                 "blue?<|im_end|>\n<|im_start|>assistant\n"),
        ("atish: fly", chat(atish, "How long can Sparrow-7 fly on a full charge?")),
        ("atish: where", chat(atish, "Where did the first field test take place?")),
        ("time.md, 1100 tokens", tz),
        ("time.md: Mars", chat(tz, "How long is a solar day on Mars?")),
    ]
    g = {"schema": 1, "name": "demo", "files": [os.path.basename(path)],
         "oracle": "transformers %s, torch %s, float32, eager, dequantized weights"
                   % (transformers.__version__, torch.__version__),
         "n_vocab": m.config.vocab_size, "prompts": []}
    fixed = (0, 1, 2, 28, 260, 1000, 10000, 20000, 40000, 49151)
    for name, text in texts:
        ids = tok.encode(text, add_special_tokens=False).ids
        if name.endswith("1100 tokens"):
            ids = ids[:1100]
        row = {"n": len(ids), "text": name, "ids": ids}
        for kv, fn in (("f32", EAGER), ("f16", attention_f16)):
            set_attention(fn)
            row[kv] = continuation(m, ids, fixed, 24)
        set_attention(EAGER)
        g["prompts"].append(row)
        print("%-22s %5d tokens  %r" % (name, len(ids), tok.decode(row["f16"]["next"])))
    with open(os.path.join(out, "logits", "demo.json"), "w", encoding="utf-8") as f:
        f.write(dump(g))


# ----------------------------------------------------------------------------
# mutations: deliberate mistakes, and how far each moves the recorded logits

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


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out")
    ap.add_argument("--only", action="append", metavar="NAME")
    ap.add_argument("--demo", metavar="GGUF")
    ap.add_argument("--mutations", action="store_true")
    a = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if a.demo:
        demo(a.demo, a.out)
        return 0
    if a.mutations:
        mutations(a.out)
        return 0
    for s in specs():
        if a.only and s["name"] not in a.only:
            continue
        make_model(s, a.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
