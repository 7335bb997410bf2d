# SPDX-License-Identifier: Apache-2.0
"""Models of transformers: layers inside their bounds, weights given back, what cannot be done refused."""
import copy
import importlib.util
import json
import pathlib
import pickle
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import ironcl  # noqa: E402
import ironcl.transformers  # noqa: E402
from ironcl.torch import Linear, Shared, Weights  # noqa: E402

SIZES = dict(hidden_size=256, num_hidden_layers=2, intermediate_size=384, num_attention_heads=4, num_key_value_heads=2, head_dim=64, vocab_size=512,
             tie_word_embeddings=False)
IDS = torch.arange(9)[None] * 7


CHANNELS = {"quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed", "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True,
                                                                            "dynamic": False},
                                          "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True}}}}
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}


@pytest.fixture(scope="module", params=["dense", "experts", "channels"])
def folder(request, tmp_path_factory):
    """A random model as an fp8 checkpoint, made by torch alone."""
    from safetensors.torch import load_file, save_file
    if request.param == "channels":
        pytest.importorskip("compressed_tensors")
    torch.manual_seed(0)
    if request.param != "experts":
        model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES))
    else:
        model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**SIZES, moe_intermediate_size=128, num_experts=8, num_experts_per_tok=2))
    path = tmp_path_factory.mktemp(request.param)
    model.to(torch.bfloat16).save_pretrained(path)
    tensors = {}
    for name, w in load_file(path / "model.safetensors").items():
        tensors[name] = w
        if name.endswith("proj.weight"):
            rows, cols = (1, w.shape[1]) if request.param == "channels" else (128, 128)
            blocks = w.float().reshape(w.shape[0] // rows, rows, w.shape[1] // cols, cols)
            scale = blocks.abs().amax((1, 3)) / 448
            tensors[name] = (blocks / scale[:, None, :, None]).to(torch.float8_e4m3fn).reshape(w.shape)
            tensors[name + ("_scale" if request.param == "channels" else "_scale_inv")] = scale
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((path / "config.json").read_text())
    config["quantization_config"] = CHANNELS if request.param == "channels" else BLOCKS
    (path / "config.json").write_text(json.dumps(config))
    return path, tensors


@pytest.fixture
def model(folder, device):
    ironcl.transformers.enable(device=device)
    try:
        yield transformers.AutoModelForCausalLM.from_pretrained(folder[0], dtype=torch.bfloat16).eval()
    finally:
        ironcl.transformers.disable()


def test_each_layer_is_inside_its_bound(model):
    checks = ironcl.transformers.verify(model, input_ids=IDS)
    assert checks, str(checks)
    assert len(checks) == 8  # of each of two layers: q + k + v, o, and of the experts or the MLP two products
    assert all(0 < check.error_over_bound <= 1 for check in checks)


@pytest.mark.parametrize("part", ["q_proj", "gate_proj", "down_proj"])
def test_verify_finds_a_wrong_layer(model, part):
    module = next((m for name, m in model.named_modules() if name.endswith(part) and hasattr(m, "_held")), None)
    if module is None:
        pytest.skip("of experts, whose matrices are in one module")
    held = module._held["weight"]
    right = held.layer
    codes, scales = right.export(like=torch.empty(0))
    held.layer = ironcl.Linear(codes, scales, block=right.block, device=right.device)
    held.layer.export = lambda like=None: (codes, scales * 1.01)  # what the checkpoint is said to have
    assert not ironcl.transformers.verify(model, input_ids=IDS)


def test_saving_gives_the_same_bytes(model, folder, tmp_path):
    from safetensors.torch import load_file
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert saved.keys() == folder[1].keys()
    for name, tensor in folder[1].items():
        assert saved[name].dtype == tensor.dtype and torch.equal(saved[name].view(torch.uint8), tensor.view(torch.uint8)), name
    assert json.loads((tmp_path / "config.json").read_text())["quantization_config"]["quant_method"] in ("fp8", "compressed-tensors")


def test_joined_layers_give_the_bits_of_single_ones(folder, device):
    models = []
    for join in (True, False):
        ironcl.transformers.enable(device=device, join=join)
        try:
            models.append(transformers.AutoModelForCausalLM.from_pretrained(folder[0], dtype=torch.bfloat16).eval())
        finally:
            ironcl.transformers.disable()
    for name, module in models[0].named_modules():
        if "weight" in getattr(module, "_held", ()):
            x = torch.randn(5, module.in_features).bfloat16()
            with torch.inference_mode():
                assert torch.equal(module(x), models[1].get_submodule(name)(x)), name


def test_a_gated_mlp_is_one_call(model):
    mlp = next((m for m in model.modules() if hasattr(m, "_mlp")), None)
    if mlp is None:
        pytest.skip("experts have calls of their own")
    x, seen = torch.randn(3, 256).bfloat16(), []
    gate_up, down = (getattr(mlp, name)._held["weight"].layer for name in ("gate_proj", "down_proj"))
    with torch.inference_mode():
        y, h = mlp(x), gate_up._run(x, gated=True, out_dtype=torch.float32)
        assert torch.equal(y, down(h, out_dtype=torch.bfloat16))
        assert torch.equal(torch.compile(mlp, fullgraph=True, backend="aot_eager")(x), y)
        steps = mlp.act_fn(mlp.gate_proj(x)) * mlp.up_proj(x)
        assert (steps - h).abs().max() < 0.02 * h.abs().max()
        hook = mlp.down_proj.register_forward_hook(lambda *_: seen.append(1))
        assert torch.equal(mlp(x), mlp.down_proj(steps)) and len(seen) == 2
        hook.remove()
        mlp.down_proj = torch.nn.Identity()  # as an adapter would
        assert torch.equal(mlp(x), steps)


def test_what_cannot_be_done_is_refused(model):
    layer = next(module for module in model.modules() if hasattr(module, "_held"))
    for act in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="save_pretrained"):
            act(layer)
    with pytest.raises(RuntimeError, match="no gradients"):
        model(input_ids=IDS)
    with pytest.raises(RuntimeError, match="from_pretrained"):
        model.load_state_dict(model.state_dict())
    with pytest.raises(RuntimeError, match="fp8 weights"):
        torch.nn.Module.half(model)


