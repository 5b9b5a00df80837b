#!/usr/bin/env python3
"""The figures of check_cuda from transformers: a random Qwen3-0.6B in bf16.

Prints one JSON object a line, the most important first; ends by itself BUDGET
seconds (first argument, 30) after its imports, which may take as long when
cold.  Exit 69 where torch sees no GPU.
"""
import json
import sys
import time

budget = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
try:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM
except ImportError as e:
    print(f"peer: skipped, {e}", file=sys.stderr)
    sys.exit(69)
start = time.monotonic()
if not torch.cuda.is_available():
    print("peer: skipped, torch sees no GPU", file=sys.stderr)
    sys.exit(69)

config = Qwen3Config(
    hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
    num_attention_heads=16, num_key_value_heads=8, head_dim=128,
    vocab_size=151936, max_position_embeddings=40960, tie_word_embeddings=True)
torch.manual_seed(1)
with torch.device("cuda"):
    torch.set_default_dtype(torch.bfloat16)
    model = Qwen3ForCausalLM(config).eval()


@torch.inference_mode()
def measure(depth, steps=32):
    ids = torch.randint(0, config.vocab_size, (1, depth), device="cuda")
    torch.cuda.synchronize()
    t = time.monotonic()
    out = model(ids, use_cache=True, logits_to_keep=1)
    torch.cuda.synchronize()
    prefill = time.monotonic() - t
    past = out.past_key_values
    token = out.logits[:, -1].argmax(-1, keepdim=True)
    for i in range(steps + 2):
        if i == 2:
            torch.cuda.synchronize()
            t = time.monotonic()
        out = model(token, past_key_values=past, use_cache=True)
        token = out.logits[:, -1].argmax(-1, keepdim=True)
    torch.cuda.synchronize()
    return {"peer": "transformers", "of": "qwen3-0.6b", "depth": depth,
            "prompt_tokens_per_s": depth / prefill,
            "generated_tokens_per_s": steps / (time.monotonic() - t)}


measure(64, 2)                      # compiles, warms up
for depth in (2048, 8192, 16, 32000):
    if time.monotonic() - start > 0.7 * budget:
        break
    print(json.dumps(measure(depth)), flush=True)
