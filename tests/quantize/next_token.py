#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far a scheme moves a model's next-token distributions, computed by transformers on a CPU from the folders that
`ironcl quantize` writes: the divergence by scheme, beside the signal-to-noise ratio of the weights, which orders it.

    next_token.py build/release/bin/ironcl [--model DIR] [--work DIR]

Without --model: a Qwen3 of 6 layers with a hidden size of 512, whose weights are heavy-tailed, with outlier columns.
Weights are quantised, activations are not. Exits with 1 where the order of the divergences is not that of the noise
(neighbours whose noise is within 1 dB may change places).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import accelerate  # noqa: F401
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM
except ImportError as missing:
    print(f"SKIPPED: {missing.name} is not installed; pip install torch transformers accelerate compressed-tensors")
    sys.exit(77)

SCHEMES = [
    ("mxfp8", []),
    ("block", []),
    ("block", ["--scale-type", "e8m0"]),
    ("channel", []),
    ("tensor", []),
    ("channel", ["--type", "int8"]),
    ("tensor", ["--type", "int8"]),
    ("nvfp4", []),
    ("mxfp4", []),
]


def make_model(folder):
    torch.manual_seed(11)
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=2048, hidden_size=512, intermediate_size=1536, num_hidden_layers=6,
                                         num_attention_heads=8, num_key_value_heads=4, head_dim=64, tie_word_embeddings=False))
    heavy = torch.distributions.StudentT(4.0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                width = parameter.shape[1]
                columns = torch.where(torch.rand(width) < 0.01, 20.0, 1.0) if "proj" in name else torch.ones(width)
                rows = torch.exp2(torch.rand(parameter.shape[0], 1) * 4 - 2) if "proj" in name else 1.0
                parameter.copy_(heavy.sample(parameter.shape) * columns * rows / (2 * width) ** 0.5 / 2)
    model.to(torch.bfloat16).save_pretrained(folder)


def distributions(folder, ids):
    config = json.loads((Path(folder) / "config.json").read_text()).get("quantization_config", {})
    how = {}
    if config.get("quant_method") == "fp8":
        how["quantization_config"] = transformers.FineGrainedFP8Config(dequantize=True)
    elif config:
        how["quantization_config"] = transformers.CompressedTensorsConfig(run_compressed=False)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **how).float()
    with torch.no_grad():
        return torch.log_softmax(model(ids).logits.double(), -1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ironcl")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--work", type=Path)
    args = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:
        work = args.work or Path(scratch)
        if args.model is None:
            args.model = work / "bf16"
            make_model(args.model)
        vocabulary = json.loads((args.model / "config.json").read_text())["vocab_size"]
        ids = torch.randint(0, vocabulary, (2, 128), generator=torch.Generator().manual_seed(1))
        want = distributions(args.model, ids)
        rows = []
        for scheme, options in SCHEMES:
            out = work / "-".join([scheme, *options])
            report = json.loads(subprocess.run([args.ironcl, "quantize", args.model, out, "--scheme", scheme, *options, "--verify",
                                                "--json", "-"], check=True, capture_output=True, text=True).stdout)
            got = distributions(out, ids)
            divergence = (want.exp() * (want - got)).sum(-1)
            same = (want.argmax(-1) == got.argmax(-1)).double().mean().item()
            rows.append((report["layers"][-1]["snr_db"], report["format"], divergence.mean().item(), same))
    rows.sort(reverse=True)
    print(f"{'SNR of weights, dB':>18}  {'KL divergence, nats':>19}  {'same token':>10}  format")
    for snr, name, divergence, same in rows:
        print(f"{snr:18.1f}  {divergence:19.3g}  {same:10.1%}  {name}")
    wrong = [(a[1], b[1]) for i, a in enumerate(rows) for b in rows[i + 1:] if a[0] > b[0] + 1 and a[2] > b[2]]
    for better, worse in wrong:
        print(f"out of order: {better} diverges more than {worse}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
