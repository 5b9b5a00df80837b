"""golden_oracle.py - what transformers computes: float32, eager attention.

Every golden is computed twice: with K and V as they are ("f32") and with K
(after RoPE) and V rounded to float16 before attention reads them ("f16"),
which is what the engine keeps.  The second needs no tolerance for the cache.
All prompts are prefixes of one id sequence, so one long prefill can be
checked at many lengths.
"""

import json

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3

from golden_model import config_json

MODELING = (modeling_llama, modeling_mistral, modeling_qwen2, modeling_qwen3)

PROMPT_LENGTHS = (1, 2, 63, 64, 65, 700, 1023, 1024, 1025, 2100)
ID_SEED = 20260112
N_NEXT = 20
N_TOP = 16
FIXED_IDS = (0, 1, 2, 63, 64, 127, 128, 255, 256, 300)

# ids: s[0] = seed; s[i+1] = s[i] * A + C mod 2^64; id[i] = (s[i+1] >> 33) % m


def golden_ids(n, n_vocab, seed=ID_SEED):
    s, ids = seed, []
    for _ in range(n):
        s = (s * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        ids.append((s >> 33) % n_vocab)
    return ids


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
