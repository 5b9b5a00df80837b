"""check_export.py - transformers goes on where an exported cache ends.

By hand, with torch 2.15, transformers 5.24 and safetensors (any that have
DynamicCache.update should do):

    make && python3 tests/tools/check_export.py build/release

For each tiny model of tests/golden/models and each codec a cache is built from
a text and exported.  transformers, in float32 and without having seen the text,
continues from these keys and values after a question of 9 ids; the greedy ids
must be those of `cag-bench probe` over text and question, and the logits
after the question near them.  A step whose two largest logits are nearer to
each other than the two programs ends the comparison of that model.
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "examples", "transformers"))
from load_cache import load  # noqa: E402

MODELS = ("llama", "llama3", "llama-bias", "llama-linear", "llama-yarn", "mistral",
          "qwen2", "qwen3", "qwen3-tied")
N_NEXT = 20
# The probe keeps f16, as f16z and f16 do, but transformers keeps the rows of the
# question in f32.  f32 is nearer to the truth than the probe by what f16 moves
# logits (up to 0.012, tests/golden/README.md), q8h further by what its codes lose.
NEAR = {"f16z": 0.005, "f16": 0.005, "f32": 0.012, "q8h": 0.15}


def run(tool, *args, stdin=None):
    return subprocess.run([tool, *args], check=True, stdout=subprocess.PIPE,
                          input=stdin, text=True).stdout


@torch.no_grad()
def continuation(model, path, question, n):
    cache, ids = load(path, torch.float32)
    out = model(torch.tensor([question]), past_key_values=cache, use_cache=True)
    first = out.logits[0, -1]
    got, margins = [], []
    for _ in range(n):
        best = torch.topk(out.logits[0, -1], 2)
        got.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
        out = model(torch.tensor([[got[-1]]]), past_key_values=out.past_key_values)
    return first, got, margins


def check(bin_dir, name, codec, work):
    model_dir = os.path.join(ROOT, "tests", "golden", "models", name)
    kvc, st = os.path.join(work, "kb.kvc"), os.path.join(work, "kb.safetensors")
    loose = ["--max-loss", "10"] if codec == "q8h" else []
    run(os.path.join(bin_dir, "cag-build"), "-q", "--force", "-m", model_dir, "--codec", codec,
        *loose, "-o", kvc, os.path.join(ROOT, "examples", "knowledge.txt"))
    run(os.path.join(bin_dir, "cag-inspect"), "-q", "--export", st, kvc)
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    ids = json.loads(run(os.path.join(bin_dir, "cag-inspect"), "--tokens", "--json", kvc))
    assert ids == load(st)[1]
    question = [(17 * i + 5) % 200 for i in range(9)]
    want = json.loads(run(os.path.join(bin_dir, "cag-bench"), "probe", "-m", model_dir,
                          "--ids", "-", "-n", str(N_NEXT), "--top", "16", "--json",
                          stdin=json.dumps(ids + question)))
    first, got, margins = continuation(model, st, question, N_NEXT)
    near = NEAR[codec]
    worst = max(abs(float(first[i]) - v) for i, v in want["top"])
    assert worst < near, f"{name} {codec}: logits differ by {worst}"
    for n, (a, b, m) in enumerate(zip(want["next"], got, margins)):
        if a != b:
            assert m < near, f"{name} {codec}: id {n} is {b}, expected {a} (margin {m})"
            return n, worst, len(ids)
    return N_NEXT, worst, len(ids)


def main():
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.simplefilter("ignore", FutureWarning)
    bin_dir = sys.argv[1] if len(sys.argv) > 1 else "build/release"
    n_test = failed = 0
    with tempfile.TemporaryDirectory() as work:
        for name in MODELS:
            for codec in NEAR:
                n_test += 1
                try:
                    n, worst, n_tok = check(bin_dir, name, codec, work)
                    print(f"ok {n_test} - {name} {codec}: {n} of {N_NEXT} ids equal after "
                          f"{n_tok} cached tokens, logits within {worst:.2g}")
                except (AssertionError, subprocess.CalledProcessError) as e:
                    failed += 1
                    print(f"not ok {n_test} - {e}")
    print(f"1..{n_test}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
