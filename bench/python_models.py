# SPDX-License-Identifier: Apache-2.0
"""Random models of published shapes as bf16 checkpoints, each with its fp8 twin of blocks of 128 x 128, made by torch alone.

Next door: python_peer.py (their speed), python_logits.py (their numbers).
"""
import json
import os
import pathlib
import shutil
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

_QWEN3 = dict(vocab_size=32000, head_dim=128, max_position_embeddings=4096, tie_word_embeddings=False)
#: By name: the class of the configuration and of the model, and what differs from its defaults.
MODELS = {
    "qwen3-0.6b": ("Qwen3", dict(_QWEN3, hidden_size=1024, num_hidden_layers=28, intermediate_size=3072, num_attention_heads=16,
                                 num_key_value_heads=8)),
    "qwen3-4096": ("Qwen3", dict(_QWEN3, hidden_size=4096, num_hidden_layers=8, intermediate_size=12288, num_attention_heads=32,
                                 num_key_value_heads=8)),
    "qwen3-moe": ("Qwen3Moe", dict(_QWEN3, hidden_size=1024, num_hidden_layers=4, intermediate_size=3072, moe_intermediate_size=384,
                                   num_attention_heads=16, num_key_value_heads=4, num_experts=32, num_experts_per_tok=4)),
    "deepseek-v3": ("DeepseekV3", dict(vocab_size=32000, max_position_embeddings=4096, hidden_size=1024, num_hidden_layers=4,
                                       first_k_dense_replace=1, intermediate_size=2304, moe_intermediate_size=384, num_attention_heads=8,
                                       num_key_value_heads=8, q_lora_rank=384, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64,
                                       v_head_dim=128, n_routed_experts=32, num_experts_per_tok=4, n_group=4, topk_group=2)),
}


def quantised(weight: torch.Tensor, block: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes [n, k] and scales [ceil(n / block), ceil(k / block)] of a weight; blocks at the edges are smaller."""
    n, k = weight.shape
    padded = torch.nn.functional.pad(weight.float(), (0, -k % block, 0, -n % block))
    blocks = padded.view(padded.shape[0] // block, block, padded.shape[1] // block, block)
    scales = blocks.abs().amax((1, 3)).clamp(min=1e-10) / 448
    codes = (blocks / scales[:, None, :, None]).clamp(-448, 448).to(torch.float8_e4m3fn)
    return codes.view(padded.shape)[:n, :k].contiguous(), scales


def make(name: str, folder: pathlib.Path) -> pathlib.Path:
    """The folder of model ``name``, with bf16/ and fp8/; made where it is not there."""
    made = folder / name
    if made.exists():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    partial = pathlib.Path(tempfile.mkdtemp(dir=folder))
    family, sizes = MODELS[name]
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    try:
        model = getattr(transformers, family + "ForCausalLM")(getattr(transformers, family + "Config")(**sizes))
    finally:
        torch.set_default_dtype(torch.float32)
    model.get_input_embeddings().weight.data.normal_(0, 1)  # so that layers perturb the stream, as in a trained model
    model.save_pretrained(partial / "bf16")
    del model
    (partial / "fp8").mkdir()
    for file in (partial / "bf16").glob("*.safetensors"):
        tensors = {}
        for key, weight in load_file(file).items():
            tensors[key] = weight
            if "_proj" in key and weight.ndim == 2:
                tensors[key], tensors[key + "_scale_inv"] = quantised(weight)
        save_file(tensors, partial / "fp8" / file.name, metadata={"format": "pt"})
    config = json.loads((partial / "bf16/config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
    (partial / "fp8/config.json").write_text(json.dumps(config))
    for file in (partial / "bf16").glob("*.json"):
        if file.name != "config.json" and "index" not in file.name:
            shutil.copy(file, partial / "fp8")
    os.rename(partial, made)
    return made


def load(root: pathlib.Path, how: str) -> torch.nn.Module:
    """A model of ``make``: "bf16", "f32" (of the bf16 weights), "fp8 today" (what transformers makes of it here) or "ironcl"."""
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if how == "ironcl":
        import ironcl.transformers
        ironcl.transformers.enable()
    dtype = torch.float32 if how == "f32" else torch.bfloat16
    return transformers.AutoModelForCausalLM.from_pretrained(root / ("fp8" if how in ("ironcl", "fp8 today") else "bf16"), dtype=dtype).eval()


def prompt(tokens: int = 128) -> torch.Tensor:
    return torch.randint(0, 32000, (1, tokens), generator=torch.Generator().manual_seed(7))
