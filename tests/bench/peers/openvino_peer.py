#!/usr/bin/env python3
"""OpenVINO GenAI as run.py's peer: the same GGUF and ids, on the CPU.

    openvino_peer.py MODEL.gguf IDS.json THREADS N_GEN PRECISION build|ask

PRECISION: default (what the CPU plugin chooses: bf16 where the machine has
it, activations in 8 bits), f32 (8-bit activations stay), f32-exact (neither).
It keeps nothing on disk, so that ask, too, reads everything; it prints the
first generated token as soon as it is known.
"""
import json
import sys
import time

import numpy as np
import openvino as ov
import openvino_genai as genai

model_path, ids_path, threads, n_gen, precision, what = sys.argv[1:]
PROPERTIES = {
    "default": {},
    "f32": {"INFERENCE_PRECISION_HINT": "f32"},
    "f32-exact": {"INFERENCE_PRECISION_HINT": "f32",
                  "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0},
}


def generate(pipe, ids, n):
    """Seconds to the first token, and those of each further one."""
    config = genai.GenerationConfig()
    config.max_new_tokens = n
    config.ignore_eos = True
    config.do_sample = False
    array = np.array([ids], dtype=np.int64)
    r = pipe.generate(genai.TokenizedInputs(ov.Tensor(array),
                                            ov.Tensor(np.ones_like(array))),
                      config)
    m = r.perf_metrics
    if m.get_num_input_tokens() != len(ids) or len(r.tokens[0]) != n:
        raise SystemExit(f"{m.get_num_input_tokens()} tokens read, "
                         f"{len(r.tokens[0])} generated: not what was asked")
    return m.get_ttft().mean / 1e3, m.get_tpot().mean / 1e3, r.tokens[0]


def main():
    with open(ids_path, encoding="ascii") as f:
        ids = json.load(f)
    prefix, question, n = ids["prefix"], ids["question"], int(n_gen)
    pipe = genai.LLMPipeline(model_path, "CPU",
                             INFERENCE_NUM_THREADS=int(threads),
                             **PROPERTIES[precision])
    if what == "ask":
        print(generate(pipe, prefix + question, 1)[2][0], flush=True)
        return
    generate(pipe, question, 2)          # the first call allocates
    start = time.monotonic()
    generate(pipe, prefix, 1)
    took = time.monotonic() - start
    print(json.dumps({
        "build": len(prefix) / took,
        "decode_0": 1 / generate(pipe, question, n + 1)[1],
        "decode_full": 1 / generate(pipe, prefix + question, n + 1)[1]}))


main()
