# SPDX-License-Identifier: Apache-2.0
"""fp8 checkpoints in transformers, without being dequantised.

    import ironcl.transformers
    ironcl.transformers.enable()                       # before from_pretrained
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B-FP8")
    print(ironcl.transformers.verify(model, **tokenizer("Hello", return_tensors="pt")))

``enable`` replaces the quantisers of "fp8" (fine-grained fp8) and "compressed-tensors" checkpoints until ``disable``; ``convert``
does it for a model that was loaded with fp8 weights.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import torch
import transformers

if tuple(int(part) for part in transformers.__version__.split(".")[:2]) < (5, 23):
    raise ImportError(f"ironcl.transformers needs transformers 5.23 or later, whose save_pretrained keeps the scales of experts; {transformers.__version__} "
                      "is installed: pip install -U transformers")
from transformers.activations import SiLUActivation
from transformers.integrations import compressed_tensors, finegrained_fp8
from transformers.quantizers import auto
from transformers.quantizers.quantizer_compressed_tensors import CompressedTensorsHfQuantizer
from transformers.quantizers.quantizer_finegrained_fp8 import FineGrainedFP8HfQuantizer

from . import _linear
from . import torch as ironcl_torch
from ._bound import error_over_bound
from ._devices import supports
from ._errors import Unsupported
from .torch import GatedMlp, Shared, Weights, release_pages

_SILU = (torch.nn.SiLU, SiLUActivation)
_options: dict[str, Any] = {}
_replaced: dict[str, type] = {}
#: Modules of one input, whose weights may become one product.
_TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


class _Kind(NamedTuple):
    """A class of transformers' modules: the weights that it has, with their scales, and the class that takes its place."""

    scales: dict[str, str]
    converted: type

    @staticmethod
    def of(module: Any) -> _Kind | None:
        return _KINDS.get(type(module))


def _block(module: torch.nn.Module) -> tuple[int | None, int | None]:
    """Of the weights: compressed-tensors' modules have a scale per channel."""
    return tuple(getattr(module, "block_size", (1, None)))


def _refuse(module: torch.nn.Module, options: dict[str, Any]) -> None:
    """Raises where a layer cannot be run, with the reason."""
    if getattr(module, "activation_scheme", "dynamic") != "dynamic":
        raise Unsupported("its activations have static scales; ironcl.Checkpoint runs such a layer, transformers' module does not")
    if getattr(module, "block_size", ()) is None:
        raise Unsupported("its weights have one scale for the whole matrix, for which transformers quantises activations by tensor")
    if isinstance(module, finegrained_fp8.FP8GroupedLinear):
        raise Unsupported("it is an FP8GroupedLinear, which ironcl does not run")
    if isinstance(module, finegrained_fp8.FP8Experts):
        if not module.has_gate or module.gate_up_proj.dtype != torch.float8_e4m3fn:
            raise Unsupported("its experts have no gate, or are not float8_e4m3fn")
        return
    answer = supports(module.out_features, module.in_features, block=_block(module), device=options["device"], accuracy=options["accuracy"])
    if not answer:
        raise Unsupported(answer.reason)


def _let_go(module: torch.nn.Module, *names: str) -> None:
    for name in names:
        tensor = getattr(module, name).data
        release_pages(tensor)
        setattr(module, name, torch.nn.Parameter(torch.empty(0, dtype=tensor.dtype), requires_grad=False))


class _Held(torch.nn.Module):
    """What converted modules share: weights that are in the device's form only, and come back in ``state_dict``."""

    _held: dict[str, Weights]
    _scales: dict[str, tuple[str, torch.Size]]

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, weights in self._held.items():
            scale, shape = self._scales[name]
            destination[prefix + name], scales = weights.export()
            destination[prefix + scale] = scales.reshape(shape)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the weights of this model are prepared for an ironcl device; load the new ones with from_pretrained")

    def _apply(self, function: Any, recurse: bool = True) -> Any:
        changed = function(torch.zeros(1, dtype=torch.bfloat16))
        if changed.device.type != "cpu":
            raise RuntimeError(f"layers of ironcl take CPU tensors; the model cannot go to {changed.device}")
        if function(torch.zeros(1, dtype=torch.float8_e4m3fn)).dtype != torch.float8_e4m3fn:
            raise RuntimeError("layers of ironcl hold fp8 weights, which .half(), .float() and .to(dtype) would change")
        return super()._apply(function, recurse)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a model whose layers run by ironcl cannot be pickled or copied: use save_pretrained")


