#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Logits of whole models beside W8A8 emulated in float64, and each layer against its bound.

    python bench/python_logits.py FOLDER [--model NAME ...]

Three runs of one model and prompt, in which all but the fp8 products is the same code: the products by IronCL, in float64 and in float32
(torch's; activations quantised by torch with the same rule). Differences are given in standard deviations of the reference's logits. What
the float32 row shows is how far two right implementations are apart: quantising amplifies a last bit from layer to layer.
"""
import argparse
import math
import pathlib

import torch
from python_models import MODELS, load, make, prompt


class Emulated:
    """A layer whose product torch computes in ``dtype`` of dequantised operands."""

    def __init__(self, layer, dtype: torch.dtype) -> None:
        self.layer, self.dtype = layer, dtype
        self.codes, self.scales = layer.export(like=torch.empty(0))
        self.out_features, self.in_features = layer.out_features, layer.in_features

    def weight(self, matrix: int | None) -> torch.Tensor:
        codes, scales = (self.codes, self.scales) if matrix is None else (self.codes[matrix], self.scales[matrix])
        rows, cols = self.layer.block
        spread = scales.to(self.dtype).repeat_interleave(rows, 0).repeat_interleave(cols, 1)
        return codes.to(self.dtype) * spread[: codes.shape[0], : codes.shape[1]]

    def product(self, x: torch.Tensor, matrix: int | None) -> torch.Tensor:
        group = self.layer.block[1]
        padded = torch.nn.functional.pad(x.float(), (0, -x.shape[-1] % group))
        groups = padded.view(*x.shape[:-1], -1, group)
        scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448
        codes = (groups / scale).clamp(-448, 448).to(torch.float8_e4m3fn).to(self.dtype)
        a = (codes * scale.to(self.dtype)).view(padded.shape)[..., : x.shape[-1]]
        return (a @ self.weight(matrix).T).to(x.dtype)

    def _run(self, x: torch.Tensor, *, gated: bool, down: "Emulated") -> torch.Tensor:
        gate, up = self.product(x.float(), None).chunk(2, -1)
        return down.product(torch.nn.functional.silu(gate) * up, None).to(x.dtype)

    def __call__(self, x: torch.Tensor, *, rows: torch.Tensor | None = None) -> torch.Tensor:
        if rows is None:
            return self.product(x, None)
        parts = [self.product(part, i) if len(part) else part.new_empty(0, self.out_features) for i, part in enumerate(x.split(rows.tolist()))]
        return torch.cat(parts)


def main() -> None:
    import ironcl.transformers
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--model", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--tokens", type=int, default=128)
    options = parser.parse_args()
    print("| model | fp8 products | worst error / bound | IronCL: rms, largest | W8A8 in float32: rms, largest | bf16 model: rms, largest |\n|---|---|---|---|---|---|")
    for name in options.model:
        root, ids = make(name, options.folder), prompt(options.tokens)
        model = load(root, "ironcl")
        checks = ironcl.transformers.verify(model, input_ids=ids)
        held = [weights for module in model.modules() for weights in getattr(module, "_held", {}).values()]
        layers = {id(weights.layer): weights.layer for weights in held}
        with torch.inference_mode():
            logits = {"ironcl": model(input_ids=ids).logits.double()}
            for dtype in (torch.float64, torch.float32):
                emulated = {key: Emulated(layer, dtype) for key, layer in layers.items()}
                for weights in held:
                    weights.real = getattr(weights, "real", weights.layer)
                    weights.layer = emulated[id(weights.real)]
                logits[dtype] = model(input_ids=ids).logits.double()
            logits["bf16"] = load(root, "bf16")(input_ids=ids).logits.double()
        reference = logits.pop(torch.float64)
        deviation = reference.std()
        cells = []
        for way in ("ironcl", torch.float32, "bf16"):
            error = (logits[way] - reference).abs() / deviation
            cells.append(f"{math.sqrt(error.square().mean()):.4f}, {error.max():.3f}")
        worst = max(check.error_over_bound for check in checks)
        print(f"| {name} | {len(checks)} | {worst:.3f}{'' if checks else ' **FAILED**'} | {' | '.join(cells)} |", flush=True)
        del model, held, layers


if __name__ == "__main__":
    main()
