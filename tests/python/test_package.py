# SPDX-License-Identifier: Apache-2.0
"""The package as it is installed: import, command, checkpoints, documentation."""
import doctest
import importlib
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import ironcl


def python(text):
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)


def test_import_opens_no_driver_and_no_numpy():
    done = python("import ironcl, sys; maps = open('/proc/self/maps').read(); assert 'OpenCL' not in maps and 'ironcl_opencl' not in maps, maps;"
                  "assert 'torch' not in sys.modules and 'numpy' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_the_stub_has_every_name_of_the_extension_module():
    from importlib.resources import files

    from ironcl import _core
    stub = (files("ironcl") / "_core.pyi").read_text()
    for name in (name for name in dir(_core) if not name.startswith("_")):
        assert re.search(rf"^(def|class) {name}\b", stub, re.MULTILINE), name


def test_the_module_is_the_command():
    commands = [[sys.executable, "-m", "ironcl"]]
    if "site-packages" in ironcl.__file__:  # A build tree has no scripts.
        commands.append([f"{pathlib.Path(sys.executable).parent}/ironcl"])
    for command in commands:
        assert "ironwood:0" in subprocess.run([*command, "devices"], capture_output=True, text=True, check=True).stdout
        assert subprocess.run([*command, "nothing"], capture_output=True, check=False).returncode == 2


def test_diagnose_says_what_there_is(monkeypatch):
    text = ironcl.diagnose()
    assert "libOpenCL.so.1" in text and "ironwood:0" in text
    library = ironcl._core.__file__  # As the packaged driver is named to the loader.
    monkeypatch.setenv("OCL_ICD_VENDORS", library)
    assert f"driver       {library}: {library}: ok" in ironcl.diagnose()


@pytest.mark.parametrize("module", ["ironcl", "ironcl._linear", "ironcl._experts", "ironcl._devices", "ironcl._command"])
def test_examples_of_docstrings_run(module):
    failed, tried = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert tried > 0 and failed == 0


@pytest.fixture
def checkpoint(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    random = np.random.default_rng(2)
    codes, scales = ironcl.quantize(random.standard_normal((256, 128)).astype(np.float32), block=(128, 128), device="ironwood:0")
    path = tmp_path / "layer.safetensors"
    safetensors.save_file({"a.weight": codes, "a.weight_scale_inv": scales}, path)
    return path, codes, scales


def test_a_checkpoints_layer_is_the_layer(checkpoint, device):
    path, codes, scales = checkpoint
    opened = ironcl.Checkpoint(path)
    assert list(opened.layers) == ["a"]
    info = opened.layers["a"]
    assert (info.n, info.k, info.dtype, info.block, info.problem) == (256, 128, "e4m3fn", (128, 128), "")
    x = np.random.default_rng(3).standard_normal((4, 128)).astype(np.float32)
    assert np.array_equal(opened.linear("a", device=device)(x), ironcl.linear(x, codes, scales, device=device))
    for made, original in zip(opened.linear("a", device=device).export(), (codes, scales)):
        assert made.dtype == original.dtype and made.tobytes() == original.tobytes()
    with pytest.raises(ironcl.Error, match="a"):
        opened.linear("b", device=device)


def test_compare_gives_rows(checkpoint):
    report = ironcl.compare(checkpoint[0], devices=["ironwood:0"], m=3)
    assert report.ok and report.rows[0]["uri"] == "ironwood:0" and report.rows[0]["m"] == 3
    assert "<table>" in report._repr_html_() and "ironwood:0" in str(report)
    with pytest.raises(ironcl.InvalidArgument):
        ironcl.compare("/nowhere")


def test_model_gives_a_time():
    assert ironcl.model(16, 1024, 1024).data["time_kind"] == "modelled"


def test_reports_are_drawn(checkpoint):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    report = ironcl.compare(checkpoint[0], devices=["ironwood:0"], m=3)
    points, limit = report.plot().lines
    assert list(points.get_xdata()) == [report.rows[0]["max_error_over_bound"]] and list(points.get_ydata()) == ["a"]
    assert limit.get_xdata() == [1, 1]
    modelled = ironcl.model(16, 1024, 1024)
    assert modelled.plot().patches[0].get_width() == modelled.data["time_us"]


def test_the_bound_is_that_of_the_library(checkpoint, tmp_path):
    """The same product of the same input: the command judges it by the C++ bound against its oracle, the package by its own."""
    torch = pytest.importorskip("torch")
    from ironcl._bound import error_over_bound
    path, codes, scales = checkpoint
    x = torch.from_numpy(np.random.default_rng(5).standard_normal((7, 128)).astype(np.float32))
    from safetensors.torch import save_file
    save_file({"x": x}, tmp_path / "x.safetensors")
    for out, options in (("f32", {}), ("bf16", {"out_dtype": "bfloat16"})):
        report = ironcl.compare(path, devices=["ironwood:0"], input=f"{tmp_path}/x.safetensors:x", out_dtype=out)
        y = ironcl.linear(x, torch.from_numpy(codes.view(np.uint8)), torch.from_numpy(scales), dtype="e4m3fn", device="ironwood:0",
                          out_dtype=options.get("out_dtype"))
        layer = ironcl.Linear(codes, scales, device="ironwood:0")
        mine = error_over_bound(layer, x, y, torch.from_numpy(codes.astype(np.float32)), torch.from_numpy(scales))
        assert mine == pytest.approx(report.rows[0]["max_error_over_bound"], rel=1e-5)


def test_the_packaged_driver_is_used_where_there_is_no_other():
    metadata = importlib.import_module("importlib.metadata")
    try:
        metadata.version("intel-opencl-rt")
    except metadata.PackageNotFoundError:
        pytest.skip("ironcl[cpu] is not installed")
    done = python("from ironcl._driver import use_packaged_driver; assert use_packaged_driver('/nowhere'); import ironcl;"
                  "assert [d.driver for d in ironcl.devices() if d.driver.startswith('Intel')], ironcl.diagnose();"
                  "assert 'Intel' in str(ironcl._command._run(['devices'])[2])")
    assert done.returncode == 0, done.stderr