class Linear(_Held, finegrained_fp8.FP8Linear):
    """An FP8Linear whose weights are prepared for a device."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._held["weight"](x)


class ChannelLinear(_Held, compressed_tensors.CompressedTensorsFP8Linear):
    """A linear layer of compressed-tensors, likewise: a scale per channel, activations quantised per token."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._held["weight"](x)


class Experts(_Held, finegrained_fp8.FP8Experts):
    """FP8Experts whose matrices are prepared for a device: two grouped products per call."""

    def forward(self, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor) -> torch.Tensor:
        slots = top_k_index.reshape(-1)
        order = torch.argsort(slots, stable=True)  # slots of no expert here (num_experts) come last
        rows = torch.bincount(slots, minlength=self.num_experts + 1)[: self.num_experts].to(torch.int32)
        order = order[: int(rows.sum())]
        tokens = order // top_k_index.shape[-1]
        gate_up = self._held["gate_up_proj"].run(hidden_states[tokens], rows=rows)
        y = self._held["down_proj"].run(self._apply_gate(gate_up), rows=rows)
        weights = top_k_weights.reshape(-1)[order, None].to(y.dtype)
        out = torch.zeros_like(hidden_states, dtype=torch.float32)
        return out.index_add_(0, tokens, (y * weights).float()).to(hidden_states.dtype)


_KINDS = {finegrained_fp8.FP8Linear: _Kind({"weight": "weight_scale_inv"}, Linear),
          finegrained_fp8.FP8GroupedLinear: _Kind({}, Linear),
          compressed_tensors.CompressedTensorsFP8Linear: _Kind({"weight": "weight_scale"}, ChannelLinear),
          finegrained_fp8.FP8Experts: _Kind({name: name + "_scale_inv" for name in ("gate_up_proj", "down_proj")}, Experts)}


def _returned(self: Any, x: Any) -> Any:
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


def _assigned(self: Any, x: Any) -> Any:
    down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
    return down_proj


def _code(function: Any) -> tuple[bytes, tuple[str, ...]] | None:
    code = getattr(function, "__code__", None)
    return code and (code.co_code, code.co_names)


class _Mlp:
    """Before the class of a gated MLP of transformers: one call, where its layers are still those that were prepared for it."""

    _mlp: GatedMlp
    _layers: dict[str, Weights]

    @staticmethod
    def can_be(module: torch.nn.Module) -> bool:
        return _code(type(module).forward) in (_code(_returned), _code(_assigned)) and isinstance(module.act_fn, _SILU)

    @staticmethod
    def prepare(module: Any) -> None:
        module._layers = {name: getattr(module, name)._held["weight"] for name in (*_TOGETHER[1], "down_proj")}
        module._mlp = GatedMlp(module._layers["gate_proj"], module._layers["down_proj"])
        module.__class__ = type(type(module).__name__, (_Mlp, type(module)), {})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name, weights in self._layers.items():
            layer = getattr(self, name)
            if getattr(layer, "_held", {}).get("weight") is not weights or "forward" in layer.__dict__ or layer._forward_hooks or layer._forward_pre_hooks:
                return super().forward(x)
        return self._mlp(x)


