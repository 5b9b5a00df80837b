#!/usr/bin/env python3
"""Record inv_freq and attention scaling as transformers computes them.

    python3 tests/tools/make_rope_golden.py > tests/golden/rope/inv_freq.json

Each case is a config.json (as cag reads it) with the bits of inv_freq and of
the attention scaling in hex.  Needs torch and transformers; by hand.
"""
import json
import struct

import transformers
import torch
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding


def bits(x):
    return "%08x" % struct.unpack("<I", struct.pack("<f", x))[0]


def case(name, theta, head, ctx, scaling, key="rope_scaling"):
    config = {"model_type": "llama", "hidden_size": 4 * head,
              "intermediate_size": 64, "num_hidden_layers": 1,
              "num_attention_heads": 4, "num_key_value_heads": 4,
              "head_dim": head, "vocab_size": 32,
              "max_position_embeddings": ctx, "rms_norm_eps": 1e-5}
    if key == "rope_scaling":
        config["rope_theta"] = theta
        config["rope_scaling"] = scaling
    else:
        config["rope_parameters"] = dict(scaling or {}, rope_theta=theta)
    hf = transformers.LlamaConfig(**json.loads(json.dumps(config)))
    rope = LlamaRotaryEmbedding(hf)
    return {"name": name, "config": config,
            "inv_freq": [bits(x) for x in rope.inv_freq.tolist()],
            "scaling": bits(rope.attention_scaling)}


cases = []
for theta in (10000.0, 100000.0, 500000.0, 1000000.0):
    for head in (32, 64, 80, 128):
        cases.append(case("default %g %d" % (theta, head), theta, head, 8192,
                          None))
llama3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
cases.append(case("llama-3.2", 500000.0, 64, 131072, llama3))
cases.append(case("llama-3.1", 500000.0, 128, 131072,
                  dict(llama3, factor=8.0)))
cases.append(case("llama3 in rope_parameters", 500000.0, 80, 131072,
                  dict(llama3, original_max_position_embeddings=64),
                  "rope_parameters"))
cases.append(case("linear", 10000.0, 64, 8192, {"type": "linear",
                                                "factor": 2.5}))
yarn = {"rope_type": "yarn", "factor": 4.0,
        "original_max_position_embeddings": 32768}
cases.append(case("yarn", 1000000.0, 128, 131072, yarn))
cases.append(case("yarn in rope_parameters", 1000000.0, 64, 131072, yarn,
                  "rope_parameters"))
cases.append(case("yarn with betas", 10000.0, 64, 8192,
                  dict(yarn, original_max_position_embeddings=512,
                       beta_fast=24.0, beta_slow=2.0)))
cases.append(case("yarn not truncated", 150000.0, 64, 131072,
                  dict(yarn, original_max_position_embeddings=4096,
                       truncate=False)))
cases.append(case("yarn with attention_factor", 10000.0, 64, 8192,
                  dict(yarn, original_max_position_embeddings=2048,
                       attention_factor=1.25)))
cases.append(case("yarn with mscale", 10000.0, 64, 8192,
                  dict(yarn, original_max_position_embeddings=2048,
                       mscale=0.707, mscale_all_dim=1.4)))
print(json.dumps({"oracle": {"transformers": transformers.__version__,
                             "torch": torch.__version__},
                  "cases": cases}, indent=0).replace("\n\"", " \"")
      .replace("},\n{", "},\n\n{"))
