#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh SECONDS [TARGET...]: builds the fuzz targets with libFuzzer (preset fuzz) and runs each for SECONDS over a copy of
# its corpus in build/fuzz/corpus, all at the same time. An input that breaks a target is left in build/fuzz/findings.
# Exit status 1: there is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=$1
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(abi_opencl abi_ironwood safetensors config tuned lines)
jobs=${JOBS:-$(nproc)}
[ -f build/fuzz/build.ninja ] || cmake --preset fuzz >/dev/null
cmake --build build/fuzz -j "$jobs" --target "${targets[@]/#/fuzz_}" >&2

# Kernels that the tests' replay of the same corpora has compiled are not compiled again.
kernels=$PWD/build/release/pocl_cache
[ -d "$kernels" ] || kernels=$PWD/build/fuzz/pocl
mkdir -p "$kernels"

# run_target TARGET: leaves TARGET.log, and TARGET.row, a line of the table.
run_target() {
  local target=$1 corpus=build/fuzz/corpus/$1 findings=build/fuzz/findings/$1 log=build/fuzz/$1.log status=0 runs kept found=none
  mkdir -p "$corpus" "$findings"
  # Drivers keep memory of their own for ever; a plugin's objects are counted by the adapter's tests.
  ASAN_OPTIONS=detect_leaks=0 POCL_CACHE_DIR=$kernels "build/fuzz/bin/fuzz_$target" \
    -max_total_time="$seconds" -timeout=300 -rss_limit_mb=6000 -print_final_stats=1 -max_len=4096 \
    -artifact_prefix="$findings/" "$corpus" "tests/fuzz/corpus/${target%%_*}" >"$log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
  kept=$(find "$corpus" -type f | wc -l)
  [ "$status" -eq 0 ] || found=$(find "$findings" -type f -printf '%f ')
  echo "| $target | ${runs:-0} | $seconds | $kept | $found |" >"build/fuzz/$target.row"
  [ "$status" -eq 0 ] || { tail -40 "$log"; return 1; }
}
export -f run_target
export seconds kernels
found=0
printf '%s\n' "${targets[@]}" | xargs -P 0 -I{} bash -c 'run_target {}' || found=1
{
  printf '| target | executions | seconds | inputs kept | findings |\n|---|---|---|---|---|\n'
  for target in "${targets[@]}"; do cat "build/fuzz/$target.row"; done
} | tee build/fuzz/result.md
exit "$found"