def _prepare(modules: list[torch.nn.Module], options: dict[str, Any]) -> None:
    """Prepares the weights of one module, or of several linear layers of one input as one product."""
    kind = _KINDS[type(modules[0])]
    held: list[dict[str, Weights]] = [{} for _ in modules]
    for name, scale in kind.scales.items():
        codes, scales = ([getattr(module, of).data for module in modules] for of in (name, scale))
        if kind.converted is ChannelLinear:
            scales = [one.reshape(-1) for one in scales]
        bias = [module.bias.data for module in modules if getattr(module, "bias", None) is not None]
        layer = _linear.Linear(
            codes[0] if len(codes) == 1 else torch.cat([one.view(torch.uint8) for one in codes]).view(codes[0].dtype), torch.cat(scales),
            block=_block(modules[0]), bias=torch.cat(bias) if bias else None,
            scale_rounding="power_of_two" if scales[0].dtype == torch.float8_e8m0fnu else "exact", **options)
        shared, start = Shared(len(modules)) if len(modules) > 1 else None, 0
        for index, module in enumerate(modules):
            size = getattr(module, "out_features", layer.out_features)
            held[index][name] = Weights(layer, shared, index, start, size)
            start += size
    for module, weights in zip(modules, held):
        module._scales = {name: (scale, getattr(module, scale).shape) for name, scale in kind.scales.items()}
        _let_go(module, *kind.scales, *kind.scales.values())
        module.__class__, module._held = kind.converted, weights


def _can_join(modules: list[torch.nn.Module | None]) -> bool:
    first = modules[0]
    scale = {finegrained_fp8.FP8Linear: "weight_scale_inv", compressed_tensors.CompressedTensorsFP8Linear: "weight_scale"}.get(type(first))
    return scale is not None and all(
        type(module) is type(first) and module.in_features == first.in_features and _block(module) == _block(first)
        and (module.bias is None) == (first.bias is None) and getattr(module, scale).dtype == getattr(first, scale).dtype
        and module.out_features % _block(first)[0] == 0 for module in modules)


def convert(model: torch.nn.Module, *, device: Any = "auto", accuracy: str = "f32", join: bool = True) -> torch.nn.Module:
    """Prepares every fp8 layer of a loaded model for a device, in place. ``join``: q, k, v become one product, a gated MLP one call.

    A layer that cannot be run raises ``ironcl.Unsupported`` with its name, before anything has changed.
    """
    options = {"device": _linear.open_device(device), "accuracy": accuracy}
    layers = {name: module for name, module in model.named_modules() if _Kind.of(module) is not None}
    for name, module in layers.items():
        try:
            _refuse(module, options)
        except Unsupported as error:
            raise Unsupported(f"{name}: {error}") from None
    with torch.no_grad():
        mlps = []
        for parent in list(model.modules()):
            for names in _TOGETHER if join else ():
                members = [getattr(parent, name, None) for name in names]
                if _can_join(members):
                    gated = names == _TOGETHER[1] and _Mlp.can_be(parent) and _Kind.of(parent.down_proj) is not None
                    try:
                        _prepare(members, options | {"_gated": gated})
                    except Unsupported:  # of the activation: as two products without it
                        gated = False
                        _prepare(members, options)
                    mlps += [parent] if gated else []
        for module in layers.values():
            if _Kind.of(module) is not None:
                _prepare([module], options)
        for module in mlps:
            _Mlp.prepare(module)
    return model


def _check_environment(quantizer: Any, device_map: Any) -> None:
    if not quantizer.pre_quantized:
        raise Unsupported("ironcl runs checkpoints that are quantised already; this one is not")
    for device in device_map.values() if isinstance(device_map, dict) else [device_map]:
        if device is not None and str(device) not in ("cpu", "auto"):
            raise ValueError(f"device_map names {device}; expected 'cpu': ironcl's own device is named in ironcl.transformers.enable(device=)")


class Quantizer(FineGrainedFP8HfQuantizer):
    """transformers' quantiser of "fp8" checkpoints, which keeps the weights and gives them to ironcl."""

    def validate_environment(self, *args: Any, **kwargs: Any) -> None:
        _check_environment(self, kwargs.get("device_map"))

    def _process_model_after_weight_loading(self, model: Any, **kwargs: Any) -> Any:
        return convert(super()._process_model_after_weight_loading(model, **kwargs), **_options)


