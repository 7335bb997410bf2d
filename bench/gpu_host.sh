#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks and times a build on a bare GPU host, in one call: finds the vendor's OpenCL driver, compares real layers on every
# device, runs the backend's tests, measures shapes. A short table comes last; the rest is in files.
#
#   bench/gpu_host.sh BUILD OUT [DATA]
#
# BUILD: a build folder (bin/, lib/), which may have been made on another machine. OUT: where files go. DATA: a folder with
# layer files (x, x_q, x_scale, y_f64, y_deepgemm beside a weight); default tests/data.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
out=$2
data=${3:-tests/data}
mkdir -p "$out"
ironcl=$build/bin/ironcl
chmod +x "$build"/bin/* 2>/dev/null
export IRONCL_CACHE_DIR=$out/cache

# A driver that no vendor file names is named here; root is needed only for that.
if ! grep -rqs nvidia /etc/OpenCL/vendors; then
  driver=$(ldconfig -p | awk '/libnvidia-opencl.so.1/ {print $NF; exit}')
  [ -n "$driver" ] || driver=$(find / -name 'libnvidia-opencl.so.1' -not -path '/proc/*' 2>/dev/null | head -1)
  if [ -n "$driver" ]; then
    mkdir -p /etc/OpenCL/vendors && echo "$driver" >/etc/OpenCL/vendors/nvidia.icd
  fi
fi

"$ironcl" devices | tee "$out/devices.txt"
"$ironcl" devices --json >"$out/devices.json"

summary=()
layer() { # FILE OUT-DTYPE INPUT-KIND
  local file=$1 dtype=$2 kind=$3 name input expect=() rc
  name=$(basename "$file" .safetensors)
  if [ "$kind" = x ]; then input=(--input "$file:x"); else input=(--input-q "$file:x_q,x_scale"); fi
  expect=(--expect "$file:y_f64")
  grep -qa y_deepgemm "$file" && expect+=(--expect "$file:y_deepgemm")
  "$ironcl" compare "$file" "${input[@]}" "${expect[@]}" --out-dtype "$dtype" --json "$out/compare-$name-$dtype-$kind.json" \
    >"$out/compare-$name-$dtype-$kind.txt" 2>&1
  rc=$?
  summary+=("$(printf '%-46s %-4s %-4s exit %d' "$name" "$dtype" "$kind" "$rc")")
}
for file in "$data"/block*.safetensors; do
  for dtype in f32 bf16; do
    layer "$file" "$dtype" x
    layer "$file" "$dtype" x_q
  done
done

if [ -x "$build/bin/ironcl_opencl_test" ]; then
  "$build/bin/ironcl_opencl_test" >"$out/opencl_test.txt" 2>&1
  summary+=("ironcl_opencl_test: exit $?, $(grep -E '^\[  (PASSED|FAILED)' "$out/opencl_test.txt" | head -2 | tr '\n' ' ')")
fi

shift $(($# < 3 ? $# : 3))
# Shapes that fill a GPU and shapes that only stream weights, M of each: quantised in the plan from bf16, and codes given (which the plan packs);
# weights rotate past the caches, so every call reads them cold. Both accuracy classes; and the kernel that needs no vendor's feature.
rows=(
  "4096x4096 1,16,64,128,4096"
  "7168x16384 1,16,64,128,4096"
  "24576x1536 4096"
  "2112x7168 4096"
  "4096x7168 512,4096"
)
shapes=4096x4096,7168x16384,24576x1536,2112x7168
bench() { # DEVICE NAME ARGUMENT...
  local device=$1 file=$out/bench-${1/:/-}-$2 rc=0 row status
  shift 2
  : >"$file.txt"
  for row in "${rows[@]}"; do
    "$ironcl" bench --device "$device" --shape "${row% *}" --m "${row#* }" --out-dtype bf16 --min-ms 20 "$@" --csv "$file-${row% *}.csv" >>"$file.txt" 2>&1
    status=$?
    [ "$status" -eq 0 ] || rc=$status
  done
  summary+=("bench $(basename "$file"): exit $rc" "$(cat "$file.txt")")
}
for device in $("$ironcl" devices --json | grep -oE '"uri": *"opencl:[0-9]+"' | cut -d'"' -f4); do
  if ! "$ironcl" devices | grep -qE "^$device +gpu"; then
    file=$out/bench-${device/:/-}
    "$ironcl" bench --device "$device" --shape 4096x4096,7168x2048 --m 1,16,128,1024 --min-ms 20 --csv "$file.csv" >"$file.txt" 2>&1
    summary+=("bench $device: exit $?" "$(cat "$file.txt")")
    continue
  fi
  for x in bf16 e4m3fn; do
    for accuracy in f32 tensor14; do bench "$device" "$accuracy-$x" --accuracy "$accuracy" --x-dtype "$x"; done
  done
  bench "$device" portable --x-dtype bf16 --opt variant=gemm_tiled
  # Many matrices in one product, beside a dense one of as many rows.
  [ -x "$build/bin/ironcl_experts" ] || continue
  for accuracy in f32 tensor14; do
    "$build/bin/ironcl_experts" --device "${device#opencl:}" --accuracy "$accuracy" --product 4,8192,4096,7168 --product 8,4096,4096,7168 \
      --product 32,1024,4096,7168 --product 32,192,4096,7168 >"$out/grouped-${device/:/-}-$accuracy.txt" 2>&1
    summary+=("grouped products, class $accuracy: exit $?" "$(cat "$out/grouped-${device/:/-}-$accuracy.txt")")
  done
done
# Kernels alone and whole plans, both classes, with the L2 cold; the peers in the same run, where there is PyTorch with a GPU. One table of both.
gpu=$("$ironcl" devices --json | grep -oE '"uri": *"opencl:[0-9]+"' | cut -d'"' -f4 |
  while read -r device; do "$ironcl" devices | grep -E "^$device +gpu" | grep -oE '^opencl:[0-9]+'; done | head -1)
if [ -n "$gpu" ] && [ -x "$build/bin/ironcl_gpu_kernels" ]; then
  both=$shapes,4096x7168 batches=1,4,16,32,64,128,512,4096
  "$build/bin/ironcl_gpu_kernels" --device "${gpu#opencl:}" --shape "$both" --m "$batches" --csv "$out/gpu-kernels.csv" >"$out/gpu-kernels.txt" 2>&1
  summary+=("kernels: exit $?" "$(cat "$out/gpu-kernels.txt")")
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    python3 bench/gpu_peers.py --shape "$both" --m "$batches" --json "$out/gpu-peers.json" >"$out/gpu-peers.txt" 2>&1
    summary+=("peers: exit $?" "$(cat "$out/gpu-peers.txt")")
  fi
  summary+=("$(python3 bench/gpu_peers.py --table "$out/gpu-kernels.csv" "$out/gpu-peers.json" 2>&1 | tee "$out/gpu-table.md")")
fi
# Further work of the caller, such as a sweep: a command line that is given the build and the output folder.
if [ $# -gt 0 ]; then "$@" "$build" "$out"; fi
printf '%s\n' "${summary[@]}" | tee "$out/summary.txt"
