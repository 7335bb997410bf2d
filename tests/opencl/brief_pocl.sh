#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# brief_pocl.sh OUT FILE...: OUT/vendors has the system's OpenCL drivers, PoCL as a copy that declares fewer builtins: those of f32 and of
# 32-bit integers, and those that the FILEs name. PoCL parses its header of 14,000 declarations for every program, which takes ten times as
# long as a test's kernel. Programs are the same; a builtin that is missing does not compile. Without a PoCL that keeps its files as 3.1
# does there is no OUT/share.
set -euo pipefail
out=$1 new=$1.new
shift
rm -rf "$new"
mkdir -p "$new/vendors" "$new/lib/own"
cp /etc/OpenCL/vendors/*.icd "$new/vendors/" || exit 0
library=$(PATH=$PATH:/sbin ldconfig -p | sed -n 's|.*=> \(.*/libpocl\.so\.2\)$|\1|p' | head -n 1)
[ -n "$library" ] || exit 0
library=$(realpath "$library")
data=$(realpath "${library%/*}/../../share/pocl")
header=include/opencl-c.h
[ -e "$data/$header" ] && [ -d "${library%/*}/pocl" ] || exit 0
icd=$(grep -lx ".*${library##*/}" "$new"/vendors/*.icd) || exit 0
# PoCL looks for its files beside itself.
cp "$library" "$new/lib/own/"
ln -s "${library%/*}/pocl" "$new/lib/own/pocl"
echo "$out/lib/own/${library##*/}" >"$icd"
mkdir "$new/share"
cp -rs "$data" "$new/share/pocl"
rm "$new/share/pocl/$header"
grep -ohE '[A-Za-z_][A-Za-z_0-9]*' "$@" | awk '
  NR == FNR { named[$1]; next }
  /__ovld.*;/ && match($0, /[A-Za-z_0-9]+\(/) {
    name = substr($0, RSTART, RLENGTH - 1)
    if (!(name in named) && (name ~ /^(convert_|vload|vstore|read_|write_)/ || /double|half|char|short|long|image|event/)) next
  }
  { print }' - "$data/$header" >"$new/share/pocl/$header"
rm -rf "$out"
mv "$new" "$out"
