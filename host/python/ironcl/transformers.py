# SPDX-License-Identifier: Apache-2.0
"""fp8 checkpoints in transformers, without being dequantised.

    import ironcl.transformers
    ironcl.transformers.enable()                       # before from_pretrained
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B-FP8")
    print(ironcl.transformers.verify(model, **tokenizer("Hello", return_tensors="pt")))

``enable`` replaces the quantiser of "fp8" checkpoints until ``disable``; ``convert`` does it for a model that was loaded with
fp8 weights.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import torch
from transformers.integrations import finegrained_fp8
from transformers.quantizers import auto
from transformers.quantizers.quantizer_finegrained_fp8 import FineGrainedFP8HfQuantizer

from . import _linear
from . import torch as ironcl_torch
from ._bound import error_over_bound
from ._devices import supports
from ._errors import Unsupported
from .torch import Shared, Weights, release_pages

_options: dict[str, Any] = {}
_replaced: dict[str, type] = {}
#: Modules of one input, whose weights may become one product.
_TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
_EXPERTS = ("gate_up_proj", "down_proj")


def _refuse(module: torch.nn.Module) -> None:
    """Raises where a layer cannot be run, with the reason."""
    if module.activation_scheme != "dynamic":
        raise Unsupported("its activations have static scales; ironcl.Checkpoint runs such a layer, transformers' module does not")
    if module.block_size is None:
        raise Unsupported("its weights have one scale for the whole matrix, for which transformers quantises activations by tensor")


def _take(module: torch.nn.Module, name: str, scale: str) -> tuple[torch.Tensor, torch.Tensor]:
    return getattr(module, name).data, getattr(module, scale).data


def _let_go(module: torch.nn.Module, *names: str) -> None:
    for name in names:
        tensor = getattr(module, name).data
        release_pages(tensor)
        setattr(module, name, torch.nn.Parameter(torch.empty(0, dtype=tensor.dtype), requires_grad=False))


class _Held(torch.nn.Module):
    """What converted modules share: weights that are in the device's form only, and come back in ``state_dict``."""

    _held: dict[str, Weights]

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, weights in self._held.items():
            codes, scales = weights.export()
            destination[prefix + name] = codes
            destination[prefix + name + "_scale_inv"] = scales

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


def _prepare(modules: list[torch.nn.Module], options: dict[str, Any]) -> None:
    """Prepares the weights of one module, or of several of one input as one product."""
    pairs = [_take(module, "weight", "weight_scale_inv") for module in modules]
    rounding = "power_of_two" if pairs[0][1].dtype == torch.float8_e8m0fnu else "exact"
    biases = [module.bias for module in modules]
    layer = _linear.Linear(
        pairs[0][0] if len(pairs) == 1 else torch.cat([codes.view(torch.uint8) for codes, _ in pairs]).view(pairs[0][0].dtype),
        pairs[0][1] if len(pairs) == 1 else torch.cat([scales for _, scales in pairs]),
        block=tuple(modules[0].block_size), bias=None if biases[0] is None else torch.cat([bias.data for bias in biases]),
        scale_rounding=rounding, **options)
    shared = Shared(len(modules)) if len(modules) > 1 else None
    start = 0
    for index, module in enumerate(modules):
        held = {"weight": Weights(layer, shared, index, start, module.out_features)}
        start += module.out_features
        _let_go(module, "weight", "weight_scale_inv")
        module.__class__, module._held = Linear, held


def _prepare_experts(module: torch.nn.Module, options: dict[str, Any]) -> None:
    held = {}
    for name in _EXPERTS:
        codes, scales = _take(module, name, name + "_scale_inv")
        held[name] = Weights(_linear.Linear(codes, scales, block=tuple(module.block_size),
                                            scale_rounding="power_of_two" if scales.dtype == torch.float8_e8m0fnu else "exact", **options))
    for name in _EXPERTS:
        _let_go(module, name, name + "_scale_inv")
    module.__class__, module._held = Experts, held


