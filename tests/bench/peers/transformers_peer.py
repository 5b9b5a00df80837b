#!/usr/bin/env python3
"""transformers as run.py's peer: DynamicCache, the GGUF's own weights.

    transformers_peer.py MODEL.gguf IDS.json CACHE.pt THREADS N_GEN DTYPE build|ask

DTYPE is float32 or bfloat16.

build prints one line of JSON with rates and saves the cache; ask loads the
saved cache and prints the first generated token as soon as it is known.
"""
import json
import os
import sys
import time

model_path, ids_path, cache_path, threads, n_gen, dtype, what = sys.argv[1:]
os.environ["OMP_NUM_THREADS"] = threads
os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402  (after the environment it reads)
from transformers import AutoModelForCausalLM, DynamicCache  # noqa: E402

torch.set_num_threads(int(threads))
torch.set_grad_enabled(False)


def load():
    folder, name = os.path.split(model_path)
    return AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=getattr(torch, dtype)).eval()


def feed(model, ids, cache):
    out = model(torch.tensor([ids]), past_key_values=cache, use_cache=True,
                logits_to_keep=1)
    return int(out.logits[0, -1].argmax())


def rate(model, ids, cache, n):
    token = feed(model, ids, cache)
    start = time.monotonic()
    for _ in range(n):
        token = feed(model, [token], cache)
    return n / (time.monotonic() - start)


def layers(cache):
    return [(layer.keys, layer.values) for layer in cache.layers]


def build(model, prefix, question, n):
    decode_0 = rate(model, question, DynamicCache(), n)
    cache = DynamicCache()
    start = time.monotonic()
    feed(model, prefix, cache)
    took = time.monotonic() - start
    kv = layers(cache)
    torch.save(kv, cache_path)
    size = sum(k.nbytes + v.nbytes for k, v in kv)
    print(json.dumps({
        "build": len(prefix) / took, "decode_0": decode_0,
        "decode_full": rate(model, question, cache, n),
        "kv_bytes_per_token": size / len(prefix)}))


def ask(model, question):
    cache = DynamicCache()
    for i, (k, v) in enumerate(torch.load(cache_path)):
        cache.update(k, v, i)
    print(feed(model, question, cache), flush=True)


def main():
    with open(ids_path, encoding="ascii") as f:
        ids = json.load(f)
    model = load()
    if what == "build":
        build(model, ids["prefix"], ids["question"], int(n_gen))
    else:
        ask(model, ids["question"])


main()
