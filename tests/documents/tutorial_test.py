# SPDX-License-Identifier: Apache-2.0
"""Every block of commands of docs/tutorial.md runs as it stands and ends with 0. usage: tutorial_test.py FOLDER_OF_PROGRAMS
Status 77: there is no OpenCL device. Next door: references_test.py."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/tutorial.md").read_text(), re.DOTALL)
    if len(blocks) < 5:
        return f"{len(blocks)} blocks of commands: is that all of them?"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cl", "tests"):
            os.symlink(ROOT / name, pathlib.Path(folder, name))
        environment = {**os.environ, "PATH": f"{sys.argv[1]}:{os.environ['PATH']}", "XDG_CACHE_HOME": f"{sys.argv[1]}/../tutorial-cache"}
        listed = subprocess.run(["ironcl", "devices"], env=environment, capture_output=True, text=True)
        if "opencl:0" not in listed.stdout:
            return 77
        for block in blocks:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                return f"status {done.returncode}:\n{block}\n{done.stdout}"
    return 0


sys.exit(main())