def _can_join(modules: list[torch.nn.Module | None]) -> bool:
    if any(type(module) is not finegrained_fp8.FP8Linear for module in modules):
        return False
    first = modules[0]
    return all(module.in_features == first.in_features and module.block_size == first.block_size
               and (module.bias is None) == (first.bias is None) and module.weight_scale_inv.dtype == first.weight_scale_inv.dtype
               and module.out_features % first.block_size[0] == 0 for module in modules)


def convert(model: torch.nn.Module, *, device: Any = "auto", accuracy: str = "f32", join: bool = True) -> torch.nn.Module:
    """Prepares every fp8 layer of a loaded model for a device, in place. ``join``: q, k, v and gate, up become one product.

    A layer that cannot be run raises ``ironcl.Unsupported`` with its name, before anything has changed.
    """
    options = {"device": _linear.open_device(device), "accuracy": accuracy}
    linears = {name: module for name, module in model.named_modules() if type(module) is finegrained_fp8.FP8Linear}
    experts = {name: module for name, module in model.named_modules() if type(module) is finegrained_fp8.FP8Experts}
    grouped = [name for name, module in model.named_modules() if type(module) is finegrained_fp8.FP8GroupedLinear]
    if grouped:
        raise Unsupported(f"{grouped[0]} is an FP8GroupedLinear, which ironcl does not run")
    for name, module in {**linears, **experts}.items():
        try:
            _refuse(module)
            if isinstance(module, finegrained_fp8.FP8Experts):
                if not module.has_gate or module.gate_up_proj.dtype != torch.float8_e4m3fn:
                    raise Unsupported(f"its experts are {module.up_proj.dtype if not module.has_gate else module.gate_up_proj.dtype} "
                                      f"{'with' if module.has_gate else 'without'} a gate; gated experts of float8_e4m3fn are run")
            else:
                answer = supports(module.out_features, module.in_features, block=tuple(module.block_size), device=options["device"], accuracy=accuracy)
                if not answer:
                    raise Unsupported(answer.reason)
        except Unsupported as error:
            raise Unsupported(f"{name}: {error}") from None
    with torch.no_grad():
        for parent in list(model.modules()):
            for names in _TOGETHER if join else ():
                members = [getattr(parent, name, None) for name in names]
                if _can_join(members):
                    _prepare(members, options)
        for module in linears.values():
            if type(module) is finegrained_fp8.FP8Linear:
                _prepare([module], options)
        for module in experts.values():
            _prepare_experts(module, options)
    return model


class Quantizer(FineGrainedFP8HfQuantizer):
    """transformers' quantiser of "fp8" checkpoints, which keeps the weights and gives them to ironcl."""

    def validate_environment(self, *args: Any, **kwargs: Any) -> None:
        if not self.pre_quantized:
            raise Unsupported("ironcl runs checkpoints that are quantised already; this one is not")
        devices = kwargs.get("device_map")
        devices = devices.values() if isinstance(devices, dict) else [devices]
        other = [str(device) for device in devices if device is not None and str(device) not in ("cpu", "auto")]
        if other:
            raise ValueError(f"device_map names {other[0]}; expected 'cpu': ironcl's own device is named in ironcl.transformers.enable(device=)")

    def _process_model_after_weight_loading(self, model: Any, **kwargs: Any) -> Any:
        model = super()._process_model_after_weight_loading(model, **kwargs)
        return convert(model, **_options)


def enable(device: Any = "auto", accuracy: str = "f32", join: bool = True) -> None:
    """From now on ``from_pretrained`` runs the layers of "fp8" checkpoints by ironcl; the parameters are ``convert``'s."""
    _linear.accuracy_class(accuracy)
    _options.update(device=device, accuracy=accuracy, join=join)
    _replaced.setdefault("fp8", auto.AUTO_QUANTIZER_MAPPING["fp8"])
    auto.AUTO_QUANTIZER_MAPPING["fp8"] = Quantizer


def disable() -> None:
    """Gives transformers its own quantiser back; models that were loaded stay as they are."""
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
        worst[name] = LayerCheck(name, before.rows + y.numel() // layer.out_features, max(before.error_over_bound, error))

    ironcl_torch.observer = observe
    try:
        with torch.inference_mode():
            model(**inputs)
    finally:
        ironcl_torch.observer = None
    return Verification(worst.values())
