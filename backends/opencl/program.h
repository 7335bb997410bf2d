// SPDX-License-Identifier: Apache-2.0
// Builds programs for one device: from memory, from the disk cache, else from source. Next door: sources.h,
// program_cache.h, toolchain.h.
#pragma once

#include <future>
#include <map>
#include <mutex>
#include <string>

#include "backends/opencl/api.h"
#include "backends/opencl/config.h"
#include "backends/opencl/program_cache.h"
#include "backends/opencl/toolchain.h"

namespace ironcl::opencl {

/// Preprocessor definitions of a build, in a fixed order: {"TILE_M", "64"} is -D TILE_M=64.
using Defines = std::map<std::string, std::string>;

/// Identifies whose binaries they are: a device as its driver names it, with every version that they may depend on.
struct DriverIdentity {
  std::string device, vendor, device_version, driver_version, platform, platform_version;

  static DriverIdentity of(const cl::Device& device);
};

/// The cache's name for a program: a hash of text that differs wherever any part of two programs does.
std::string program_key(const DriverIdentity& driver, const std::string& toolchain, const std::string& options,
                        const std::string& source);

/// Any thread. Programs build at the same time: no lock is held while one compiles, and who asks for a program that
/// is being built waits for that build.
class ProgramBuilder {
 public:
  /// Keeps the `most_kept` programs that were asked for last, whether or not anything uses them: what uses a program
  /// holds on to it anyway.
  ProgramBuilder(const Config& config, backend::Log* log, cl::Context context, cl::Device device,
                 std::size_t most_kept = 256);

  /// A built program of kernel file `file`. `extra` are further compiler options. Throws build_failed; the compiler's
  /// log goes to the log. What failed is tried again when it is next asked for.
  cl::Program build(const std::string& file, const Defines& defines, const std::string& extra = "",
                    const Toolchain& toolchain = kOpenclC);

  /// The same from source text; `label` names it in messages.
  cl::Program build_text(const std::string& label, const std::string& source, const Defines& defines,
                         const std::string& extra = "", const Toolchain& toolchain = kOpenclC);

  void say(backend::LogLevel level, const std::string& text) const {
    if (log_ != nullptr) log_->write(level, text);
  }

  struct Counts {
    int from_source = 0, from_disk = 0, from_memory = 0;
  };
  Counts counts() const;

 private:
  /// Loads from disk or builds from source, without a lock.
  cl::Program make(const std::string& label, const std::string& key, const BuildRequest& request,
                   const Toolchain& toolchain);
  cl::Program from_disk(const std::string& key, const BuildRequest& request, const Toolchain& toolchain);
  void store_binary(const cl::Program& program, const std::string& key);
  /// Lets go of the built programs that were asked for longest ago, while there are too many. Needs the lock.
  void forget_oldest();

  Config config_;
  backend::Log* log_;
  cl::Context context_;
  cl::Device device_;
  ProgramCache cache_;
  DriverIdentity identity_;
  std::size_t most_kept_;
  mutable std::mutex mutex_;  ///< Guards what follows; never held while a program is made.
  struct Kept {
    std::shared_future<cl::Program> program;  ///< Built, or being built.
    std::uint64_t asked_at = 0;               ///< Greater is later.
  };
  std::map<std::string, Kept> programs_;
  std::uint64_t asked_ = 0;
  Counts counts_;
};

}  // namespace ironcl::opencl
