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

    golden_tok.py     one tokenizer of each family
    golden_model.py   shapes, weights, directories that transformers reads
    golden_gguf.py    quantized blocks, GGUF containers
    golden_oracle.py  what transformers computes, in two precisions of K and V
    golden_demo.py    the demo model on real text
    golden_mutate.py  deliberate mistakes, to see that the goldens catch them
"""

import argparse
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from golden_demo import demo  # noqa: E402
from golden_gguf import write_gguf  # noqa: E402
from golden_model import make_weights, specs, write_hf  # noqa: E402
from golden_mutate import mutations  # noqa: E402
from golden_oracle import ID_SEED, dump, model_of_values, record  # noqa: E402


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
