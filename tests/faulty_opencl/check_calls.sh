#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_calls.sh NM LIBRARY LIST: the faulty OpenCL has every call of the backend's list.
set -euo pipefail
nm=$1 library=$2 list=$3
listed=$(sed -n '/define IRONCL_OPENCL_CALLS/,/^$/p' "$list" | grep -oE 'X\(cl[A-Z][A-Za-z]+\)' | tr -d 'X()' | sort -u)
[ -n "$listed" ] || { echo "$list lists no call: the way of asking is out of date"; exit 1; }
missing=$(comm -23 <(echo "$listed") <("$nm" -D --defined-only "$library" | grep -oE ' cl[A-Z][A-Za-z]+' | tr -d ' ' | sort -u))
[ -z "$missing" ] || { echo "not wrapped in tests/faulty_opencl/calls.cpp, so never failed:"; echo "$missing"; exit 1; }
echo "$(echo "$listed" | wc -l) calls, all wrapped"
