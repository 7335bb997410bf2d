#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh SECONDS [TARGET...]: builds the fuzz targets with libFuzzer (preset fuzz) and runs each for SECONDS over a copy of
# its corpus in build/fuzz/corpus. An input that breaks a target is left in build/fuzz/findings. Exit status 1: there is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=$1
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(safetensors config tuned lines abi_opencl abi_ironwood)
[ -f build/fuzz/build.ninja ] || cmake --preset fuzz >/dev/null
cmake --build build/fuzz -j "${JOBS:-$(nproc)}" --target "${targets[@]/#/fuzz_}" >&2
found=0
table='| target | executions | seconds | inputs kept | findings |\n|---|---|---|---|---|\n'
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target findings=build/fuzz/findings/$target
  mkdir -p "$corpus" "$findings" build/fuzz/pocl
  log=build/fuzz/$target.log
  # Drivers keep memory of their own for ever; a plugin's objects are counted by the adapter's tests.
  status=0
  ASAN_OPTIONS=detect_leaks=0 POCL_CACHE_DIR=$PWD/build/fuzz/pocl "build/fuzz/bin/fuzz_$target" \
    -max_total_time="$seconds" -timeout=60 -rss_limit_mb=6000 -print_final_stats=1 -max_len=4096 \
    -artifact_prefix="$findings/" "$corpus" "tests/fuzz/corpus/${target%%_*}" >"$log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
  kept=$(find "$corpus" -type f | wc -l)
  table+="| $target | ${runs:-0} | $seconds | $kept | $([ "$status" -eq 0 ] && echo none || ls "$findings" | tr '\n' ' ') |\n"
  if [ "$status" -ne 0 ]; then
    found=1
    tail -40 "$log"
  fi
done
printf "$table" | tee build/fuzz/result.md
exit "$found"
