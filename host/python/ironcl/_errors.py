# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, by the status of the C API (``ironcl_status`` of plugin.h)."""


class Error(RuntimeError):
    """A call failed. ``status`` names why; ``native_code`` is the driver's own code, or 0."""

    status = "INTERNAL"
    native_code = 0


class InvalidArgument(Error, ValueError):
    """An argument breaks a rule; the message says which, and what was expected."""


class Unsupported(Error):
    """The call is well formed, but the device will not run it."""


class Unavailable(Error):
    """There is no such driver, device, file or layer. ``ironcl.diagnose()`` says what was looked for."""


class OutOfMemory(Error, MemoryError):
    """The host or the device has no memory for it."""


class Timeout(Error, TimeoutError):
    """The time to wait ran out."""


class BuildFailed(Error):
    """A kernel did not compile; its log went to ``logging.getLogger("ironcl")``."""


class DeviceLost(Error):
    """The device failed; every object on it is dead."""


_CLASSES = {"INVALID_ARGUMENT": InvalidArgument, "UNSUPPORTED": Unsupported, "UNIMPLEMENTED": Unsupported, "UNAVAILABLE": Unavailable,
            "OUT_OF_HOST_MEMORY": OutOfMemory, "OUT_OF_DEVICE_MEMORY": OutOfMemory, "BUILD_FAILED": BuildFailed,
            "DEVICE_LOST": DeviceLost, "TIMEOUT": Timeout}


def of_status(status: str, native_code: int, text: str) -> Error:
    """The exception of a status of the C API, by its name; called by the extension module."""
    error = _CLASSES.get(status, Error)(text)
    error.status, error.native_code = status, native_code
    return error
