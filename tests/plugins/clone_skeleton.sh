#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clone_skeleton.sh WORK_DIR SKELETON_DIR INCLUDE_DIR [IRONCL]: runs the recipe of plugins/skeleton/README.md as it stands
# there, against the headers of this tree, and expects the clone to be listed as mine:0.
set -eu
work=$1 skeleton=$2 include=$3 ironcl=${4:-}
rm -rf "$work"
mkdir -p "$work"
cp -r "$skeleton" "$work/skeleton"
cd "$work"
sed -n '/^```sh$/,/^```$/p' skeleton/README.md | grep -v '^```' |
  sed -e "s|[$]PWD/../host/include|$include|" > recipe.sh
if [ -n "$ironcl" ]; then
  sed -i -e "s|\.so ironcl devices|.so $ironcl devices|" recipe.sh
else
  sed -i -e '/ironcl devices/d' recipe.sh
fi
grep -q 'cmake --build mine/build' recipe.sh || { echo "the README has no recipe any more"; exit 1; }
sh -eu recipe.sh > listing.txt 2>&1 || { cat listing.txt; echo "reproduce: cd $work && sh -eux recipe.sh"; exit 1; }
if grep -rn skeleton mine/mine.c mine/CMakeLists.txt; then
  echo "the recipe left the old name behind"
  exit 1
fi
test -f mine/build/libironcl_mine.so
if [ -n "$ironcl" ]; then
  grep -q 'mine:0' listing.txt || { cat listing.txt; echo "mine:0 is not listed"; exit 1; }
fi
