# SPDX-License-Identifier: Apache-2.0
"""The pages of reference that are made of the sources: what each command says of itself, the files of kernels, the planted faults.
conf.py calls this; the pages are in docs/generated, which is not kept."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
INTO = ROOT / "docs/generated"


def first_comment(path, mark):
    """The first paragraph of a file's comment behind its licence, on one line."""
    words = []
    for line in path.read_text().splitlines()[1:]:
        if not line.startswith(mark) or line.strip() == mark:
            break
        words.append(line[len(mark):].strip())
    return " ".join(words)


def help_of(command, *words):
    return subprocess.run([command, *words, "--help"], check=True, capture_output=True, text=True).stdout


def commands(command):
    page = "# Options of the command\n\nWhat each command says of itself, options, examples and exit statuses. What it does: [command.md](../command.md).\n"
    names = re.findall(r"^  ([a-z]+) {2,}", help_of(command).partition("Subcommands:")[2].partition("\n\n")[0], re.M)
    for name in names:
        page += f"\n## ironcl {name}\n\n```text\n{help_of(command, name).strip()}\n```\n"
    return page


def kernels():
    page = "# Files of kernels\n\nEach file of `cl/`, as its first lines have it. How they fit together: [kernels.md](../kernels.md).\n\n| file | what |\n|---|---|\n"
    for path in sorted((ROOT / "cl").glob("*.cl")):
        text = first_comment(path, "//").partition(": ")[2].replace("|", "\\|")
        page += f"| `{path.name}` | {text} |\n"
    return page


def faults():
    page = "# Planted faults\n\nEach is put into the sources by itself, and a test must see it ([how](../../tests/mutants/README.md)).\n"
    for path in sorted((ROOT / "tests/mutants").glob("*.faults")):
        page += f"\n## {path.stem}\n\n| fault | what |\n|---|---|\n"
        for name, what in re.findall(r"^fault ([\w-]+): (.+)$", path.read_text(), re.M):
            page += f"| {name} | {what.replace('|', chr(92) + '|')} |\n"
    return page


def generate(command):
    INTO.mkdir(exist_ok=True)
    for name, page in (("commands", commands(command)), ("kernels", kernels()), ("faults", faults())):
        (INTO / f"{name}.md").write_text(page)
