#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants one fault at a time in a copy of the sources and runs the tests that must see it.

Faults are in *.faults beside this file (README.md has their form). A fault is caught where a named test fails, hangs or
crashes. It survives where they all pass; it is stale where its text is not found exactly once. The results are written
as they come. Exit status: 0 all caught, 1 a fault survived, 2 a fault is stale, does not compile, or its tests fail (or
are all skipped) without it.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ALL_FIRSTS = "the tests that are asked first"  # A job.
IGNORED = {"build", ".git", ".cache", ".host", "__pycache__"}


class Fault:
    def __init__(self, room, build, tests, line):
        self.room, self.build, self.tests = room, build, tests
        self.name, _, self.meaning = (part.strip() for part in line.partition(":"))
        self.file, self.find, self.replace = "", [], []
        self.first = ""  # The test that saw it last time; empty: none is known, or it sees it no more.

    def judges(self):
        """The tests that are tried next: an expression of ctest."""
        return self.first or self.tests

    def pattern(self):
        words = re.split(r"\s+", "\n".join(self.find).strip())
        return re.compile(r"\s+".join(re.escape(word) for word in words))

    def apply(self, tree):
        """Writes the faulty file into `tree`; returns why not, or None."""
        path = tree / self.file
        if not path.is_file():
            return f"there is no {self.file}"
        text = path.read_text()
        found = list(self.pattern().finditer(text))
        if len(found) != 1:
            return f"its text is {len(found)} times in {self.file}, expected once"
        at = found[0]
        path.write_text(text[: at.start()] + "\n".join(self.replace).strip() + text[at.end():])
        return None


def read_faults(path):
    faults, room, build, tests, fault = [], path.stem, [], "", None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        word, _, rest = stripped.partition(" ")
        if word == "fault":
            fault = Fault(room, build, tests, rest)
            faults.append(fault)
        elif word == "build":
            if fault: fault.build = rest.split()
            else: build = rest.split()
        elif word == "tests":
            if fault: fault.tests = rest
            else: tests = rest
        elif word == "file" and fault:
            fault.file = rest
        elif word == "-" and fault:
            fault.find.append(rest)
        elif word == "+" and fault:
            fault.replace.append(rest)
        else:
            sys.exit(f"{path}:{number}: not a line of a fault: {stripped}")
    for fault in faults:
        if not (fault.file and fault.find and fault.build and fault.tests):
            sys.exit(f"{path}: fault {fault.name} lacks a file, a text, targets or tests")
    return faults


def seen_last_time():
    """Fault to test, of the last whole run: a line each of seen_by.txt."""
    return dict(line.split() for line in (HERE / "seen_by.txt").read_text().splitlines())


