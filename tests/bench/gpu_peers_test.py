# SPDX-License-Identifier: Apache-2.0
"""What bench/gpu_peers.py and gpu_deepgemm.py do without a GPU and PyTorch: their table, medians of turns, and a DeepGEMM that is not there
or ends its process."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import gpu_deepgemm
import gpu_peers

OURS = """m,n,k,class,variant,config,kernel_us,codes_us,bf16_us,error_codes,error_bf16,verdict
4096,4096,4096,tensor14,gemm,"a=1,b=2",106.0,125.0,129.0,0.27,0.25,pass
4096,7168,16384,tensor14,gemm,"a=1,b=2",667.0,711.0,727.0,0.17,0.15,pass
"""


class Table(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.ours = os.path.join(self.folder.name, "ours.csv")
        pathlib.Path(self.ours).write_text(OURS)

    def tearDown(self):
        self.folder.cleanup()

    def cells(self, peers):
        """Cells of both rows by their column, and what is printed below them."""
        file = os.path.join(self.folder.name, "peers.json")
        if peers is not None:
            pathlib.Path(file).write_text(json.dumps(peers))
        with contextlib.redirect_stdout(io.StringIO()) as out:
            gpu_peers.table(self.ours, file, None)
        lines = out.getvalue().splitlines()
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
        self.assertEqual({len(row) for row in rows}, {len(rows[0])})
        column = rows[0].index("DeepGEMM: kernel alone, by events")
        return [row[column : column + 2] for row in rows[2:]], lines[lines.index(next(l for l in reversed(lines) if l.startswith("|"))) + 1 :]

    def test_a_figure_of_another_day_is_marked(self):
        cells, below = self.cells(None)
        self.assertEqual(cells, [["96.8*, 102.3*", ""], ["638.1*, 645.0*", ""]])
        self.assertRegex(below[0], r"^\* not of this run: DeepGEMM ")

    def test_what_was_measured_here_is_not(self):
        here = {"deepgemm_us": 103.4, "deepgemm_alone_us": 97.1, "deepgemm_error_f32": 1.25, "deepgemm_error_tensor14": 0.5}
        cells, below = self.cells([{"m": 4096, "n": 4096, "k": 4096, **here}, {"m": 4096, "n": 7168, "k": 16384, "deepgemm_refused": "it says why"}])
        self.assertEqual(cells, [["97.1, 103.4", "1.25, 0.50"], ["638.1*, 645.0*", ""]])
        self.assertIn("it says why", below)

    def test_a_profiler_that_saw_nothing_is_said(self):
        cells, _ = self.cells([{"m": 4096, "n": k[0], "k": k[1], "deepgemm_us": 102.3} for k in ((4096, 4096), (7168, 16384))])
        self.assertEqual(cells, [["not seen, 102.3", ""]] * 2)

    def test_products_of_many_matrices_are_no_rows_of_it(self):
        grouped = {"matrices": 8, "m": 4096, "n": 4096, "k": 4096, "deepgemm_us": 1.0}
        self.assertEqual(self.cells([grouped])[0][0], ["96.8*, 102.3*", ""])


class Turns(unittest.TestCase):
    def kernels(self, turns):
        """Kernels out of order, of two calls a turn: the first has one kernel, the second two."""
        seen, now = [], 0
        for i in range(turns):
            for parts in ([10.0 + i], [20.0, float(i)]):
                for name, took in [("vectorized_elementwise_kernel<FillFunctor<unsigned char>>", 60.0)] + [("gemm", p) for p in parts]:
                    seen.append((now, name, took))
                    now += 100
        return seen[::-1]

    def test_medians_leave_the_first_two_out(self):
        turns = gpu_peers.RUNS + 2
        middle = 2 + gpu_peers.RUNS // 2
        self.assertEqual(gpu_peers.of_turns(["one", "two"], self.kernels(turns)), {"one": 10.0 + middle, "two": 20.0 + middle})

    def test_a_turn_that_was_not_seen_makes_all_doubtful(self):
        self.assertEqual(gpu_peers.of_turns(["one", "two"], self.kernels(gpu_peers.RUNS + 1)), {})
        self.assertEqual(gpu_peers.of_turns(["one", "two"], []), {})

    def test_matrices_have_about_as_many_rows(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("without numpy")
        # docs/performance/h200-grouped.md: 6188 rows in six matrices of about 1024.
        self.assertEqual(sum(gpu_peers.rows_of_matrices(6, 1024)), 6188)


class Asking(unittest.TestCase):
    def refusal(self, source, seconds=60):
        """What is said of a module deep_gemm with this text; None: there is none."""
        with tempfile.TemporaryDirectory() as folder:
            if source is not None:
                pathlib.Path(folder, "deep_gemm.py").write_text(source)
            before = os.environ.get("PYTHONPATH")
            os.environ["PYTHONPATH"] = folder
            sys.path.insert(0, folder)
            try:
                return gpu_deepgemm.refusal(seconds)
            finally:
                sys.path.remove(folder)
                sys.path_importer_cache.pop(folder, None)
                del os.environ["PYTHONPATH"]
                if before is not None:
                    os.environ["PYTHONPATH"] = before

    def test_one_that_is_not_there(self):
        self.assertEqual(self.refusal(None), "DeepGEMM is not installed")

    def test_one_that_does_not_load(self):
        self.assertEqual(
            self.refusal("raise ImportError('undefined symbol: _ZN3c10')"),
            "DeepGEMM does not work here (exit 1): ImportError: undefined symbol: _ZN3c10",
        )

    def test_one_that_ends_its_process(self):
        self.assertRegex(self.refusal("import os\nos.abort()"), r"^DeepGEMM does not work here \(signal 6\): ")

    def test_one_that_never_comes_back(self):
        self.assertEqual(self.refusal("import time\ntime.sleep(60)", 1), "DeepGEMM took more than 1 s for a small product")


if __name__ == "__main__":
    unittest.main()
