# SPDX-License-Identifier: Apache-2.0
"""The ironcl command over ranks: threads, and the processes of each mpirun that is given. COMMAND_TEST.py IRONCL DATA [MPIRUN...]"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

IRONCL, DATA = sys.argv[1:3]
MPIRUNS = sys.argv[3:]
DENSE, EXPERTS = f"{DATA}/tiny-qwen3-fp8", f"{DATA}/experts/deepseek-v3"
DEVICE = os.environ.get("RANKS_TEST_DEVICE", "ironwood:0")


def run(words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    return done.returncode, done.stdout + done.stderr


class Threads(unittest.TestCase):
    def compare(self, *words):
        return run([IRONCL, "compare", *words, "--ranks", "--device", ",".join([DEVICE] * 3)])

    def test_every_split_is_within_its_bound(self):
        for split, text in (("auto", "3 ranks by rows "), ("column", "3 ranks by columns"), ("row", "3 ranks by rows")):
            status, out = self.compare(DENSE, "--layer", "*.0.mlp.down_proj", "--m", "5", "--split", split)
            self.assertEqual((status, text in out, "FAIL" in out), (0, True, False), out)
        status, out = self.compare(DENSE, "--layer", "*.0.mlp.down_proj", "--split", "row", "--ragged")
        self.assertEqual((status, "3 ranks by rows, bound + 2" in out), (0, True), out)
        status, out = self.compare(EXPERTS, "--layer", "*.mlp", "--m", "5")
        self.assertEqual((status, "3 ranks by experts" in out), (0, True), out)

    def test_a_split_that_does_not_fit_is_refused(self):
        for words, want, text in (
            ((EXPERTS, "--layer", "*.mlp", "--split", "row"), 4, "is a layer of experts; split it by experts"),
            ((DENSE, "--layer", "*.0.mlp.down_proj", "--split", "experts"), 4, "is no layer of experts"),
        ):
            status, out = self.compare(*words)
            self.assertEqual((status, text in out), (want, True), out)
        status, out = run([IRONCL, "compare", DENSE, "--split", "row"])
        self.assertEqual((status, "give --ranks too" in out), (2, True), out)
        status, out = run([IRONCL, "compare", DENSE, "--ranks", "--device", DEVICE])
        self.assertEqual((status, "start it with mpirun" in out), (2, True), out)

    def test_processes_without_mpi_are_told_what_to_do(self):
        for name, text in (("SLURM_STEP_NUM_TASKS", "give srun --mpi=pmix for Open MPI"), ("TORCHELASTIC_RUN_ID", "start it with mpirun, or")):
            status, out = run(["env", name + "=2", IRONCL, "compare", DENSE, "--ranks"])
            self.assertEqual((status, text in out, out.count("\n")), (4, True, 1), out)

    def test_bench_times_phases_beside_one_device_and_compares_bits(self):
        def bench(*words):
            words = [IRONCL, "bench", *words, "--runs", "1", "--min-ms", "0", "--warm-up-ms", "0", "--json", "-"]
            status, out = run([*words, "--ranks", "--device", ",".join([DEVICE] * 3)])
            self.assertEqual(status, 0, out)
            return json.JSONDecoder().raw_decode(out[out.index("{") :])[0]["rows"]

        shape = ("--shape", "256x768", "--m", "12", "--chunks", "1,2", "--split")
        for split, kind, sent in (("row", "row", 4 * 12 * 256), ("column", "column", 2 * 12 * 128), ("auto", "column", 2 * 12 * 128)):
            rows = bench(*shape, split)
            self.assertEqual([row["chunks"] for row in rows], [1, 2])
            for row in rows:
                self.assertEqual((row["split"], row["ranks"], row["verdict"], row["bits"]), (kind, 3, "pass", "equal"), row)
                self.assertEqual((row["messages"], row["sent_bytes"]), (2 * row["chunks"], 2 * (256 * row["chunks"] + sent)), row)
                phases = ("time_ns", "write_ns", "product_ns", "read_ns", "exchange_ns", "alone_ns", "alone_product_ns")
                self.assertTrue(all(row[phase] > 0 for phase in phases), row)
        self.assertIn("; rank 2: 0 B of weights, 0 B by the plan", rows[0]["memory"])
        (row,) = bench("--model", "qwen3-30b-a3b", "--tp-size", "8", "--experts", "8", "--tokens", "3")
        self.assertEqual((row["ranks"], row["verdict"], row["bits"], row["messages"]), (3, "pass", "equal", 6), row)
        for words, text in ((("--chunks", "2"), "--chunks is about ranks"), (("--rank-timeout", "2"), "--rank-timeout are about ranks")):
            status, out = run([IRONCL, "bench", "--shape", "64x64", *words])
            self.assertEqual((status, text in out), (2, True), out)

    def test_a_silent_rank_is_named_after_the_time_out(self):
        words = (IRONCL, "bench", "--shape", "4096x128", "--m", "512", "--split", "row", "--ranks", "--rank-timeout", "0.002")
        status, out = run([*words, "--device", ",".join([DEVICE] * 3)])
        self.assertEqual(status, 1, out)
        self.assertRegex(out, r"TIMEOUT: rank [012] was silent for 0\S* s in '.*'; it hangs or has ended")

    def test_run_writes_the_bits_of_one_device(self):
        with tempfile.TemporaryDirectory() as folder:
            source = f"{DATA}/block128-m7-n576-k2048.safetensors"
            one = [IRONCL, "run", source, "--layer", "weight", "--input", source + ":x", "--output"]
            self.assertEqual(run([*one, f"{folder}/one", "--device", DEVICE])[0], 0)
            status, out = run([*one, f"{folder}/ranks", "--device", f"{DEVICE},{DEVICE}", "--ranks", "--ragged"])
            self.assertEqual(status, 0, out)
            one, ranks = (Path(folder, name).read_bytes()[-7 * 576 * 4 :] for name in ("one", "ranks"))
            self.assertEqual(one, ranks)

    def test_inspect_says_who_would_hold_what(self):
        status, out = run([IRONCL, "inspect", DENSE, "--ranks", "3"])
        self.assertEqual(status, 0, out)
        self.assertRegex(out, r"\.mlp\.down_proj +1 +row +- +k 448 = 0\.\.255 \| 256\.\.383 \| 384\.\.447, blocks of 128")
        self.assertRegex(out, r"\n +0 +360 KiB\n +1 +200 KiB\n +2 +100 KiB\n")
        self.assertRegex(run([IRONCL, "inspect", DENSE, "--ranks", "3", "--ragged"])[1], r"down_proj +\d+ +row +1, 2 ")
        self.assertIn("experts 8 = 0..2 | 3..5 | 6..7", run([IRONCL, "inspect", EXPERTS, "--ranks", "3"])[1])


class Processes(unittest.TestCase):
    def each(self, *apps, count=3):
        """Runs `apps` over processes, one each after the first has the rest."""
        for mpirun in MPIRUNS:
            flags = ["--oversubscribe", "--bind-to", "none"] if "openmpi" in mpirun else []
            words = [mpirun, *flags, "-n", str(count - len(apps) + 1), *apps[0]]
            for app in apps[1:]:
                words += [":", "-n", "1", *app]
            before = set(glob.glob("/dev/shm/*"))
            status, out = run(words)
            yield mpirun, status, out
            time.sleep(0.2)
            left = [name for name in set(glob.glob("/dev/shm/*")) - before if "mpi" in name or "vader" in name]
            self.assertEqual(left, [], mpirun)

    def test_one_rank_prints_and_all_exit_alike(self):
        for layer, data, text in (("*.0.mlp.down_proj", DENSE, "3 ranks by rows"), ("*.mlp", EXPERTS, "3 ranks by experts")):
            for mpirun, status, out in self.each([IRONCL, "compare", data, "--layer", layer, "--m", "5", "--ranks", "--device", DEVICE]):
                self.assertEqual((status, out.count(text)), (0, 1), mpirun + out)

    def test_ranks_that_disagree_or_lack_a_file_have_one_error(self):
        compare = [IRONCL, "compare", DENSE, "--layer", "*.0.mlp.down_proj", "--ranks", "--device", DEVICE]
        for other, text in ((EXPERTS, "rank 2 has files"), ("/nowhere", "rank 2: /nowhere: there is no such file")):
            for mpirun, status, out in self.each(compare, [*compare[:2], other, *compare[3:]]):
                self.assertEqual((status, out.count(text)), (3, 1), mpirun + out)

    def assert_nobody_is_left(self, mpirun, words):
        for process in glob.glob("/proc/[0-9]*"):
            try:
                found = Path(process, "cmdline").read_text().split("\0")
                parent = Path(process, "stat").read_text().rsplit(")", 1)[1].split()[1]
            except OSError:
                continue
            self.assertFalse(found[: len(words)] == words and parent == "1", f"{mpirun} left {process}")

    def test_a_killed_rank_ends_the_job(self):
        compare = [IRONCL, "compare", DENSE, "--layer", "*.0.mlp.down_proj", "--ranks", "--device", DEVICE]
        for mpirun, status, out in self.each(compare, ["sh", "-c", "sleep 0.5; kill -9 $$"]):
            self.assertNotEqual(status, 0, mpirun + out)
            self.assert_nobody_is_left(mpirun, compare[:3])

    def test_a_rank_that_hangs_is_named_and_ends_the_job(self):
        compare = [IRONCL, "compare", DENSE, "--layer", "*.mlp.*", "--m", "1000", "--ranks", "--rank-timeout", "8", "--device", DEVICE]
        # Plugins are opened after MPI.
        stop = "(until grep -q ironcl-plugins /proc/$$/maps; do :; done; kill -STOP $$) & exec \"$@\""
        for mpirun, status, out in self.each(compare, ["sh", "-c", stop, "sh", *compare]):
            self.assertRegex(out, r"TIMEOUT: rank 2 was silent for 8 s in '.*'; it hangs or has ended", mpirun)
            self.assertNotEqual(status, 0, mpirun + out)
            self.assert_nobody_is_left(mpirun, compare[:3])


if __name__ == "__main__":
    signal.alarm(500)
    unittest.main(argv=sys.argv[:1])
