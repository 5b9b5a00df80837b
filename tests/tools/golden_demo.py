"""golden_demo.py - goldens of the demo model: real weights, real text."""

import os

import gguf
import numpy as np
import torch
import transformers
from gguf import TokenType
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM

from golden_gguf import GG, unpermute
from golden_oracle import EAGER, attention_f16, continuation, dump, load_values, set_attention


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
    os.makedirs(os.path.join(out, "logits"), exist_ok=True)
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
