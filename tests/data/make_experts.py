#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the small checkpoints of tests/data/experts: one layer of experts each, with outputs of transformers' own block.

    pip install torch safetensors transformers==5.23.0
    python3 make_experts.py OUT

Each folder is a checkpoint as published models of its type are: fp8 weights with their scales, an unquantised router,
config.json. Beside it NAME.expect.safetensors has what transformers' block (DeepseekV3MoE, Qwen3MoeSparseMoeBlock, ...)
makes of the dequantised weights, everything in float64 but the router, which transformers runs in float32:

    x        bf16 [T, H]     activations
    ids      s32 [T, k]      the experts of each token, by falling score
    weights  f32 [T, k]      their weights
    y        f64 [T, H]      the block's output on x with weights as stored: no activation is quantised

Nothing is random but torch's generator with a fixed seed; the same versions give the same bytes. Widths are no
multiples of the block of 128 where the model type allows it.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers.models.deepseek_v3 import configuration_deepseek_v3 as dsv3_config, modeling_deepseek_v3 as dsv3
from transformers.models.gpt_oss import configuration_gpt_oss as oss_config, modeling_gpt_oss as oss
from transformers.models.mixtral import configuration_mixtral as mixtral_config, modeling_mixtral as mixtral
from transformers.models.qwen3_5_moe import configuration_qwen3_5_moe as qwen35_config, modeling_qwen3_5_moe as qwen35
from transformers.models.qwen3_moe import configuration_qwen3_moe as qwen3_config, modeling_qwen3_moe as qwen3
from transformers.models.qwen3_vl_moe import configuration_qwen3_vl_moe as vl_config, modeling_qwen3_vl_moe as vl

FP8 = torch.float8_e4m3fn
BLOCK = 128
TOKENS = 11
FP8_BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK]}


def heavy(generator, *shape):
    """Student t with four degrees of freedom, as trained weights are."""
    normal = torch.randn(*shape, generator=generator, dtype=torch.float64)
    chi = torch.randn(4, *shape, generator=generator, dtype=torch.float64).square().sum(0)
    return normal / (chi / 4).sqrt()


