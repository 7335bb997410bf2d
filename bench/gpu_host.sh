#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks and times a build on a bare GPU host, in one call: finds the vendor's OpenCL driver, compares real layers on every
# device, runs the backend's tests and the conformance suite, measures shapes beside their peers. A short table comes last;
# the rest is in files.
#
#   bench/gpu_host.sh BUILD OUT [DATA [COMMAND...]]
#
# BUILD: a build folder (bin/, lib/), which may have been made on another machine. OUT: where files go. DATA: a folder with
# layer files (x, x_q, x_scale, y_f64, y_deepgemm beside a weight); default tests/data. COMMAND: further work such as a
# sweep, given BUILD and OUT. Checks and compiling share the processor; timing has the machine to itself. What is not in BUILD is left out.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
out=$2
data=${3:-tests/data}
shift $(($# < 3 ? $# : 3))
mkdir -p "$out"
build=$(realpath "$build") out=$(realpath "$out")
ironcl=$build/bin/ironcl
chmod +x "$build"/bin/* 2>/dev/null
export IRONCL_CACHE_DIR=$out/cache
jobs=$(($(nproc) < 8 ? $(nproc) : 8))
started=$(date +%s)
at() { echo "[$(($(date +%s) - started)) s] $*" >&2; }

# A driver that no vendor file names is named here; root is needed only for that.
if ! grep -rqs nvidia /etc/OpenCL/vendors; then
  driver=$(ldconfig -p | awk '/libnvidia-opencl.so.1/ {print $NF; exit}')
  [ -n "$driver" ] || driver=$(find /usr /opt /lib /lib64 -name 'libnvidia-opencl.so.1' 2>/dev/null | head -1)
  if [ -n "$driver" ]; then
    mkdir -p /etc/OpenCL/vendors && echo "$driver" >/etc/OpenCL/vendors/nvidia.icd
  fi
fi

"$ironcl" devices | tee "$out/devices.txt"
gpu=$(grep -E '^opencl:[0-9]+ +gpu' "$out/devices.txt" | grep -oE '^opencl:[0-9]+' | head -1)
shapes=4096x4096,7168x16384,24576x1536,2112x7168,4096x7168 batches=1,4,16,32,64,128,512,4096
kernels() { "$build/bin/ironcl_gpu_kernels" --device "${gpu#opencl:}" "$@"; }

# Programs do not depend on the shape but by a rule of thumb, so one call of each problem leaves them in the cache.
compile() {
  local m class
  for m in ${batches//,/ }; do for class in f32 tensor14; do echo "$m $class"; done; done |
    xargs -P "$jobs" -L 1 bash -c 'timeout 150 "$0" --device "$1" --shape "$2" --runs 1 --m "$3" --class "$4" >/dev/null 2>&1' \
      "$build/bin/ironcl_gpu_kernels" "${gpu#opencl:}" "$shapes"
}
layer() { # FILE OUT-DTYPE INPUT-KIND
  local file=$1 dtype=$2 kind=$3 name input expect
  name=$(basename "$file" .safetensors)
  if [ "$kind" = x ]; then input=(--input "$file:x"); else input=(--input-q "$file:x_q,x_scale"); fi
  expect=(--expect "$file:y_f64")
  grep -qa y_deepgemm "$file" && expect+=(--expect "$file:y_deepgemm")
  "$ironcl" compare "$file" "${input[@]}" "${expect[@]}" --out-dtype "$dtype" --json "$out/compare-$name-$dtype-$kind.json" \
    >"$out/compare-$name-$dtype-$kind.txt" 2>&1
  printf '%-46s %-4s %-4s exit %d\n' "$name" "$dtype" "$kind" $? >"$out/layer-$name-$dtype-$kind"
}
layers() {
  local file dtype kind
  for file in "$data"/block*.safetensors; do
    for dtype in f32 bf16; do for kind in x x_q; do layer "$file" "$dtype" "$kind"; done; done
  done
}
tests() { # Of all devices, in shards, without those that take longest.
  seq 0 $((jobs - 1)) | xargs -P "$jobs" -I{} bash -c \
    'GTEST_SHARD_INDEX={} timeout 280 "$0" --gtest_filter=-*Heavy* >"$1/opencl_test.{}" 2>&1; echo "tests, shard {}: exit $?, $(grep -cE "^\[       OK" "$1/opencl_test.{}") passed" >"$1/shard.{}"' \
    "$build/bin/ironcl_opencl_test" "$out"
}
conformance() { # Of the GPU alone, in three shards.
  seq 0 2 | GTEST_TOTAL_SHARDS=3 xargs -P 3 -I{} bash -c \
    'GTEST_SHARD_INDEX={} timeout 280 "$0/bin/ironcl_conformance" --plugin "$0/lib/ironcl-plugins/libironcl_opencl.so" --device "$2" >"$1/conformance.{}" 2>&1; echo "conformance, shard {}: exit $?, $(grep "^conformance: " "$1/conformance.{}")" >"$1/shard.conformance.{}"' \
    "$build" "$out" "${gpu#opencl:}"
}
# DeepGEMM compiles when it is first asked, too, a kernel for each choice of tiles.
export DG_JIT_CACHE_DIR=${DG_JIT_CACHE_DIR:-$out/cache/deepgemm}
peers=$(python3 -c 'import torch; assert torch.cuda.is_available(); print("torch")' 2>/dev/null)
compile_deepgemm() {
  timeout 150 python3 bench/gpu_deepgemm.py >"$out/deepgemm.txt" 2>&1 || return
  tr , '\n' <<<"$shapes" | xargs -P "$jobs" -I{} timeout 150 python3 bench/gpu_deepgemm.py {} "$batches" >>"$out/deepgemm.txt" 2>&1
}
[ -n "$gpu" ] && [ -x "$build/bin/ironcl_gpu_kernels" ] && compile &
[ -n "$peers" ] && compile_deepgemm &
layers &
[ -x "$build/bin/ironcl_opencl_test" ] && GTEST_TOTAL_SHARDS=$jobs tests &
[ -n "$gpu" ] && [ -x "$build/bin/ironcl_conformance" ] && conformance &
wait
at "checked and compiled"

summary=()
step() { # NAME FILE COMMAND...: the command's output goes to the file and the summary
  local name=$1 file=$out/$2
  shift 2
  "$@" >"$file" 2>&1
  summary+=("$name: exit $?" "$(cat "$file")")
  at "$name"
}
if [ -n "$gpu" ] && [ -x "$build/bin/ironcl_gpu_kernels" ]; then
  # Kernels alone and whole plans, both classes, L2 cold; then those that need no vendor's feature.
  step kernels gpu-kernels.txt kernels --shape "$shapes" --m "$batches" --csv "$out/gpu-kernels.csv"
  step 'portable, few rows' portable-few.txt kernels --shape 4096x4096,7168x16384 --m 1,4,16 --class f32 --opt variant=gemm_skinny
  step 'portable, many rows' portable-many.txt kernels --shape 4096x4096 --m 64,512,4096 --class f32 --opt variant=gemm_tiled
fi
if [ -n "$gpu" ]; then
  # What a caller waits whose queue takes no times: plans of bf16, by the host's clock.
  for class in f32 tensor14; do
    step "plans without times, $class" "host-$class.txt" env IRONCL_OPENCL_PROFILING=0 "$ironcl" bench --device "$gpu" \
      --shape 4096x4096,7168x16384 --m 1,4,16,64,128,4096 --accuracy "$class" --x-dtype bf16 --out-dtype bf16 --min-ms 30 --check-rows 1 --csv "$out/host-$class.csv"
  done
fi
# A decode step: the linears of layers one after another, beside PyTorch in a CUDA graph.
if [ -n "$gpu" ] && [ -n "$peers" ]; then
  step 'a chain of linears' chain.txt bash -c 'timeout 240 python3 bench/chain_peer.py "$0" --gpu --m 1,2,4,8,16,64 2>"$1"' "$ironcl" "$out/chain.log"
fi
# Many matrices in one product, beside a dense one of as many rows.
grouped=(8,4096,4096,7168 32,1024,4096,7168 32,192,4096,7168)
if [ -n "$gpu" ]; then
  problems=()
  for problem in "${grouped[@]}"; do
    IFS=, read -r count rows n k <<<"$problem"
    for grouping in "--grouping=contiguous:$count" ""; do
      problems+=(--problem "--dt=e4m3fn:e4m3fn:bf16 --scale=1x128:128x128 $grouping $((count * rows))x$k:${k}x$n")
    done
  done
  for class in f32 tensor14; do
    step "grouped products, $class" "grouped-$class.txt" "$ironcl" bench --device "$gpu" --accuracy "$class" --check-rows 2 "${problems[@]}"
  done
fi
# The peers in the same run: CLBlast where it is there (f32, so the same shapes cost it four times the bytes), PyTorch where it has a
# GPU. One table of all.
if [ -n "$gpu" ]; then
  step clblast gpu-clblast.txt timeout 120 python3 bench/gpu_clblast.py --device "${gpu#opencl:}" --shape "$shapes" --m 1,16,128,4096 --runs 5 --csv "$out/gpu-clblast.csv"
fi
if [ -f "$out/gpu-kernels.csv" ]; then
  if [ -n "$peers" ]; then
    step peers gpu-peers.txt timeout 300 python3 bench/gpu_peers.py --shape "$shapes" --m "$batches" "${grouped[@]/#/--grouped=}" --json "$out/gpu-peers.json"
  fi
  python3 bench/gpu_peers.py --table "$out/gpu-kernels.csv" "$out/gpu-peers.json" --clblast "$out/gpu-clblast.csv" >"$out/gpu-table.md" 2>&1
fi
if [ $# -gt 0 ]; then "$@" "$build" "$out"; fi
{
  printf '%s\n' "${summary[@]}"
  cat "$out"/layer-* "$out"/shard.* 2>/dev/null
  [ ! -f "$out/gpu-table.md" ] || cat "$out/gpu-table.md"
} | tee "$out/summary.txt"
