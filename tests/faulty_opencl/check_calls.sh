#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_calls.sh NM PLUGIN CALLS_INC: every call of OpenCL that the plugin imports is in the list of wrapped calls.
set -euo pipefail
nm=$1 plugin=$2 list=$3
imported=$("$nm" -D --undefined-only "$plugin" | grep -oE ' cl[A-Z][A-Za-z]+' | tr -d ' ' | sort -u)
[ -n "$imported" ] || { echo "$plugin imports no call of OpenCL: the way of asking is out of date"; exit 1; }
missing=$(comm -23 <(echo "$imported") <(grep -oE 'cl[A-Z][A-Za-z]+' "$list" | sort -u))
[ -z "$missing" ] || { echo "not wrapped in tests/faulty_opencl/calls.cpp, so never failed:"; echo "$missing"; exit 1; }
echo "$(echo "$imported" | wc -l) calls, all wrapped"
