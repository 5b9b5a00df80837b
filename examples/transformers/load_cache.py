"""The keys and values that `cag-inspect --export F.safetensors KB.kvc` wrote, as a
cache of transformers, and the token ids that are in it: load("F.safetensors")."""
import json

from safetensors import safe_open
from transformers import DynamicCache


def load(path, dtype=None, device="cpu"):
    cache = DynamicCache()
    with safe_open(path, "pt", device=device) as f:
        ids = json.loads(f.metadata()["ids"])
        for i in range(int(f.metadata()["layers"])):
            k, v = f.get_tensor(f"layer.{i}.k"), f.get_tensor(f"layer.{i}.v")
            cache.update(k.to(dtype or k.dtype), v.to(dtype or v.dtype), i)
    return cache, ids
