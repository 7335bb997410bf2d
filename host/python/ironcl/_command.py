# SPDX-License-Identifier: Apache-2.0
"""The ``ironcl`` command from Python: its reports as objects."""
from __future__ import annotations

import os
import sys
from typing import Any

from ._driver import use_packaged_driver
from ._errors import Error, InvalidArgument, Unavailable

_BAD = {2: InvalidArgument, 3: InvalidArgument, 4: Unavailable}


def command_path() -> str:
    """The command inside the package."""
    from importlib.resources import files
    return str(files("ironcl") / "bin" / "ironcl")


def main() -> None:
    """Runs the command with this process's arguments and standard streams."""
    use_packaged_driver()
    os.execv(command_path(), ["ironcl", *sys.argv[1:]])


class Report:
    """What a command found: ``ok``, the ``rows`` of its table, its ``text``, and ``data``, the whole of its JSON."""

    def __init__(self, ok: bool, rows: list[dict[str, Any]], text: str, data: Any) -> None:
        self.ok, self.rows, self.text, self.data = ok, rows, text, data

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        import html
        columns = list(dict.fromkeys(key for row in self.rows for key, value in row.items() if not isinstance(value, (dict, list))))
        head = "".join(f"<th>{html.escape(key)}</th>" for key in columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(str(row.get(key, '')))}</td>" for key in columns) + "</tr>" for row in self.rows)
        return f"<p><b>{'ok' if self.ok else 'out of bounds'}</b></p><table><tr>{head}</tr>{body}</table>"


    def plot(self, ax: Any = None) -> Any:
        """Draws the report by matplotlib, into ``ax`` or a new figure, and returns the axes: of ``compare`` the largest error of each
        layer over its bound, per device; of ``model`` how long each unit is busy, beside the modelled time."""
        if ax is None:
            import matplotlib.pyplot as plt
            ax = plt.subplots(layout="constrained")[1]
        if "busy_us" in self.rows[0]:
            bars = {"time": self.rows[0]["time_us"]} | self.rows[0]["busy_us"]
            ax.barh(list(bars), list(bars.values()))
            ax.invert_yaxis()
            ax.set(xlabel="modelled us", title=self.rows[0].get("tpu_name", ""))
            return ax
        for device in dict.fromkeys(row["uri"] for row in self.rows):
            of = [row for row in self.rows if row["uri"] == device]
            ax.plot([row["max_error_over_bound"] for row in of], [row["layer"] for row in of], "o", label=device)
        ax.axvline(1, color="black")
        ax.invert_yaxis()
        ax.set(xscale="log", xlabel="largest error / bound")
        ax.legend()
        return ax


def _run(arguments: list[str]) -> tuple[int, str, Any]:
    import json
    import subprocess
    import tempfile
    use_packaged_driver()
    with tempfile.TemporaryDirectory(prefix="ironcl-") as folder:
        file = os.path.join(folder, "report.json")
        done = subprocess.run([command_path(), *arguments, "--json", file], capture_output=True, text=True, check=False)
        if not os.path.exists(file):
            raise _BAD.get(done.returncode, Error)(done.stderr.strip() or f"ironcl {arguments[0]} ended with status {done.returncode}")
        with open(file, encoding="utf-8") as text:
            return done.returncode, done.stdout, json.load(text)


def _options(options: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value not in (None, False):
            for one in value if isinstance(value, (list, tuple)) else [value]:
                words += [flag, str(one)]
    return words


def compare(path: str | os.PathLike[str], layer: str = "*", devices: list[str] | None = None, **options: Any) -> Report:
    """Runs layers of a checkpoint on every device (or ``devices``) and judges each element against its bound.

    ``options`` are those of ``ironcl compare`` (``m=16``, ``weight_only=True``, ``out_dtype="bf16"``, ...). An interrupt ends it.
    """
    words = ["compare", os.fspath(path), "--layer", layer] + [word for uri in devices or [] for word in ("--device", uri)]
    status, text, data = _run(words + _options(options))
    rows = [{key: case[key] for key in ("layer", "m", "n", "k")} | device for case in data["cases"] for device in case["devices"]]
    return Report(status == 0, rows, text, data)


def model(m: int, n: int, k: int, **options: Any) -> Report:
    """The modelled time, memory and schedule of the kernel on a TPU; ``options`` are those of ``ironcl model``. A modelled
    time is never compared with a measured one.

    Examples
    --------
    >>> import ironcl
    >>> ironcl.model(16, 1024, 1024).data["grid"]
    [1, 8, 1]
    """
    status, text, data = _run(["model", "--m", str(m), "--n", str(n), "--k", str(k)] + _options(options))
    return Report(status == 0, data if isinstance(data, list) else [data], text, data)