def source_files():
    """The files of the working tree, without what git ignores where git is there to say so."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    return [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and not IGNORED & set(p.relative_to(ROOT).parts)]


def copy_sources(to, files):
    kept = set(files)
    for name in files:
        source, target = ROOT / name, to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        # An unchanged file keeps its time, so that a second run builds nothing anew.
        if not target.is_file() or target.read_bytes() != source.read_bytes():
            shutil.copy(source, target)
    for old in [p for p in to.rglob("*") if p.is_file() and p.relative_to(to).parts[0] != "build"]:
        if str(old.relative_to(to)) not in kept:
            old.unlink()


class Copy:
    """One copy of the sources with its build; used by one thread."""

    running = set()  # Process groups, to be ended with us.

    def __init__(self, index, cores, base):
        self.tree = base / f"tree-{index}"
        self.build = self.tree / "build"
        self.cores, self.merged = cores, 0
        # All copies share ccache's entries, so that only the first one compiles what no fault touches.
        self.environment = dict(os.environ, CCACHE_BASEDIR=str(self.tree), CCACHE_NOHASHDIR="1",
                                POCL_CACHE_DIR=str(self.tree / "build" / "pocl"))

    def run(self, command, seconds):
        """Exit status and output; None where it ran out of time."""
        process = subprocess.Popen(command, cwd=self.tree, env=self.environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        Copy.running.add(process.pid)
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return None, output + "\nout of time"
        finally:
            Copy.running.discard(process.pid)

    def prepare(self, targets, sources):
        """Copies the sources, configures and builds; returns what went wrong, or None."""
        self.tree.mkdir(parents=True, exist_ok=True)
        copy_sources(self.tree, sources)
        (self.build / "pocl").mkdir(parents=True, exist_ok=True)
        status, output = self.run(["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                                   "-DIRONCL_TEST_EACH_CASE=ON"], 600)
        if status != 0:
            return f"configuring {self.tree} failed:\n{output[-3000:]}"
        status, output = self.make(targets)
        return None if status == 0 else f"the sources do not build without a fault:\n{output[-4000:]}"

    def make(self, targets, seconds=3600):
        return self.run(["cmake", "--build", "build", "-j", str(self.cores), "--target", *targets], seconds)

    def test(self, tests, seconds, *more, cores=0):
        return self.run(["ctest", "--test-dir", "build", "-R", tests, "-LE", "heavy", "-j", str(cores or self.cores), "--timeout",
                         "600", "--output-on-failure", "--no-tests=error", *more], seconds)


def failed_tests(output):
    names = re.findall(r"^\s*\d+ - (\S+)(?: .*)? \((?:Failed|Timeout|SEGFAULT|Subprocess aborted|Child aborted|ILLEGAL|"
                       r"NUMERICAL|OTHER_FAULT|Exit code[^)]*|BUS)\)?", output, re.M)
    return names or re.findall(r"^\s*\d+ - (\S+)(?: .*)? \(", output, re.M)


def merge_kernels(source, target):
    """Copies what PoCL has compiled from one of its caches into another; what is there already stays."""
    for file in source.glob("??/**/*"):
        to = target / file.relative_to(source)
        if file.is_file() and not to.exists():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, to)


def try_fault(copy, fault, patience):
    start = time.monotonic()
    path = copy.tree / fault.file
    original = path.read_bytes() if path.is_file() else None
    why = fault.apply(copy.tree)
    if why:
        return {"outcome": "stale", "by": [], "text": why}
    try:
        status, output = copy.make(fault.build)
        if status != 0:
            outcome, by = ("refused by the compiler" if status is not None else "build hangs"), []
        else:
            status, output = copy.test(fault.judges(), patience, "--stop-on-failure")  # One that fails is enough.
            by = failed_tests(output)
            outcome = "survived" if status == 0 else "caught"
            if status is None: by = ["out of time"]
    finally:
        path.write_bytes(original)
    return {"outcome": outcome, "by": by, "seconds": round(time.monotonic() - start, 1),
            "text": "" if outcome == "caught" else output[-1500:]}


def try_firsts(copy, firsts, patience):
    """Tests that are each asked about some fault, all at once and without one: expression to what they do."""
    # The other copies wait for this one, so that all cores are its.
    status, output = copy.test("|".join(firsts), 2 * patience, cores=len(os.sched_getaffinity(0)))
    passed = set(re.findall(r"^ *\d+/\d+ Test +#\d+: (\S+) [. ]+ Passed ", output, re.M))
    return {first: {"outcome": "passes" if first[1:-1].replace("\\", "") in passed else "does not pass without it"} for first in firsts}


def try_without(copy, targets, tests, patience):
    """The named tests without any fault: outcome `passes`, or what is wrong with them. A skipped test sees nothing."""
    start = time.monotonic()
    copy.make(targets)
    status, output = copy.test(tests, 2 * patience, "--stop-on-failure")
    skipped = len(re.findall(r"\*\*\*Skipped", output))
    ran = len(re.findall(r"^ *\d+/\d+ Test +#\d+: ", output, re.M))
    outcome = "fails without it" if status != 0 else "is skipped" if ran == 0 or skipped == ran else "passes"
    return {"outcome": outcome, "by": failed_tests(output), "seconds": round(time.monotonic() - start, 1), "ran": ran,
            "skipped": skipped, "text": "" if outcome == "passes" else output[-1500:]}


def write_table(results, base, seconds):
    outcomes = {}
    for result in results: outcomes[result["outcome"]] = outcomes.get(result["outcome"], 0) + 1
    summary = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
    lines = [f"{len(results)} faults: {summary}; {seconds:.0f} s", "", "| room | fault | what is wrong | outcome | seen by |",
             "|---|---|---|---|---|"]
    for result in results:
        seen = ", ".join(f"`{name}`" for name in result["by"][:2])
        lines.append(f"| {result['room']} | `{result['name']}` | {result['meaning']} | {result['outcome']} | {seen} |")
    seen = seen_last_time() | {result["name"]: result["by"][0] for result in results
                               if result["outcome"] == "caught" and result["by"]}
    for name, text in (("result.md", "\n".join(lines) + "\n"),
                       ("seen_by.txt", "".join(f"{fault} {test}\n" for fault, test in seen.items())),
                       ("result.json", json.dumps({"summary": outcomes, "seconds": round(seconds), "faults": results}, indent=1))):
        (base / (name + ".new")).write_text(text)
        os.replace(base / (name + ".new"), base / name)
    return lines[0]


def end(number, _):
    """The results are written as they come; what runs is ended."""
    for group in list(Copy.running):
        try: os.killpg(group, signal.SIGKILL)
        except ProcessLookupError: pass
    os._exit(128 + number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=0, help="faults tried at the same time (default: a quarter of the cores)")
    parser.add_argument("--room", action="append", help="only the faults of this file, such as numerics; may be repeated, and is kept to in this order")
    parser.add_argument("--only", help="only faults whose names match this expression")
    parser.add_argument("--check", action="store_true", help="only say whether every fault still applies; builds nothing")
    parser.add_argument("--list", action="store_true", help="list the faults")
    parser.add_argument("--where", default=str(ROOT / "build" / "mutants"), help="folder of the copies and the results")
    parser.add_argument("--continue", dest="kept", nargs="*", metavar="RESULT.json",
                        help="keep what the last run (or these results) caught, and try only the rest")
    parser.add_argument("--patience", type=int, default=900, help="seconds after which the tests of a fault hang")
    options = parser.parse_args()
    faults = [fault for path in sorted(HERE.glob("*.faults")) for fault in read_faults(path)]
    names = [fault.name for fault in faults]
    twice = {name for name in names if names.count(name) > 1}
    if twice: sys.exit(f"names that are there twice: {', '.join(sorted(twice))}")
    faults = [f for f in faults if (not options.room or f.room in options.room)
              and (not options.only or re.search(options.only, f.name))]
    if options.room: faults.sort(key=lambda f: options.room.index(f.room))
    if not faults: sys.exit("no fault has that room or name; --list lists them")
    if options.list:
        for fault in faults: print(f"{fault.room:12} {fault.name:40} {fault.meaning}")
        return 0
    if options.check:
        stale = 0
        for fault in faults:
            found = len(list(fault.pattern().finditer((ROOT / fault.file).read_text()))) if (ROOT / fault.file).is_file() else 0
            if found != 1:
                stale += 1
                print(f"{fault.room}.faults: {fault.name}: its text is {found} times in {fault.file}, expected once")
        print(f"{len(faults)} faults, {stale} stale")
        return 2 if stale else 0

    begin = time.monotonic()
    base = pathlib.Path(options.where).resolve()
    base.mkdir(parents=True, exist_ok=True)
    results = []
    if options.kept is not None:
        wanted = {fault.name for fault in faults}
        for file in options.kept or [base / "result.json"]:
            for result in json.loads(pathlib.Path(file).read_text())["faults"]:
                if result["outcome"] == "caught" and result["name"] in wanted:
                    wanted.discard(result["name"])
                    results.append(result)
        faults = [fault for fault in faults if fault.name in wanted]
        print(f"{len(results)} are caught already")
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)

    cores = len(os.sched_getaffinity(0))
    copies = max(1, min(len(faults), options.copies or cores // 4))
    trees = [Copy(index, max(1, cores // copies), base) for index in range(copies)]
    targets = sorted({target for fault in faults for target in fault.build})
    print(f"{len(faults)} faults in {copies} copies under {base}; building {len(targets)} targets", flush=True)
    sources = source_files()
    trees[0].cores = cores
    why = trees[0].prepare(targets, sources)
    if why: sys.exit(why)
    trees[0].cores = max(1, cores // copies)
    print(f"the first copy is built ({time.monotonic() - begin:.0f} s)", flush=True)

    order = {name: index for index, name in enumerate(names)}
    last = seen_last_time()
    for fault in faults:
        if fault.name in last: fault.first = f"^{re.escape(last[fault.name])}$"
    lock, total = threading.Condition(), len(results) + len(faults)
    without, needed = {}, {}  # Of an expression of tests: what they do without a fault, and their targets.
    kernels = base / "kernels"  # What PoCL compiled for sources without a fault.
    kernels.mkdir(exist_ok=True)
    jobs = []

    def queue(fault):
        if fault.judges() not in without:
            without[fault.judges()] = {}
            if not fault.first: jobs.append(fault.judges())
        needed.setdefault(fault.judges(), set()).update(fault.build)
        jobs.append(fault)
        jobs.sort(key=lambda job: not isinstance(job, str))

    for fault in faults: queue(fault)
    firsts = list(dict.fromkeys(fault.first for fault in faults if fault.first))
    if firsts: jobs.insert(0, ALL_FIRSTS)
    busy = merged = 0

    def next_job():
        """Tests without a fault first; then a fault whose tests are known to pass without it."""
        nonlocal busy
        with lock:
            while True:
                for at, job in enumerate(jobs):
                    if isinstance(job, str) or "outcome" in without[job.judges()]:
                        busy += 1
                        return jobs.pop(at)
                if not jobs and busy == 0: return None
                lock.wait()

    def done():
        nonlocal busy
        with lock:
            busy -= 1
            lock.notify_all()

    def worker(index):
        copy = trees[index]
        why = copy.prepare(targets, sources) if index > 0 else None
        if why:
            print(why, flush=True)
            return
        while (job := next_job()) is not None:
            try: work(copy, job)
            finally: done()

    def work(copy, job):
        nonlocal merged
        with lock:
            if copy.merged != merged:
                merge_kernels(kernels, copy.build / "pocl" / "kcache")
                copy.merged = merged
        if job is ALL_FIRSTS:
            copy.cores, few = cores, copy.cores
            found = try_firsts(copy, firsts, options.patience)
            copy.cores = few
            with lock:
                merge_kernels(copy.build / "pocl" / "kcache", kernels)
                merged += 1
                without.update(found)
                passing = sum(of["outcome"] == "passes" for of in found.values())
                print(f"without a fault {passing} of the {len(firsts)} tests pass that are asked first "
                      f"({time.monotonic() - begin:.0f} s)", flush=True)
            return
        if isinstance(job, str):
            found = try_without(copy, sorted(needed[job]), job, options.patience)
            with lock:
                merge_kernels(copy.build / "pocl" / "kcache", kernels)
                merged += 1
                without[job].update(found)
                print(f"without a fault: {found['outcome']}, {found['ran']} tests, {found['skipped']} skipped, "
                      f"{found['seconds']} s: {job} {found['text']}", flush=True)
            return
        passes = without[job.judges()]["outcome"] == "passes"
        if passes: result = try_fault(copy, job, options.patience)
        else: result = {"outcome": "its tests: " + without[job.judges()]["outcome"], "by": [], "text": ""}
        if job.first and (not passes or result["outcome"] == "survived"):
            with lock:  # All its tests are asked.
                job.first = ""
                queue(job)
            return
        result.update(room=job.room, name=job.name, meaning=job.meaning, file=job.file, tests=job.tests)
        with lock:
            results.append(result)
            results.sort(key=lambda r: order.get(r["name"], 0))
            write_table(results, base, time.monotonic() - begin)
            print(f"{len(results):3}/{total} {job.room:11} {job.name:42} {result['outcome']:9} "
                  f"{result.get('seconds', 0):6} s  {', '.join(result['by'][:2])}", flush=True)

    threads = [threading.Thread(target=worker, args=(index,)) for index in range(copies)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(write_table(results, base, time.monotonic() - begin))
    bad = [result for result in results if result["outcome"] != "caught"]
    for result in bad: print(f"{result['outcome']}: {result['name']}\n{result['text']}\n")
    return 0 if not bad else 1 if all(r["outcome"] == "survived" for r in bad) else 2


if __name__ == "__main__":
    sys.exit(main())