class ChannelQuantizer(CompressedTensorsHfQuantizer):
    """The same of "compressed-tensors" checkpoints with fp8 weights and dynamic activations."""

    def __init__(self, quantization_config: Any, **kwargs: Any) -> None:
        quantization_config.use_optimized_inference = True  # fp8 weights stay; whether it can be so, transformers resolves
        super().__init__(quantization_config, **kwargs)

    def validate_environment(self, *args: Any, **kwargs: Any) -> None:
        _check_environment(self, kwargs.get("device_map"))
        self.use_fp8_kernel = True
        for name, group in self.compressor.quantization_config.config_groups.items():
            weights, inputs = group.weights, group.input_activations
            if weights is None or weights.type != "float" or weights.num_bits != 8 or weights.strategy not in ("channel", "tensor"):
                raise Unsupported(f"{name} of the checkpoint's config_groups has other weights than fp8 per channel or per tensor")
            if inputs is None or not inputs.dynamic or inputs.num_bits != 8 or group.output_activations is not None:
                raise Unsupported(f"{name} of the checkpoint's config_groups has other activations than fp8 that are quantised dynamically; "
                                  "ironcl.Checkpoint may run its layers")

    def _process_model_after_weight_loading(self, model: Any, **kwargs: Any) -> Any:
        super()._process_model_after_weight_loading(model, **kwargs)
        return convert(model, **_options)


_QUANTIZERS = {"fp8": Quantizer, "compressed-tensors": ChannelQuantizer}


def enable(device: Any = "auto", accuracy: str = "f32", join: bool = True) -> None:
    """From now on ``from_pretrained`` runs the layers of fp8 checkpoints by ironcl; the parameters are ``convert``'s."""
    _linear.accuracy_class(accuracy)
    _options.update(device=device, accuracy=accuracy, join=join)
    for name, quantizer in _QUANTIZERS.items():
        _replaced.setdefault(name, auto.AUTO_QUANTIZER_MAPPING[name])
        auto.AUTO_QUANTIZER_MAPPING[name] = quantizer


def disable() -> None:
    """Gives transformers its own quantisers back; models that were loaded stay as they are."""
    auto.AUTO_QUANTIZER_MAPPING.update(_replaced)
    _replaced.clear()


class LayerCheck(NamedTuple):
    """The largest error of a layer's elements as a share of their bounds; ``ok`` where none is above 1."""

    layer: str
    rows: int
    error_over_bound: float

    @property
    def ok(self) -> bool:
        return self.error_over_bound <= 1


class Verification(list[LayerCheck]):
    """A row per product of the model, in the order of their first call. True where every element is inside its bound."""

    def __bool__(self) -> bool:
        return bool(len(self)) and all(check.ok for check in self)

    def __str__(self) -> str:
        return "\n".join(f"{check.error_over_bound:8.4f}  {check.rows:6} rows  {check.layer}" for check in self)


def verify(model: torch.nn.Module, **inputs: Any) -> Verification:
    """Runs ``model(**inputs)`` and holds each product of a converted layer against the exact one of the same input.

    Not the model's logits: each layer by itself, since quantising amplifies a last bit from layer to layer.
    """
    names: dict[int, list[str]] = {}
    for name, module in model.named_modules():
        for part, weights in getattr(module, "_held", {}).items():
            names.setdefault(id(weights.layer), []).append(name if part == "weight" else f"{name}.{part}")
    if not names:
        raise ValueError("no layer of this model runs by ironcl; call enable() before from_pretrained, or convert(model)")
    worst: dict[str, LayerCheck] = {}

    def observe(layer: _linear.Linear, x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor | None) -> None:
        codes, scales = layer.export(like=x)
        if rows is None:
            error = error_over_bound(layer, x, y, codes, scales, layer.bias)
        else:
            sizes = rows.tolist()
            error = max(error_over_bound(layer, *parts) for parts in zip(x.split(sizes), y.split(sizes), codes, scales))
        name = " + ".join(names.get(id(layer), ["?"]))
        before = worst.get(name, LayerCheck(name, 0, 0.0))
        worst[name] = LayerCheck(name, before.rows + y.numel() // y.shape[-1], max(before.error_over_bound, error))

    ironcl_torch.observer = observe
    try:
        with torch.inference_mode():
            model(**inputs)
    finally:
        ironcl_torch.observer = None
    return Verification(worst.values())
