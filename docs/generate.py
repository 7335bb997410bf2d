# SPDX-License-Identifier: Apache-2.0
"""The pages of reference that are made of the sources: what each command says of itself, the JSON that it writes, the kernels,
the planted faults. conf.py calls this; the pages are in docs/generated, which is not kept."""
import itertools
import json
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
INTO = ROOT / "docs/generated"


def head(path):
    """The lines of a kernel file's first comment, behind its licence."""
    lines = path.read_text().splitlines()[1:]
    return [line[3:].rstrip() for line in itertools.takewhile(lambda line: line.startswith("//"), lines)]


def help_of(command, *words):
    return subprocess.run([command, *words, "--help"], check=True, capture_output=True, text=True).stdout


def commands(command):
    page = "# Options of the command\n\nWhat each command says of itself, options, examples and exit statuses. What it does: [command.md](../command.md).\n"
    names = re.findall(r"^  ([a-z]+) {2,}", help_of(command).partition("Subcommands:")[2].partition("\n\n")[0], re.M)
    for name in names:
        page += f"\n## ironcl {name}\n\n```text\n{help_of(command, name).strip()}\n```\n"
    return page


# Runs that show every key; OUT is a folder to be made.
REPORTS = """devices
devices --explain 16,512,512
plugins
inspect tests/data/tiny-qwen3-fp8
inspect tests/data/experts/qwen3-moe
compare tests/data/tiny-qwen3-fp8 --layer *.q_proj --m 2 --device ironwood:0 --device opencl:0
bench --shape 128x128 --m 1 --device ironwood:0
bench --shape 128x128 --m 1 --chain 2 --device ironwood:0
bench --model qwen3-30b-a3b --experts 8 --tokens 1 --runs 1 --min-ms 0 --warm-up-ms 0 --device ironwood:0
model --m 128 --n 128 --k 128
model --experts 8 --top-k 2 --tokens 4 --hidden 512 --intermediate 256
tune --shape 128x128 --m 1 --budget 20 --opt variant=gemm_stream
quantize tests/data/tiny-qwen3-fp8 OUT --scheme none --verify
accuracy --data normal:64x64"""


def sample(value):
    """A document with one element of each list of objects."""
    if isinstance(value, dict):
        return {key: sample(member) for key, member in value.items()}
    if isinstance(value, list):
        return [sample(value[0])] if value and isinstance(value[0], dict) else value[:4]
    return value


def reports(command):
    page = "# JSON of the commands\n\nWhat each command writes with `--json FILE`; of lists the first element. Meanings: [command.md](../command.md#json).\n"
    for line in REPORTS.splitlines():
        with tempfile.TemporaryDirectory() as folder:
            words = line.replace("OUT", f"{folder}/out").split()
            done = subprocess.run([command, *words, f"--json={folder}/report.json"], cwd=ROOT, capture_output=True, text=True)
            try:
                report = json.loads(pathlib.Path(folder, "report.json").read_text().replace(f"{ROOT}/", ""))
            except OSError as error:
                raise RuntimeError(f"ironcl {line}: {done.stderr}") from error
        page += f"\n## {line.split()[0]}\n\n`ironcl {line}`\n\n```json\n{json.dumps(sample(report), indent=1)}\n```\n"
    return page


def values(numbers):
    """[1, 2, 3] as "1 to 3"."""
    whole = len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]} to {numbers[-1]}" if whole else ", ".join(map(str, numbers))


def kernels(command):
    listed = subprocess.run([command, "devices", "--json", "-"], check=True, capture_output=True, text=True).stdout
    variants = next(device["variants"] for device in json.loads(listed)["devices"] if device["variants"])
    page = "# Kernels and their tunables\n\nWhat `ironcl devices --json -` says of each variant, and what each file of `cl/` says of itself. How they fit together: [kernels.md](../kernels.md).\n"
    page += "\n| variant | multiplies A by B | class | trial | what |\n|---|---|---|---|---|\n"
    for one in variants:
        trial = "yes" if one["needs_trial"] else "no"
        page += f"| [`{one['name']}`](#{one['name']}) | {'; '.join(one['multiplies'])} | {one['accuracy_class']} | {trial} | {one['summary']} |\n"
    page += "\n## What kernels share\n\n| file | what |\n|---|---|\n"
    for path in sorted(path for path in (ROOT / "cl").glob("*.cl") if path.stem not in [one["name"] for one in variants]):
        sentence = re.split(r"(?<=[a-z0-9)])[.;] ", " ".join(head(path)).partition(": ")[2])[0]
        page += f"| `{path.name}` | {sentence.replace('|', chr(92) + '|')} |\n"
    for one in variants:
        page += f"\n## {one['name']}\n\n| tunable | default | values | what |\n|---|---|---|---|\n"
        for tunable in one["tunables"]:
            page += f"| `{tunable['name']}` | {tunable['default']} | {values(tunable['values'])} | {tunable['meaning']} |\n"
        page += "".join(f"\n- {constraint}" for constraint in one["constraints"]) + "\n"
        file = ROOT / f"cl/{one['name']}.cl"
        page += f"\n```text\n{chr(10).join(head(file))}\n```\n" if file.exists() else ""
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
    for name, page in (("commands", commands(command)), ("reports", reports(command)), ("kernels", kernels(command)), ("faults", faults()),
                       ("skeleton", (ROOT / "plugins/skeleton/README.md").read_text())):
        (INTO / f"{name}.md").write_text(page)
