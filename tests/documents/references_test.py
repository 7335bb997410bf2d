# SPDX-License-Identifier: Apache-2.0
"""Every link of a document leads to a file that is there, and to a heading of it where it names one; every document
that a source names and every test that a document names is there; every file of kernels says what it is. Next door:
tests/cli/documents_test.cpp (what documents say of the command)."""
import importlib.util
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("backends", "bench", "cl", "docs", "host", "plugins", "tests")
SOURCES = {".c", ".cl", ".cpp", ".faults", ".h", ".hpp", ".py", ".sh", ".supp", ".txt"}


def files():
    """All of the project's own, which a folder of builds is not."""
    yield from (path for path in ROOT.iterdir() if path.is_file())
    for room in ROOMS:
        yield from (path for path in (ROOT / room).rglob("*") if path.is_file())


def lines_of_text(document):
    """Its lines but for blocks of code."""
    inside = False
    for line in document.read_text().splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield line


def anchor(heading):
    """What a heading is called in a link, as GitHub has it."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip())
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(document):
    seen = {}
    for line in lines_of_text(document):
        found = re.match(r"#+ (.*)", line)
        if found:
            name = anchor(found.group(1))
            seen[name] = seen.get(name, -1) + 1
            yield f"{name}-{seen[name]}" if seen[name] else name


def broken_links(document):
    """Those of one document, as it writes them."""
    for line in lines_of_text(document):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, heading = target.partition("#")
            there = (document.parent / path) if path else document
            if not there.exists() or (heading and there.suffix == ".md" and heading not in anchors(there)):
                yield target


class References(unittest.TestCase):
    def test_links_of_documents_lead_somewhere(self):
        documents = [path for path in files() if path.suffix == ".md"]
        self.assertGreater(len(documents), 30)
        broken = [f"{path.relative_to(ROOT)}: {target}" for path in documents for target in broken_links(path)]
        self.assertEqual(broken, [])

    def test_documents_that_sources_name_are_there(self):
        missing = []
        for path in files():
            if path.suffix in SOURCES:
                for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                    for name in re.findall(r"\b(docs/[\w/-]+\.md)\b", line):
                        if not (ROOT / name).exists():
                            missing.append(f"{path.relative_to(ROOT)}:{number}: {name}")
        self.assertEqual(missing, [])

    def test_tests_that_documents_name_are_there(self):
        tests = {}
        for path in (ROOT / "tests").rglob("*_test.cpp"):
            for suite, name in re.findall(r"^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", path.read_text(), re.MULTILINE):
                tests.setdefault(suite, set()).add(name)
        self.assertGreater(len(tests), 100)
        missing = []
        for path in (ROOT / "docs").rglob("*.md"):
            for suite, name in re.findall(r"`([A-Z]\w+)\.([A-Z]\w+)`", path.read_text()):
                # Suites of other programs, such as the conformance suite, make their tests as they run.
                if suite in tests and name not in tests[suite]:
                    missing.append(f"{path.relative_to(ROOT)}: {suite}.{name}")
        self.assertEqual(missing, [])

    def test_every_file_of_kernels_says_what_it_is(self):
        # docs/generate.py lists them by these lines.
        silent = [path.name for path in (ROOT / "cl").glob("*.cl")
                  if not path.read_text().splitlines()[1].startswith(f"// {path.name}")]
        self.assertEqual(silent, [])

    def test_the_readme_has_the_figures_of_the_performance_pages(self):
        specification = importlib.util.spec_from_file_location("pictures", ROOT / "docs/pictures.py")
        pictures = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(pictures)
        lines = (ROOT / "README.md").read_text().splitlines()
        for marks, rows in (("| H200, ", pictures.readme_rows()), (("| Xeon", "| EPYC"), pictures.readme_cpu_rows())):
            self.assertEqual([line for line in lines if line.startswith(marks)], rows, "run docs/pictures.py")

    def test_a_heading_is_called_as_in_links(self):
        self.assertEqual(anchor("`gemm_amx`: tiles, and what they (don't) do"), "gemm_amx-tiles-and-what-they-dont-do")


if __name__ == "__main__":
    unittest.main()
