// SPDX-License-Identifier: Apache-2.0
// The text of the kernels: embedded at build time from cl/, or read from a folder. Next door: program.h (building).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ironcl::opencl {

/// One .cl file, as pieces to be joined.
struct EmbeddedSource {
  std::string_view name;  ///< "gemm_tiled.cl"
  std::span<const char* const> pieces;
};

/// All files of cl/, by name. Made by cl/embed.cmake.
std::span<const EmbeddedSource> embedded_sources();

/// The text of a kernel file, each `#include "x.cl"` replaced once by the text of x.cl, so that drivers need no
/// include path. `kernel_dir` empty: the embedded text; else the file there. Throws Error{invalid_argument} naming a
/// file that is missing.
std::string kernel_source(const std::string& kernel_dir, const std::string& file);

}  // namespace ironcl::opencl
