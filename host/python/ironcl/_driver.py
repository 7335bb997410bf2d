# SPDX-License-Identifier: Apache-2.0
"""Intel's CPU driver from PyPI (``ironcl[cpu]``), where the system has no OpenCL driver of its own."""
from __future__ import annotations

import os


def use_packaged_driver(vendors: str = "/etc/OpenCL/vendors") -> str | None:
    """Names the packaged driver to the OpenCL loader of this process, and returns its path; None where the system or the
    user has named one, or none is installed. Called before the first plugin is loaded."""
    import glob
    if glob.glob(os.path.join(vendors, "*.icd")) or "OCL_ICD_VENDORS" in os.environ or "OCL_ICD_FILENAMES" in os.environ:
        return None
    import ctypes
    import importlib.metadata  # slow to import, and needed here only
    try:
        files = importlib.metadata.files("intel-opencl-rt") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    driver = next((str(file.locate()) for file in files if file.name == "libintelocl.so"), None)
    if driver is None or not os.path.exists(driver):
        return None
    os.environ["OCL_ICD_VENDORS"] = os.environ["OCL_ICD_FILENAMES"] = driver  # ocl-icd reads the one, Khronos' loader the other
    try:
        ctypes.CDLL("libOpenCL.so.1")
    except OSError:
        # The package's own loader, which does not look for its libraries beside itself; the command finds it by the variable.
        folders = filter(None, (os.environ.get("LD_LIBRARY_PATH"), os.path.dirname(driver)))
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(folders)
        for name in ("libintlc.so.5", "libimf.so", "libirng.so", "libsvml.so", "libOpenCL.so.1"):
            ctypes.CDLL(os.path.join(os.path.dirname(driver), name), mode=ctypes.RTLD_GLOBAL)
    return driver