def by_blocks(weight, rows=BLOCK, cols=BLOCK):
    """Codes, scales and the dequantised weight of a matrix in blocks; edge blocks are partial."""
    scale = torch.empty(-(-weight.shape[0] // rows), -(-weight.shape[1] // cols))
    codes = torch.empty_like(weight, dtype=FP8)
    real = torch.empty_like(weight, dtype=torch.float64)
    for i in range(scale.shape[0]):
        for j in range(scale.shape[1]):
            at = slice(i * rows, (i + 1) * rows), slice(j * cols, (j + 1) * cols)
            scale[i, j] = max(weight[at].abs().max().item(), 1e-4) / 448
            codes[at] = (weight[at] / scale[i, j].double()).float().clamp(-448, 448).to(FP8)
            real[at] = codes[at].double() * scale[i, j].double()
    return codes, scale, real


def mxfp4(weight):
    """Blocks and scales of a matrix as gpt-oss has them, and the weight that they stand for."""
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    groups = weight.reshape(weight.shape[0], -1, 32)
    exponent = groups.abs().amax(-1).log2().floor() - 2
    scaled = groups / exponent.exp2()[..., None]
    codes = (scaled.abs()[..., None] - table).abs().argmin(-1)
    real = (table[codes] * scaled.sign() * exponent.exp2()[..., None]).reshape(weight.shape)
    codes = (codes + 8 * (scaled < 0)).to(torch.uint8)
    return codes[..., 0::2] | codes[..., 1::2] << 4, (exponent + 127).to(torch.uint8), real


class Folder:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.tensors = {}

    def weight(self, rows, cols):
        return heavy(self.generator, rows, cols) / cols**0.5

    def linear(self, name, rows, cols):
        """A quantised layer of its own, 128x128; returns the weight that it stands for."""
        codes, scale, real = by_blocks(self.weight(rows, cols))
        self.tensors[name + ".weight"] = codes
        self.tensors[name + ".weight_scale_inv"] = scale
        return real

    def channels(self, name, rows, cols):
        """The same with a scale for each row (compressed-tensors)."""
        codes, scale, real = by_blocks(self.weight(rows, cols), 1, cols)
        self.tensors[name + ".weight"] = codes
        self.tensors[name + ".weight_scale"] = scale
        return real

    def plain(self, name, value, dtype=torch.bfloat16):
        self.tensors[name] = value.to(dtype)
        return self.tensors[name].double()

    def save(self, out, name, config, block, hidden):
        x = heavy(self.generator, TOKENS, hidden).to(torch.bfloat16)
        routed = []
        router = block.gate if hasattr(block, "gate") else block.router
        gate = router.forward

        def spy(*args):
            routed.append(gate(*args))
            return routed[-1]

        router.forward = spy
        with torch.no_grad():
            y = block(x.double()[None])
        y = y[0] if isinstance(y, tuple) else y
        _, weights, ids = routed[0]
        # torch.topk(sorted=False) leaves the order open: by falling weight, which is by falling score where no bias is.
        by = weights.argsort(dim=-1, descending=True, stable=True)
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        tensors = {key: value.contiguous() for key, value in self.tensors.items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        expect = {
            "x": x,
            "ids": ids.gather(1, by).to(torch.int32),
            "weights": weights.gather(1, by).float(),
            "y": y.reshape(TOKENS, hidden).double(),
        }
        save_file({k: v.contiguous() for k, v in expect.items()}, out / f"{name}.expect.safetensors")
        print(name, {k: tuple(v.shape) for k, v in expect.items()}, "max |y|", y.abs().max().item())


def load(block, values):
    """A block in float64 with these parameters; buffers included."""
    block = block.double().eval()
    own = {**dict(block.named_parameters()), **dict(block.named_buffers())}
    assert set(own) == set(values), (set(own) ^ set(values))
    for name, value in values.items():
        assert own[name].shape == value.shape, (name, own[name].shape, value.shape)
        own[name].data = value.double()
    return block


def deepseek(out):
    """As DeepSeek-V3: sigmoid, correction bias, 2 of 4 groups, scaled, a shared expert; I = 96."""
    config = {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 160, "hidden_act": "silu",
        "moe_intermediate_size": 96, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
        "n_group": 4, "topk_group": 2, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True,
        "routed_scaling_factor": 2.5, "first_k_dense_replace": 0, "num_hidden_layers": 1,
        "quantization_config": FP8_BLOCKS,
    }  # fmt: skip
    made = Folder(11)
    base, hidden, width, experts = "model.layers.0.mlp", 160, 96, 8
    gates, ups, downs = [], [], []
    for e in range(experts):
        gates.append(made.linear(f"{base}.experts.{e}.gate_proj", width, hidden))
        ups.append(made.linear(f"{base}.experts.{e}.up_proj", width, hidden))
        downs.append(made.linear(f"{base}.experts.{e}.down_proj", hidden, width))
    shared = {p: made.linear(f"{base}.shared_experts.{p}", *s) for p, s in
              {"gate_proj": (width, hidden), "up_proj": (width, hidden), "down_proj": (hidden, width)}.items()}  # fmt: skip
    router = made.plain(f"{base}.gate.weight", made.weight(experts, hidden))
    # Large and close together, as one published model has it: bf16 would lose the difference.
    bias = 34 + 0.2 * torch.randn(experts, generator=made.generator, dtype=torch.float64)
    bias = made.plain(f"{base}.gate.e_score_correction_bias", bias, torch.float32)
    keys = {k: v for k, v in config.items() if k not in ("architectures", "model_type", "quantization_config")}
    block = load(dsv3.DeepseekV3MoE(dsv3_config.DeepseekV3Config(**keys)), {
        "experts.gate_up_proj": torch.stack([torch.cat(p) for p in zip(gates, ups)]), "experts.down_proj": torch.stack(downs),
        "gate.weight": router, "gate.e_score_correction_bias": bias,
        "shared_experts.gate_proj.weight": shared["gate_proj"], "shared_experts.up_proj.weight": shared["up_proj"],
        "shared_experts.down_proj.weight": shared["down_proj"]})  # fmt: skip
    block.gate.e_score_correction_bias.data = bias.float()
    made.save(out, "deepseek-v3", config, block, hidden)


def qwen3_moe(out):
    """As Qwen3-30B-A3B: softmax, normalised; I = 192."""
    config = {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 96, "hidden_act": "silu",
        "moe_intermediate_size": 192, "num_experts": 6, "num_experts_per_tok": 2, "norm_topk_prob": True,
        "num_hidden_layers": 1, "quantization_config": {**FP8_BLOCKS, "modules_to_not_convert": ["model.layers.0.mlp.gate"]},
    }  # fmt: skip
    made = Folder(12)
    base, hidden, width, experts = "model.layers.0.mlp", 96, 192, 6
    gates, ups, downs = [], [], []
    for e in range(experts):
        gates.append(made.linear(f"{base}.experts.{e}.gate_proj", width, hidden))
        ups.append(made.linear(f"{base}.experts.{e}.up_proj", width, hidden))
        downs.append(made.linear(f"{base}.experts.{e}.down_proj", hidden, width))
    router = made.plain(f"{base}.gate.weight", made.weight(experts, hidden))
    keys = {k: v for k, v in config.items() if k not in ("architectures", "model_type", "quantization_config")}
    block = load(qwen3.Qwen3MoeSparseMoeBlock(qwen3_config.Qwen3MoeConfig(**keys)), {
        "experts.gate_up_proj": torch.stack([torch.cat(p) for p in zip(gates, ups)]), "experts.down_proj": torch.stack(downs),
        "gate.weight": router})  # fmt: skip
    made.save(out, "qwen3-moe", config, block, hidden)


def mixtral_channels(out):
    """As Mixtral in FP8_DYNAMIC: w1, w3, w2; a scale for each row, activations per token."""
    config = {
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 96, "hidden_act": "silu",
        "intermediate_size": 160, "num_local_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 1,
        "quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head", "re:.*block_sparse_moe.gate"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "dynamic": False, "symmetric": True},
                "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True, "symmetric": True}}}},
    }  # fmt: skip
    made = Folder(13)
    base, hidden, width, experts = "model.layers.0.block_sparse_moe", 96, 160, 4
    gates, ups, downs = [], [], []
    for e in range(experts):
        gates.append(made.channels(f"{base}.experts.{e}.w1", width, hidden))
        downs.append(made.channels(f"{base}.experts.{e}.w2", hidden, width))
        ups.append(made.channels(f"{base}.experts.{e}.w3", width, hidden))
    router = made.plain(f"{base}.gate.weight", made.weight(experts, hidden))
    keys = {k: v for k, v in config.items() if k not in ("architectures", "model_type", "quantization_config")}
    block = load(mixtral.MixtralSparseMoeBlock(mixtral_config.MixtralConfig(**keys)), {
        "experts.gate_up_proj": torch.stack([torch.cat(p) for p in zip(gates, ups)]), "experts.down_proj": torch.stack(downs),
        "gate.weight": router})  # fmt: skip
    made.save(out, "mixtral", config, block, hidden)


def stacked(out):
    """As Qwen3.5-MoE: experts stacked [E, 2 I, H], scales of gate and up together, a gated shared expert; I = 192."""
    config = {
        "architectures": ["Qwen3_5MoeForCausalLM"], "model_type": "qwen3_5_moe_text", "hidden_size": 96, "hidden_act": "silu",
        "moe_intermediate_size": 192, "shared_expert_intermediate_size": 64, "num_experts": 4, "num_experts_per_tok": 3,
        "num_hidden_layers": 1, "quantization_config": FP8_BLOCKS,
    }  # fmt: skip
    made = Folder(14)
    base, hidden, width, experts, shared_width = "model.layers.0.mlp", 96, 192, 4, 64
    both = [by_blocks(made.weight(2 * width, hidden)) for _ in range(experts)]
    down = [by_blocks(made.weight(hidden, width)) for _ in range(experts)]
    for name, parts in (("gate_up_proj", both), ("down_proj", down)):
        made.tensors[f"{base}.experts.{name}"] = torch.stack([p[0].view(torch.uint8) for p in parts]).view(FP8)
        made.tensors[f"{base}.experts.{name}_scale_inv"] = torch.stack([p[1] for p in parts])
    shared = {p: made.linear(f"{base}.shared_expert.{p}", *s) for p, s in
              {"gate_proj": (shared_width, hidden), "up_proj": (shared_width, hidden), "down_proj": (hidden, shared_width)}.items()}  # fmt: skip
    router = made.plain(f"{base}.gate.weight", made.weight(experts, hidden))
    shared_gate = made.plain(f"{base}.shared_expert_gate.weight", made.weight(1, hidden))
    keys = {k: v for k, v in config.items() if k not in ("architectures", "model_type", "quantization_config")}
    block = load(qwen35.Qwen3_5MoeSparseMoeBlock(qwen35_config.Qwen3_5MoeTextConfig(**keys)), {
        "experts.gate_up_proj": torch.stack([p[2] for p in both]), "experts.down_proj": torch.stack([p[2] for p in down]),
        "gate.weight": router, "shared_expert_gate.weight": shared_gate,
        "shared_expert.gate_proj.weight": shared["gate_proj"], "shared_expert.up_proj.weight": shared["up_proj"],
        "shared_expert.down_proj.weight": shared["down_proj"]})  # fmt: skip
    made.save(out, "qwen3-5-stacked", config, block, hidden)


def transposed(out):
    """As Qwen3-VL-MoE: experts stacked and transposed, [E, H, 2 I] and [E, I, H]; I = 128."""
    config = {
        "architectures": ["Qwen3VLMoeForConditionalGeneration"], "model_type": "qwen3_vl_moe",
        "text_config": {"model_type": "qwen3_vl_moe_text", "hidden_size": 160, "hidden_act": "silu", "moe_intermediate_size": 128,
            "num_experts": 3, "num_experts_per_tok": 2, "num_hidden_layers": 1},
        "quantization_config": FP8_BLOCKS,
    }  # fmt: skip
    made = Folder(15)
    base, hidden, width, experts = "model.language_model.layers.0.mlp", 160, 128, 3
    both = [by_blocks(made.weight(2 * width, hidden)) for _ in range(experts)]
    down = [by_blocks(made.weight(hidden, width)) for _ in range(experts)]
    for name, parts in (("gate_up_proj", both), ("down_proj", down)):
        made.tensors[f"{base}.experts.{name}"] = torch.stack([p[0].view(torch.uint8).T for p in parts]).view(FP8)
        made.tensors[f"{base}.experts.{name}_scale_inv"] = torch.stack([p[1].T for p in parts])
    router = made.plain(f"{base}.gate.weight", made.weight(experts, hidden))
    keys = {k: v for k, v in config["text_config"].items() if k != "model_type"}
    block = load(vl.Qwen3VLMoeTextSparseMoeBlock(vl_config.Qwen3VLMoeTextConfig(**keys)), {
        "experts.gate_up_proj": torch.stack([p[2] for p in both]), "experts.down_proj": torch.stack([p[2] for p in down]),
        "gate.weight": router})  # fmt: skip
    made.save(out, "qwen3-vl-transposed", config, block, hidden)


def gpt_oss(out):
    """As gpt-oss: MXFP4 blocks whose gate and up lie in turns, biases everywhere, the clamped activation; I = 64."""
    config = {
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 96, "hidden_act": "silu", "intermediate_size": 64,
        "num_local_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 1, "swiglu_limit": 7.0,
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"]},
    }  # fmt: skip
    made = Folder(16)
    base, hidden, width, experts = "model.layers.0.mlp", 96, 64, 4
    real = {}
    for name, rows, cols in (("gate_up_proj", 2 * width, hidden), ("down_proj", hidden, width)):
        parts = [mxfp4(2 * made.weight(rows, cols)) for _ in range(experts)]
        made.tensors[f"{base}.experts.{name}_blocks"] = torch.stack([p[0] for p in parts])
        made.tensors[f"{base}.experts.{name}_scales"] = torch.stack([p[1] for p in parts])
        real["experts." + name] = torch.stack([p[2].T for p in parts])
        real[f"experts.{name}_bias"] = made.plain(f"{base}.experts.{name}_bias", heavy(made.generator, experts, rows))
    real["router.weight"] = made.plain(f"{base}.router.weight", made.weight(experts, hidden))
    real["router.bias"] = made.plain(f"{base}.router.bias", heavy(made.generator, experts))
    keys = {k: v for k, v in config.items() if k not in ("architectures", "model_type", "quantization_config")}
    made.save(out, "gpt-oss", config, load(oss.GptOssMLP(oss_config.GptOssConfig(**keys)), real), hidden)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    for make in (deepseek, qwen3_moe, mixtral_channels, stacked, transposed, gpt_oss):
        make(out)


if __name__ == "__main__":
    main()
