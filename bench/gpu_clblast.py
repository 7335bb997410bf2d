# SPDX-License-Identifier: Apache-2.0
"""CLBlast's f32 product beside the kernels of a GPU, on the shapes of gpu_kernels.cpp: what a portable OpenCL library gives whoever
decodes fp8 to f32. Status 77 where the library is not there.

    python3 bench/gpu_clblast.py [--device N] [--shape NxK,NxK] [--m M,M] [--runs N] [--csv FILE]

L2 cold (256 MiB written before every call), medians of device times from the start of a product's first kernel to the end of its
last, since CLBlast may pad and transpose before; some columns of the last row of D checked.
"""
import argparse
import array
import ctypes
import math
import random
import statistics
import sys
from ctypes import byref, c_float, c_int, c_size_t, c_ulong, c_void_p

PROFILING, READ_WRITE, MARKER_END, DEVICE_NAME, ALL_DEVICES = 2, 1, 0x1283, 0x102B, 0xFFFFFFFF
ROW_MAJOR, NO_TRANSPOSE, TRANSPOSED = 101, 111, 112
CHECKED_COLUMNS = 16


class OpenCl:
    """libOpenCL; a call that fails ends the program with its name and status."""

    library = ctypes.CDLL("libOpenCL.so.1")

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            if status := function(*arguments):
                sys.exit(f"{name}: status {status}")

        return call

    def make(self, name, *arguments):
        """A function that returns an object and leaves its status in its last argument."""
        function, status = getattr(self.library, name), c_int()
        function.restype = c_void_p
        made = c_void_p(function(*arguments, byref(status)))
        return made if status.value == 0 else sys.exit(f"{name}: status {status.value}")


def device_of_number(cl, number):
    count, devices = ctypes.c_uint(), []
    cl.clGetPlatformIDs(0, None, byref(count))
    platforms = (c_void_p * count.value)()
    cl.clGetPlatformIDs(count, platforms, None)
    for platform in platforms:
        if cl.library.clGetDeviceIDs(c_void_p(platform), c_ulong(ALL_DEVICES), 0, None, byref(count)) == 0:
            of_platform = (c_void_p * count.value)()
            cl.clGetDeviceIDs(c_void_p(platform), c_ulong(ALL_DEVICES), count, of_platform, None)
            devices += of_platform
    return c_void_p(devices[number]) if number < len(devices) else sys.exit(f"--device {number}: there are {len(devices)}")


def values(count, seed):
    """Random numbers from -1 to 1, a table of them again and again; no dimension is a multiple of its length."""
    draw = random.Random(seed)
    table = array.array("f", (draw.uniform(-1, 1) for _ in range(10007)))
    return (table * -(-count // len(table)))[:count]


class Product:
    def __init__(self, cl, clblast, device):
        self.cl, self.sgemm = cl, clblast.CLBlastSgemm
        self.context = cl.make("clCreateContext", None, 1, byref(device), None, None)
        self.queue = cl.make("clCreateCommandQueue", self.context, device, c_ulong(PROFILING))
        self.flush = self.buffer(256 << 20)

    def buffer(self, size):
        return self.cl.make("clCreateBuffer", self.context, c_ulong(READ_WRITE), c_size_t(size), None)

    def upload(self, numbers):
        made = self.buffer(4 * len(numbers))
        address, _ = numbers.buffer_info()
        self.cl.clEnqueueWriteBuffer(self.queue, made, 1, c_size_t(0), c_size_t(4 * len(numbers)), c_void_p(address), 0, None, None)
        return made

    def fill(self, buffer, value, size):
        self.cl.clEnqueueFillBuffer(self.queue, buffer, byref(c_float(value)), c_size_t(4), c_size_t(0), c_size_t(size), 0, None, None)

    def marked(self, event):
        end = ctypes.c_uint64()
        self.cl.clGetEventProfilingInfo(event, MARKER_END, c_size_t(8), byref(end), None)
        self.cl.clReleaseEvent(event)
        return end.value

    def microseconds(self, m, n, k, runs):
        a, b, row = values(m * k, 1), values(n * k, 2), (c_float * n)()
        on_a, on_b, on_d = self.upload(a), self.upload(b), self.buffer(4 * m * n)
        times, s = [], c_size_t
        for _ in range(runs + 1):
            self.fill(self.flush, 0.0, 256 << 20)
            self.fill(on_d, math.nan, 4 * m * n)
            before, after = c_void_p(), c_void_p()
            self.cl.clEnqueueMarkerWithWaitList(self.queue, 0, None, byref(before))
            if status := self.sgemm(ROW_MAJOR, NO_TRANSPOSE, TRANSPOSED, s(m), s(n), s(k), c_float(1), on_a, s(0), s(k), on_b, s(0),
                                    s(k), c_float(0), on_d, s(0), s(n), byref(self.queue), None):
                sys.exit(f"CLBlastSgemm: status {status}")
            self.cl.clEnqueueMarkerWithWaitList(self.queue, 0, None, byref(after))
            self.cl.clFinish(self.queue)
            begin = self.marked(before)
            times.append((self.marked(after) - begin) / 1e3)
        self.cl.clEnqueueReadBuffer(self.queue, on_d, 1, s(4 * (m - 1) * n), s(4 * n), row, 0, None, None)
        for column in range(0, n, -(-n // CHECKED_COLUMNS)):
            products = [x * y for x, y in zip(a[(m - 1) * k : m * k], b[column * k : (column + 1) * k])]
            if not abs(row[column] - sum(products)) <= (k + 2) * 2**-24 * sum(map(abs, products)):
                sys.exit(f"column {column} of {m}x{n}x{k} is {row[column]}, expected {sum(products)}")
        for made in (on_a, on_b, on_d):
            self.cl.clReleaseMemObject(made)
        return statistics.median(times[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", type=int, default=0, help="its number")
    parser.add_argument("--runs", type=int, default=7, help="calls; medians are printed")
    parser.add_argument("--m", default="1,16,64,128,512,4096", help="rows of A")
    parser.add_argument("--shape", default="4096x4096,7168x16384,24576x1536,2112x7168", help="NxK")
    parser.add_argument("--csv", default="/dev/null", help="a file for the rows")
    options = parser.parse_args()
    try:
        clblast = ctypes.CDLL("libclblast.so.1")
    except OSError as error:
        print(f"CLBlast is not here: {error}")
        return 77
    cl, name = OpenCl(), ctypes.create_string_buffer(256)
    device = device_of_number(cl, options.device)
    cl.clGetDeviceInfo(device, DEVICE_NAME, c_size_t(256), name, None)
    product = Product(cl, clblast, device)
    print(f"{name.value.decode()}, CLBlast, f32; L2 cold")
    with open(options.csv, "w") as csv:
        csv.write("m,n,k,us\n")
        for n, k in (map(int, shape.split("x")) for shape in options.shape.split(",")):
            for m in map(int, options.m.split(",")):
                us = product.microseconds(m, n, k, options.runs)
                print(f"{m:5} {n:6} {k:6} {us:10.1f} us {2e-6 * m * n * k / us:8.2f} TFLOP/s", flush=True)
                csv.write(f"{m},{n},{k},{us:.2f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
