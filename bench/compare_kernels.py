#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the kernels of two folders with one driver, in many configurations, and says which programs differ.

    bench/compare_kernels.py OLD NEW [--device TEXT] [--dump FOLDER] [FILE...]

OLD, NEW: folders of .cl files, such as cl/ of two commits (`git worktree add`). TEXT: part of the device's name. On NVIDIA's
driver a program's binary is its PTX, so "same" says that no instruction changed. --dump: where programs that differ are
written, a file a side. FILE: only these of NEW. Exit status 1 where any differ. Needs nothing but an OpenCL driver.
"""
import argparse
import ctypes
import itertools
import pathlib
import re
import sys

# A file that OLD has under another name.
RENAMED = {"schedule.cl": "deal.cl", "scheduled.cl": "dealt.cl", "schedule_rows.cl": "deal_rows.cl"}
# What the host sets of every kernel, and files that differ.
USUAL = dict.fromkeys(
    ("A_SCALE_ROWS", "A_SCALE_TYPE", "B_SCALE_TYPE", "CORES", "D_TYPE", "LANES", "SCALE_TYPE", "SCORE", "SOURCE", "TILE_FORM",
     "X_TYPE", "Y_TYPE", "LOGITS_TYPE"), "1") | dict.fromkeys(
    ("ADD_TYPE", "BEST_OF_TWO", "BIAS_TYPE", "EXACT_DIVIDE", "FMA_DIVIDE", "HAS_BIAS", "NORMALIZE", "PERSISTENT_GROUPS",
     "POWER_OF_TWO", "SHARED_GATE", "WEIGH_ADD"), "0") | dict.fromkeys(
    ("A_SCALE_COLS", "B_SCALE_COLS", "B_SCALE_ROWS", "D_SCALE_COLS", "GROUP", "GROUP_COLS"), "128") | {
    "A_TYPE": "4", "B_TYPE": "4", "CODE": "4", "FLOOR_BITS": "0u", "SCHEDULED_ROWS": "256", "TILE": "8", "WIDTH": "16"}
OF_FILE = {"activate.cl": {"GROUPED": "0"}, "ceilings.cl": {"CHAINS": "16", "VEC": "4"}}
PTX = ["PTX_SM_80=1", "PTX_SM_89=1", "PTX_SM_90=1", "USE_FMA=1", "HALF_BITS=1"]
TYPES = {"gemm_wave.cl": [[], ["A_TYPE=5"], ["A_TYPE=7", "B_TYPE=7"]],
         "gemm_wgmma_fp8.cl": [[], ["A_TYPE=7", "B_TYPE=7", "TILE_N=128"]]}


def text_of(folder, file, seen):
    """The file with what it includes, each file once, as the backend joins them (sources.cpp)."""
    path = folder / file
    if not path.exists():
        path = folder / RENAMED[file]
    lines = []
    for line in path.read_text().splitlines():
        match = re.match(r'#include "(.*)"', line)
        if not match:
            lines.append(line)
        elif match[1] not in seen:
            seen.add(match[1])
            lines.append(text_of(folder, match[1], seen))
    return "\n".join(lines) + "\n"


def settings(folder, file, defines):
    """All that the host sets: the usual, the first row of the head's table of tunables, and `defines` over them."""
    found = USUAL | OF_FILE.get(file, {})
    path = folder / file
    table = re.search(r"^// Tunable .*\n((?:// [A-Z_]+ +[0-9]+  .*\n)+)", path.read_text() if path.exists() else "", re.M)
    if table:
        found |= dict(re.findall(r"^// ([A-Z_]+) +([0-9]+)  ", table[1], re.M))
    return found | dict(define.split("=") for define in defines)


def configurations(file):
    if not file.startswith("gemm_"):
        for more in ([], ["GROUPED=1"], ["GROUPED=1", "GATHER=1"], ["GROUPED=1", "DEALS=1", "SCHEDULES=1"]):
            yield PTX + more
        return
    for types, d, bias, more in itertools.product(
            TYPES.get(file, [[]]), (1, 2, 3), (0, 1), ([], ["GROUPED=1"], ["GROUPED=1", "GATHER=1"], ["SPLIT_K=2"])):
        yield PTX + types + [f"D_TYPE={d}", f"BIAS_TYPE={bias}"] + more