def test_a_layer_that_cannot_run_is_refused_at_load(folder, tmp_path, device):
    config = json.loads((folder[0] / "config.json").read_text())
    quantization = config["quantization_config"]
    if "config_groups" in quantization:
        quantization["config_groups"]["group_0"]["input_activations"].update(dynamic=False, strategy="tensor")
    else:
        quantization["activation_scheme"] = "static"
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").symlink_to(folder[0] / "model.safetensors")
    ironcl.transformers.enable(device=device)
    try:
        with pytest.raises(ironcl.Unsupported, match="proj.*static|experts.*static|group_0.*dynamically"):
            transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    finally:
        ironcl.transformers.disable()


def test_disable_gives_transformers_its_own_back():
    from transformers.quantizers import auto
    before = auto.AUTO_QUANTIZER_MAPPING["fp8"]
    ironcl.transformers.enable()
    ironcl.transformers.enable()
    assert auto.AUTO_QUANTIZER_MAPPING["fp8"] is ironcl.transformers.Quantizer
    ironcl.transformers.disable()
    assert auto.AUTO_QUANTIZER_MAPPING["fp8"] is before


def module_of(device):
    torch.manual_seed(1)
    codes, scales = ironcl.quantize(torch.randn(256, 128), block=(128, 128), device=device)
    return Linear(codes, scales, device=device), codes, scales


def test_the_operator_passes_opcheck(device):
    module, _, _ = module_of(device)
    torch.library.opcheck(torch.ops.ironcl.linear, (torch.randn(3, 128), module.weights.handle, 256),
                          test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"))


def test_a_module_compiles_as_one_graph(device):
    module, _, _ = module_of(device)
    compiled = torch.compile(torch.nn.Sequential(module, torch.nn.ReLU()), fullgraph=True, backend="aot_eager")
    x = torch.randn(3, 128)
    with torch.inference_mode():
        assert torch.equal(compiled(x), module(x).relu())


def test_joined_layers_compile_to_one_product(device):
    torch.manual_seed(2)
    joint = ironcl.Linear(*ironcl.quantize(torch.randn(256, 128), block=(128, 128), device=device), device=device)
    shared, calls = Shared(2), []
    first, second = (Weights(joint, shared, index, 128 * index, 128) for index in range(2))

    def count(graph, inputs):
        calls.append(sum("ironcl" in str(node.target) for node in graph.graph.nodes))
        return graph.forward

    x = torch.randn(3, 128)
    with torch.inference_mode():
        y = torch.compile(lambda x: first(x) * second(x), fullgraph=True, backend=count)(x)
        assert torch.equal(y, joint(x)[:, :128] * joint(x)[:, 128:]) and calls == [1]


def test_state_dict_has_the_weights(device):
    module, codes, scales = module_of(device)
    state = module.state_dict()
    assert torch.equal(state["weight"].view(torch.uint8), codes.view(torch.uint8)) and torch.equal(state["weight_scale"], scales)


def test_workers_of_torch_join_calls_of_a_cpu(device):
    """A call with tensors takes OpenMP's workers in, so that they yield: in a new process it makes them."""
    text = """if True:
        import os, sys, numpy, torch, ironcl
        layer = ironcl.Linear(numpy.zeros((256, 128), "u1"), numpy.ones((2, 1), "f4"), dtype="e4m3fn", device=sys.argv[1])
        x, threads = numpy.ones((1, 128), "f4"), []
        for rows in (x, torch.from_numpy(x)):
            layer(rows)
            threads.append(len(os.listdir("/proc/self/task")))
        print(threads[1] - threads[0] == (0 if sys.argv[1] == "ironwood:0" else torch.get_num_threads() - 1))"""
    assert subprocess.run([sys.executable, "-c", text, device], capture_output=True, text=True, check=True).stdout == "True\n"


def test_the_tutorial_runs(folder, tmp_path, monkeypatch):
    """Every block of Python in docs/python.md, one after another, with a random model in place of the published one."""
    pages = [here / "python.md" for here in (pathlib.Path(__file__).parent, pathlib.Path(__file__).parents[2] / "docs")]
    text = next(page for page in pages if page.exists()).read_text()
    for file in folder[0].iterdir():
        (tmp_path / file.name).symlink_to(file)
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0, "Water": 1, "boils": 2, "at": 3}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?", pad_token="?").save_pretrained(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 5
    names = {}
    try:
        for block in blocks:
            exec(block.replace("Qwen/Qwen3-0.6B-FP8", str(tmp_path)), names)
    finally:
        ironcl.transformers.disable()
    assert names["written"].shape == (1, 3 + 20) and names["layer"].out_features == 1024


def test_an_older_transformers_is_refused(monkeypatch):
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "5.22.0")
    spec = importlib.util.find_spec("ironcl.transformers")
    with pytest.raises(ImportError, match="5.23 or later.*5.22.0 is installed"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
