#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# with_intel.sh COMMAND...: installs Intel's OpenCL CPU runtime from PyPI into build/intel, once, and runs COMMAND with that
# runtime as the only OpenCL driver. Needs python3-venv, the net the first time, and an x86-64 processor.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
home=$root/build/intel
if [ ! -e "$home/venv/lib/libintelocl.so" ]; then
  mkdir -p "$home"
  python3 -m venv "$home/venv"
  "$home/venv/bin/pip" install -q intel-opencl-rt intel-cmplr-lib-rt tbb >&2
fi
# Its folder must be found for its own libraries, but not its copy of the ICD loader: ours is the system's.
mkdir -p "$home/lib" "$home/vendors"
for file in "$home"/venv/lib/*; do
  case "${file##*/}" in libOpenCL.so*) ;; *) ln -sf "$file" "$home/lib/" ;; esac
done
printf '%s\n' "$(realpath "$home/venv/lib/libintelocl.so")" >"$home/vendors/intel.icd"
export OCL_ICD_VENDORS=$home/vendors LD_LIBRARY_PATH=$home/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$@"
