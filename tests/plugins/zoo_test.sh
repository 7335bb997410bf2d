#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# zoo_test.sh IRONCL ZOO_DIR EXPECTED: each specimen beside the good one. The command survives, takes the good one, and gives
# the specimen the outcome and the step that EXPECTED says.
set -eu
ironcl=$1 zoo=$2 expected=$3
failures=0
while read -r file outcome step; do
  case $file in '' | '#'*) continue ;; esac
  folder=${file%/*} name=${file#*/}
  dirs="$zoo/$folder:$zoo/good"
  status=0
  said=$(IRONCL_DISABLE=opencl,ironwood IRONCL_PLUGIN_DIRS=$dirs "$ironcl" plugins 2>&1) || status=$?
  if [ "$status" -gt 5 ] ||
    ! printf '%s\n' "$said" | grep -q "$folder/libironcl_$name.so: $outcome at step $step" ||
    ! printf '%s\n' "$said" | grep -q "good/libironcl_good.so: taken"; then
    failures=$((failures + 1))
    printf '%s: expected "%s at step %s" and the good one taken; status %s, and it said\n%s\n' \
      "$file" "$outcome" "$step" "$status" "$said"
    echo "reproduce: IRONCL_DISABLE=opencl,ironwood IRONCL_PLUGIN_DIRS=$dirs $ironcl plugins"
  fi
done < "$expected"
[ "$failures" -eq 0 ]