class Driver:
    def __init__(self, text):
        self.cl = ctypes.CDLL("libOpenCL.so.1")
        for name in ("clCreateContext", "clCreateProgramWithSource"):
            getattr(self.cl, name).restype = ctypes.c_void_p
        count = ctypes.c_uint()
        self.cl.clGetPlatformIDs(0, None, ctypes.byref(count))
        platforms = (ctypes.c_void_p * count.value)()
        self.cl.clGetPlatformIDs(count, platforms, None)
        for platform in platforms:
            if self.cl.clGetDeviceIDs(ctypes.c_void_p(platform), ctypes.c_ulong(0xffffffff), 0, None, ctypes.byref(count)):
                continue
            devices = (ctypes.c_void_p * count.value)()
            self.cl.clGetDeviceIDs(ctypes.c_void_p(platform), ctypes.c_ulong(0xffffffff), count, devices, None)
            for device in devices:
                name = ctypes.create_string_buffer(1024)
                self.cl.clGetDeviceInfo(ctypes.c_void_p(device), 0x102b, 1024, name, None)
                if text in name.value.decode():
                    self.name, self.device = name.value.decode(), ctypes.c_void_p(device)
                    self.context = ctypes.c_void_p(
                        self.cl.clCreateContext(None, 1, ctypes.byref(self.device), None, None, None))
                    return
        sys.exit(f"no device has {text!r} in its name")

    def build(self, source, defines):
        """The program's binary; the compiler's log where it does not build."""
        text = ctypes.c_char_p(source.encode())
        program = ctypes.c_void_p(self.cl.clCreateProgramWithSource(self.context, 1, ctypes.byref(text), None, None))
        options = " ".join(f"-D {name}={value}" for name, value in defines.items()).encode()
        failed = self.cl.clBuildProgram(program, 1, ctypes.byref(self.device), options, None, None)
        size = ctypes.c_size_t()
        if failed:
            self.cl.clGetProgramBuildInfo(program, self.device, 0x1183, 0, None, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            self.cl.clGetProgramBuildInfo(program, self.device, 0x1183, size, log, None)
            result = "does not build: " + log.value.decode(errors="replace")
        else:
            self.cl.clGetProgramInfo(program, 0x1165, ctypes.sizeof(size), ctypes.byref(size), None)
            binary = ctypes.create_string_buffer(size.value)
            pointers = (ctypes.c_void_p * 1)(ctypes.addressof(binary))
            self.cl.clGetProgramInfo(program, 0x1166, ctypes.sizeof(pointers), pointers, None)
            result = binary.raw.decode(errors="replace")
        self.cl.clReleaseProgram(program)
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--device", default="")
    parser.add_argument("--dump", type=pathlib.Path)
    arguments = parser.parse_args()
    driver = Driver(arguments.device)
    print(f"# {driver.name}: {arguments.old} and {arguments.new}")
    different = 0
    for path in sorted(arguments.new.glob("*.cl")):
        if (arguments.files and path.name not in arguments.files) or "__kernel" not in path.read_text():
            continue
        counts = {}
        for number, defines in enumerate(configurations(path.name)):
            built = [driver.build(text_of(folder, path.name, {path.name}), settings(arguments.new, path.name, defines))
                     for folder in (arguments.old, arguments.new)]
            failed = [text.startswith("does not build") for text in built]
            word = "same" if built[0] == built[1] else "refused by both" if all(failed) else "DIFFERENT"
            counts[word] = counts.get(word, 0) + 1
            if word != "DIFFERENT":
                continue
            different += 1
            if arguments.dump:
                arguments.dump.mkdir(parents=True, exist_ok=True)
                for side, text in zip(("old", "new"), built):
                    (arguments.dump / f"{path.stem}_{number}_{side}.ptx").write_text(f"// {defines}\n{text}")
        print(f"{path.name}: " + ", ".join(f"{count} {word}" for word, count in sorted(counts.items())), flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
