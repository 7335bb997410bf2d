# SPDX-License-Identifier: Apache-2.0
"""Functions that write a checkpoint folder with somebody's tool. Each returns a function of the folder.

Tools are imported where they are used: a missing one costs its own folders only.
"""

import json
import os
import subprocess
import sys

import torch
from safetensors.torch import save_file

import tiny_models


def _model(kind):
    return {"dense": tiny_models.dense, "wide": tiny_models.wide, "experts": tiny_models.experts}[kind]()


def _saved(kind, folder):
    """The unquantised model as a folder beside `folder`, and as a file."""
    source = folder + ".source"
    _model(kind).save_pretrained(source)
    return source


def _loaded(kind, folder):
    """The same model as somebody loads it: tools look for the folder that it came from."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(_saved(kind, folder), dtype=torch.bfloat16)


def _calibrate(model):
    with torch.no_grad():
        for ids in tiny_models.token_batches():
            model(ids)


def tf(model="dense", block=(32, 32), static=False, scale_fmt="float", stacked=False):
    def write(folder):
        from transformers import AutoModelForCausalLM, FineGrainedFP8Config
        from transformers.quantizers import quantizer_finegrained_fp8

        # It quantises on a CPU as well, but asks for a GPU first.
        quantizer_finegrained_fp8.FineGrainedFP8HfQuantizer.validate_environment = lambda *args, **kwargs: None
        config = FineGrainedFP8Config(
            weight_block_size=block, activation_scheme="static" if static else "dynamic", scale_fmt=scale_fmt
        )
        quantized = AutoModelForCausalLM.from_pretrained(
            _saved(model, folder), quantization_config=config, device_map="cpu"
        )
        with torch.no_grad():  # it does not calibrate: static scales are whatever the memory held
            for index, (name, parameter) in enumerate(quantized.named_parameters()):
                if name.endswith("activation_scale"):
                    parameter.copy_(0.01 + 0.001 * (index + torch.arange(parameter.numel()).reshape(parameter.shape)))
        quantized.save_pretrained(folder, **({"save_original_format": False} if stacked else {}))

    return write


def ct(scheme, model="dense", calibrate=False, kv=False):
    def write(folder):
        from datasets import Dataset
        from llmcompressor import oneshot
        from llmcompressor.modifiers.quantization import QuantizationModifier

        quantized = _loaded(model, folder)
        cache = dict(num_bits=8, type="float", strategy="tensor", dynamic=False, symmetric=True)
        recipe = QuantizationModifier(
            targets="Linear", scheme=scheme, ignore=["lm_head", "re:.*mlp.gate$"], **({"kv_cache_scheme": cache} if kv else {})
        )
        rows = [{"input_ids": ids[0].tolist(), "attention_mask": [1] * ids.shape[1]} for ids in tiny_models.token_batches()]
        data = dict(dataset=Dataset.from_list(rows), max_seq_length=16, num_calibration_samples=4) if calibrate else {}
        oneshot(model=quantized, recipe=recipe, **data)
        quantized.save_pretrained(folder)

    return write


def modelopt(config, model="dense", kv=False):
    def write(folder):
        import copy

        import modelopt.torch.quantization as mtq
        from modelopt.torch.export import export_hf_checkpoint

        chosen = copy.deepcopy(getattr(mtq, config))
        if kv:
            from modelopt.torch.quantization.utils import update_quant_cfg_with_kv_cache_quant

            chosen = update_quant_cfg_with_kv_cache_quant(chosen, mtq.FP8_KV_CFG["quant_cfg"])
        quantized = _loaded(model, folder)
        mtq.quantize(quantized, chosen, _calibrate)
        export_hf_checkpoint(quantized, export_dir=folder)

    return write


def torchao(config, model="dense", granularity=None, e5m2=False):
    def write(folder):
        import torchao.quantization as ao
        from torchao.float8 import inference
        from torchao.quantization import quant_api
        from transformers import AutoModelForCausalLM, TorchAoConfig

        # Both ask for a GPU before they quantise; the weights are quantised on any device.
        for module in (inference, quant_api):
            if hasattr(module, "_check_hardware_support"):
                module._check_hardware_support = lambda *args, **kwargs: None
            module.is_sm_at_least_89 = lambda: True
        if config == "MXDynamicActivationMXWeightConfig":
            from torchao.prototype.mx_formats import MXDynamicActivationMXWeightConfig

            chosen = MXDynamicActivationMXWeightConfig()
        else:
            members = {}
            if granularity == "PerBlock":
                members["granularity"] = (ao.PerBlock([1, 128]), ao.PerBlock([128, 128]))
            elif granularity:
                members["granularity"] = getattr(ao, granularity)()
            if e5m2:
                members["weight_dtype"] = torch.float8_e5m2
            chosen = getattr(ao, config)(**members)
        quantized = AutoModelForCausalLM.from_pretrained(
            _saved(model, folder), dtype=torch.bfloat16, quantization_config=TorchAoConfig(chosen), device_map="cpu"
        )
        quantized.save_pretrained(folder)

    return write


def quanto(weights, activations=None):
    def write(folder):
        from optimum import quanto as q

        quantized = _loaded("dense", folder)
        q.quantize(quantized, weights=getattr(q, weights), activations=activations and getattr(q, activations), exclude="lm_head")
        if activations:
            with q.Calibration():
                _calibrate(quantized)
        q.freeze(quantized)
        q.QuantizedModelForCausalLM(quantized).save_pretrained(folder)

    return write


def quark(folder):
    from quark.torch import ModelQuantizer, export_safetensors
    from quark.torch.quantization.config import config as c
    from torch.utils.data import DataLoader

    layer = getattr(c, "QLayerConfig", None) or c.QuantizationConfig
    whole = getattr(c, "QConfig", None) or c.Config
    spec = c.FP8E4M3PerTensorSpec(observer_method="min_max", is_dynamic=False).to_quantization_spec()
    quantizer = ModelQuantizer(whole(global_quant_config=layer(weight=spec, input_tensors=spec), exclude=["lm_head"]))
    data = DataLoader(torch.cat(tiny_models.token_batches()), batch_size=1)
    quantized = quantizer.freeze(quantizer.quantize_model(_model("dense"), data))
    with torch.no_grad():
        export_safetensors(quantized, folder)


def comfy(*options):
    def write(folder):
        source = _saved("dense", folder)
        os.makedirs(folder)
        subprocess.run(
            [sys.executable, "-m", "convert_to_quant.convert_to_quant", "-i", f"{source}/model.safetensors"]
            + ["-o", f"{folder}/model.safetensors", "--comfy_quant", "--device", "cpu", "--simple", *options],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    return write


def fireworks(folder):
    from fireworks_prequant import bw128_quantization_config, quantize_weight_bw128

    tensors = {}
    for name, tensor in _model("wide").state_dict().items():
        if name.endswith("proj.weight"):
            tensors.update(quantize_weight_bw128(name, tensor, device="cpu"))
        else:
            tensors[name] = tensor
    _write_folder(folder, tensors, bw128_quantization_config())


def bitsandbytes(kind):
    def write(folder):
        from transformers import AutoModelForCausalLM, BitsAndBytesConfig

        config = BitsAndBytesConfig(load_in_8bit=True) if kind == "int8" else BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
        model = AutoModelForCausalLM.from_pretrained(_saved("dense", folder), quantization_config=config, device_map="cpu")
        model.save_pretrained(folder)

    return write


def gguf(folder):
    import gguf as g

    os.makedirs(folder)
    writer = g.GGUFWriter(f"{folder}/model.gguf", "qwen3")
    weight = torch.randn(64, 64).numpy()
    writer.add_tensor("blk.0.attn_q.weight", g.quants.quantize(weight, g.GGMLQuantizationType.Q8_0), raw_dtype=g.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def torch_save(folder):
    os.makedirs(folder)
    torch.save({"a.weight": torch.randn(8, 8).to(torch.float8_e4m3fn)}, f"{folder}/pytorch_model.bin")


# --- formats whose tools are gone, or need a GPU to run: the same tensors, written by torch ---


def _write_folder(folder, tensors, quantization_config, **members):
    os.makedirs(folder)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, f"{folder}/model.safetensors", metadata={"format": "pt"})
    if quantization_config is not None:
        with open(f"{folder}/config.json", "w") as file:
            json.dump({"model_type": "qwen3", "quantization_config": quantization_config, **members}, file, indent=1)


def _quantized(weight, block_rows, block_cols, dtype=torch.float8_e4m3fn):
    rows, cols = weight.shape
    block_rows, block_cols = block_rows or rows, block_cols or cols
    codes = torch.empty_like(weight, dtype=dtype)
    scale = torch.empty(-(-rows // block_rows), -(-cols // block_cols))
    for r in range(scale.shape[0]):
        for c in range(scale.shape[1]):
            at = (slice(r * block_rows, (r + 1) * block_rows), slice(c * block_cols, (c + 1) * block_cols))
            scale[r, c] = weight[at].float().abs().max() / 448
            codes[at] = (weight[at].float() / scale[r, c]).to(dtype)
    return codes, scale


def _by_hand(folder, quantize, quantization_config, model="dense", **members):
    tensors = {}
    for name, tensor in _model(model).state_dict().items():
        tensors.update(quantize(name[: -len("weight")], tensor) if name.endswith("proj.weight") else {name: tensor})
    _write_folder(folder, tensors, quantization_config, **members)


def fbgemm_by_hand(folder):
    def quantize(prefix, weight):
        codes, scale = _quantized(weight, 1, 0)
        return {prefix + "weight": codes, prefix + "weight_scale": scale}

    _by_hand(folder, quantize, dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0, modules_to_not_convert=["lm_head"]))


def autofp8_by_hand(folder):
    def quantize(prefix, weight):
        codes, scale = _quantized(weight, 0, 0)
        return {prefix + "weight": codes, prefix + "weight_scale": scale.reshape(()), prefix + "input_scale": torch.tensor(0.0123)}

    _by_hand(folder, quantize, dict(quant_method="fp8", activation_scheme="static", ignored_layers=["lm_head"]))


def deepseek_by_hand(folder):
    def quantize(prefix, weight):
        codes, scale = _quantized(weight, 128, 128)
        return {prefix + "weight": codes, prefix + "weight_scale_inv": scale}

    config = dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[128, 128])
    _by_hand(folder, quantize, dict(config, modules_to_not_convert=["lm_head"]), model="wide")


def scaled_fp8_by_hand(folder):
    def quantize(prefix, weight):
        codes, scale = _quantized(weight, 0, 0)
        return {prefix + "weight": codes, prefix + "scale_weight": scale.reshape(()), prefix + "scale_input": torch.tensor(0.02)}

    tensors = {"scaled_fp8": torch.zeros(0).to(torch.float8_e4m3fn)}  # of two elements it would leave activations alone
    for name, tensor in _model("dense").state_dict().items():
        tensors.update(quantize(name[: -len("weight")], tensor) if name.endswith("proj.weight") else {name: tensor})
    _write_folder(folder, tensors, None)


def cast_only(folder):
    def quantize(prefix, weight):
        return {prefix + "weight": weight.to(torch.float8_e4m3fn)}

    _by_hand(folder, quantize, None)
