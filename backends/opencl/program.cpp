// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/program.h"

#include "backends/opencl/sources.h"

namespace ironcl::opencl {

using backend::LogLevel;

namespace {

/// A compiler that runs out of memory or loses its device says nothing about the source.
backend::Status build_status(cl_int code) {
  const backend::Status status = status_of(code);
  return status == backend::Status::internal ? backend::Status::build_failed : status;
}

/// Whether PoCL failed with no fault in the source: as where another process builds the same program at the same
/// time, and no folder of programs makes them take turns.
bool was_disturbed(const std::string& log) {
  return log.find("failed to build the program") != std::string::npos && log.find("error:") == std::string::npos;
}

}  // namespace

DriverIdentity DriverIdentity::of(const cl::Device& device) {
  const cl::Platform platform(device.getInfo<CL_DEVICE_PLATFORM>());
  return {device.getInfo<CL_DEVICE_NAME>(),     device.getInfo<CL_DEVICE_VENDOR>(),
          device.getInfo<CL_DEVICE_VERSION>(),  device.getInfo<CL_DRIVER_VERSION>(),
          platform.getInfo<CL_PLATFORM_NAME>(), platform.getInfo<CL_PLATFORM_VERSION>()};
}

std::string program_key(const DriverIdentity& driver, const std::string& toolchain, const std::string& options,
                        const std::string& source) {
  std::string text;
  for (const std::string& part : {driver.device, driver.vendor, driver.device_version, driver.driver_version,
                                  driver.platform, driver.platform_version, toolchain, options, source}) {
    text += std::to_string(part.size()) + ":" + part;  // The length, so that no two lists of parts read the same.
  }
  return ProgramCache::key_of(text);
}

ProgramBuilder::ProgramBuilder(const Config& config, backend::Log* log, cl::Context context, cl::Device device,
                               std::size_t most_kept)
    : config_(config),
      log_(log),
      context_(std::move(context)),
      device_(std::move(device)),
      cache_(config.cache_dir),
      identity_(DriverIdentity::of(device_)),
      most_kept_(most_kept) {}

ProgramBuilder::Counts ProgramBuilder::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

cl::Program ProgramBuilder::build(const std::string& file, const Defines& defines, const std::string& extra,
                                  const Toolchain& toolchain) {
  return build_text(file, kernel_source(config_.kernel_dir, file), defines, extra, toolchain);
}

cl::Program ProgramBuilder::build_text(const std::string& label, const std::string& source, const Defines& defines,
                                       const std::string& extra, const Toolchain& toolchain) {
  std::string options = extra;
  for (const auto& [name, value] : defines) options.append(" -D ").append(name).append("=").append(value);
  const std::string key = program_key(identity_, toolchain.name(), options, source);
  std::promise<cl::Program> promise;
  std::shared_future<cl::Program> known;
  {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = programs_.try_emplace(key);
    entry->second.asked_at = ++asked_;
    if (is_new) {
      entry->second.program = promise.get_future().share();
      forget_oldest();
    } else {
      known = entry->second.program;
      ++counts_.from_memory;
    }
  }
  if (known.valid()) return known.get();
  try {
    cl::Program program = make(label, key, {context_, device_, source, options}, toolchain);
    promise.set_value(program);
    return program;
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      programs_.erase(key);
    }
    promise.set_exception(std::current_exception());
    throw;
  }
}

void ProgramBuilder::forget_oldest() {
  while (programs_.size() > most_kept_) {
    auto oldest = programs_.end();
    for (auto kept = programs_.begin(); kept != programs_.end(); ++kept) {
      if (kept->second.program.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
      if (oldest == programs_.end() || kept->second.asked_at < oldest->second.asked_at) oldest = kept;
    }
    if (oldest == programs_.end()) return;
    programs_.erase(oldest);
  }
}

cl::Program ProgramBuilder::make(const std::string& label, const std::string& key, const BuildRequest& request,
                                 const Toolchain& toolchain) {
  // Of processes that start at once on a cold cache one builds, the others load. Not only for speed: drivers have
  // caches of their own, and in PoCL's, processes that build one program at the same time seem to disturb one
  // another.
  const Turn turn(config_.cache_dir, key);
  if (cl::Program program = from_disk(key, request, toolchain); program() != nullptr) {
    say(LogLevel::trace, "opencl: " + label + " from the program cache, entry " + key);
    const std::lock_guard lock(mutex_);
    ++counts_.from_disk;
    return program;
  }
  cl::Program program;
  const auto build = [&] { program = guarded("building " + label, [&] { return toolchain.build(request); }); };
  try {
    try {
      build();
    } catch (const BuildFailure& failure) {
      if (!was_disturbed(failure.log)) throw;
      build();
    }
  } catch (const BuildFailure& failure) {
    const std::string how = fmt::format("with toolchain {} and options '{}'", toolchain.name(), request.options);
    say(LogLevel::error, fmt::format("opencl: {} did not build {}:\n{}", label, how, failure.log));
    throw backend::Error(build_status(failure.code), failure.code,
                         fmt::format("{} did not build ({}) {}; the compiler's log is in the host's log: {}", label,
                                     error_name(failure.code), how, failure.log.substr(0, 200)));
  }
  say(LogLevel::trace, "opencl: built " + label + " with" + request.options);
  if (toolchain.is_saved) store_binary(program, key);
  const std::lock_guard lock(mutex_);
  ++counts_.from_source;
  return program;
}

cl::Program ProgramBuilder::from_disk(const std::string& key, const BuildRequest& request,
                                      const Toolchain& toolchain) {
  const auto binary = cache_.load(key);
  if (!binary) return {};
  try {
    return toolchain.load(request, *binary);
  } catch (const cl::Error& error) {
    say(LogLevel::info, "opencl: the driver refused program cache entry " + key + " (" + error_name(error.err()) +
                            "); it is built again");
    cache_.remove(key);
    return {};
  }
}

void ProgramBuilder::store_binary(const cl::Program& program, const std::string& key) {
  if (!cache_.enabled()) return;
  try {
    const std::vector<unsigned char> binary = binary_of(program);
    if (binary.empty()) return;
    std::string why;
    if (!cache_.store(key, binary, &why)) say(LogLevel::warn, "opencl: program cache: " + why);
  } catch (const cl::Error& error) {
    say(LogLevel::info, "opencl: the driver gives no binary to cache: " + error_name(error.err()));
  }
}

}  // namespace ironcl::opencl
