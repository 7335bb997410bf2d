#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# For a host with many cores, cmake, ninja, g++, python3 and an OpenCL driver, but without our build dependencies or a net:
#   bare_host.sh fetch DEBS                           on a Debian 12 machine with a net: downloads the packages into DEBS
#   bare_host.sh mutants DEBS OUT [ARGS of run.py]    on the host: plants every fault; result.md and result.json in OUT
#   bare_host.sh sanitize KIND DEBS OUT               on the host: asan-ubsan or tsan over the suite
#   bare_host.sh soak MINUTES DEBS OUT                on the host: the soak
# Nothing is installed: packages are unpacked below /tmp/ironcl-dependencies.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
packages=(libfmt-dev libfmt9 libcli11-dev libgtest-dev libgmock-dev googletest libxxhash-dev libxxhash0 libboost1.81-dev
  ocl-icd-opencl-dev ocl-icd-libopencl1 opencl-c-headers opencl-clhpp-headers)

# unpack DEBS: the dependencies below $prefix, and the compiler, the linker, cmake and the loader told of them.
unpack() {
  prefix=/tmp/ironcl-dependencies
  if [ ! -e "$prefix/unpacked" ]; then
    mkdir -p "$prefix"
    for file in "$1"/*.deb; do dpkg -x "$file" "$prefix"; done
    touch "$prefix/unpacked"
  fi
  local libraries=$prefix/usr/lib/x86_64-linux-gnu own
  # The host's own ICD loader knows where its drivers are.
  own=$(ldconfig -p | sed -n 's/.*libOpenCL\.so\.1 .*=> //p' | head -1)
  if [ -n "$own" ]; then
    rm -f "$libraries"/libOpenCL.so*
    ln -s "$own" "$libraries/libOpenCL.so"
  fi
  export CMAKE_PREFIX_PATH=$prefix/usr CPATH=$prefix/usr/include LIBRARY_PATH=$libraries
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

verb=${1:-}
shift || true
case "$verb" in
  fetch)
    mkdir -p "$1"
    (cd "$1" && apt-get download -q "${packages[@]}")
    ;;
  mutants)
    unpack "$1"
    out=$2 status=0
    shift 2
    python3 "$root/tests/mutants/run.py" --where /tmp/ironcl-mutants "$@" || status=$?
    cp /tmp/ironcl-mutants/result.* "$out/" || true
    exit "$status"
    ;;
  sanitize)
    unpack "$2"
    cd "$root"
    cmake --preset "$1" -B "/tmp/ironcl-$1" >/dev/null
    cmake --build "/tmp/ironcl-$1" -j "$(nproc)" >"$3/build-$1.log" 2>&1 || { tail -40 "$3/build-$1.log"; exit 1; }
    export LSAN_OPTIONS=suppressions=$root/tests/lsan.supp:print_suppressions=0
    exclude=heavy
    [ "$1" != tsan ] || exclude='heavy|opencl|cli|package|abi|faulty_opencl|fuzz'
    ctest --test-dir "/tmp/ironcl-$1" -LE "$exclude" -j "$(nproc)" --output-on-failure --timeout 900 2>&1 | tee "$3/$1.log" |
      tail -40
    ;;
  soak)
    unpack "$2"
    cd "$root"
    cmake -S . -B /tmp/ironcl-release -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
    cmake --build /tmp/ironcl-release -j "$(nproc)" --target ironcl_cli ironcl_plugins ironcl_soak >"$3/build-soak.log" 2>&1
    python3 tests/soak/run.py --bin /tmp/ironcl-release/bin --plugins /tmp/ironcl-release/lib/ironcl-plugins \
      --data tests/data/tiny-qwen3-fp8 --experts tests/data/experts/qwen3-moe --minutes "$1" --where /tmp/ironcl-soak | tee "$3/soak.json"
    ;;
  *)
    sed -n '3,8p' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
