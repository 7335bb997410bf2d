// SPDX-License-Identifier: Apache-2.0
// The settings of the OpenCL backend. Next door: backend.h (what it is made with them).
#pragma once

#include <string>
#include <vector>

namespace ironcl::opencl {

/// A tuned table as text; the file name says what it is for (backends/tuned/tables.h).
struct TunedTable {
  std::string file_name, text;
};

struct Variant;

/// The settings of a backend. The backend reads no environment: its creator fills this in.
struct Config {
  std::string cache_dir = {};   ///< Folder of the program cache, made on demand. Empty: no disk cache.
  std::string kernel_dir = {};  ///< Folder of .cl files in place of the embedded ones. Empty: the embedded ones.
  bool print_config = false;    ///< Says through the log, once per problem, which variant and tunables a plan took.
  std::vector<TunedTable> tuned = {};  ///< Tuned tables, later ones over earlier ones. Empty: rules of thumb.
  /// Queues take the times of commands. False: a call costs less on drivers that wait for each such command to end
  /// before they start the next (docs/performance/h200-plans.md), and Event::profile() is refused.
  bool profiling = true;
  bool amx = true;  ///< Tile instructions of x86 may be tried. False: devices are as if the processor had none.
  bool avx512_bf16 = true;  ///< The same for the dot products of bf16 and bytes (AVX512-BF16, VNNI).
  /// The highest compute capability of NVIDIA GPUs (80: 8.0) whose instructions may be tried; probe.h lists the
  /// instructions.
  int ptx = kAllPtx;
  static constexpr int kAllPtx = 90;
  /// The program that tries kernels which may end their process: ironcl_opencl_trial. Empty: such kernels do not run.
  std::string trial_program = {};
  double trial_seconds = 120;                     ///< How long it may take.
  std::vector<Variant (*)()> more_variants = {};  ///< Beside those of this build: for tests and experiments.
};

}  // namespace ironcl::opencl
