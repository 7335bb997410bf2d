// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/program.h"

#include "backends/opencl/sources.h"

namespace ironcl::opencl {

using backend::LogLevel;

namespace {

/// The bindings' own build() asks for the log after a success too, and answers with the code of that question.
void compile(const cl::Program& program, const cl::Device& device, const std::string& options) {
  const cl_device_id id = device();
  const cl_int code = clBuildProgram(program(), 1, &id, options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) throw cl::Error(code, "clBuildProgram");
}

/// A compiler that runs out of memory or loses its device says nothing about the source.
backend::Status build_status(cl_int code) {
  const backend::Status status = status_of(code);
  return status == backend::Status::internal ? backend::Status::build_failed : status;
}

}  // namespace

DriverIdentity DriverIdentity::of(const cl::Device& device) {
  const cl::Platform platform(device.getInfo<CL_DEVICE_PLATFORM>());
  return {device.getInfo<CL_DEVICE_NAME>(),     device.getInfo<CL_DEVICE_VENDOR>(),
          device.getInfo<CL_DEVICE_VERSION>(),  device.getInfo<CL_DRIVER_VERSION>(),
          platform.getInfo<CL_PLATFORM_NAME>(), platform.getInfo<CL_PLATFORM_VERSION>()};
}

std::string program_key(const DriverIdentity& driver, const std::string& options, const std::string& source) {
  std::string text;
  for (const std::string& part : {driver.device, driver.vendor, driver.device_version, driver.driver_version,
                                  driver.platform, driver.platform_version, options, source}) {
    text += std::to_string(part.size()) + ":" + part;  // The length, so that no two lists of parts read the same.
  }
  return ProgramCache::key_of(text);
}

ProgramBuilder::ProgramBuilder(const Config& config, backend::Log* log, cl::Context context, cl::Device device)
    : config_(config),
      log_(log),
      context_(std::move(context)),
      device_(std::move(device)),
      cache_(config.cache_dir),
      identity_(DriverIdentity::of(device_)) {}

ProgramBuilder::Counts ProgramBuilder::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

cl::Program ProgramBuilder::build(const std::string& file, const Defines& defines, const std::string& extra) {
  return build_text(file, kernel_source(config_.kernel_dir, file), defines, extra);
}

cl::Program ProgramBuilder::build_text(const std::string& label, const std::string& source, const Defines& defines,
                                       const std::string& extra) {
  std::string options = extra;
  for (const auto& [name, value] : defines) options += " -D " + name + "=" + value;
  const std::string key = program_key(identity_, options, source);
  const std::lock_guard lock(mutex_);
  if (const auto found = built_.find(key); found != built_.end()) {
    ++counts_.from_memory;
    return found->second;
  }
  cl::Program program = from_binary(key, options);
  if (program() != nullptr) {
    ++counts_.from_disk;
    say(LogLevel::trace, "opencl: " + label + " from the program cache, entry " + key);
  } else {
    program = guarded("creating the program of " + label, [&] { return cl::Program(context_, source); });
    try {
      compile(program, device_, options);
    } catch (const cl::Error& error) {
      std::string build_log;
      try {
        build_log = program.getBuildInfo<CL_PROGRAM_BUILD_LOG>(device_);
      } catch (const cl::Error&) {
        build_log = "(the driver gives no build log)";
      }
      say(LogLevel::error, "opencl: " + label + " did not build with options '" + options + "':\n" + build_log);
      throw backend::Error(build_status(error.err()),
                           label + " did not build (" + error_name(error.err()) + ") with options '" + options +
                               "'; the compiler's log is in the host's log: " + build_log.substr(0, 200),
                           error.err());
    }
    ++counts_.from_source;
    say(LogLevel::trace, "opencl: built " + label + " with" + options);
    store_binary(program, key);
  }
  built_.emplace(key, program);
  return program;
}

cl::Program ProgramBuilder::from_binary(const std::string& key, const std::string& options) {
  const auto binary = cache_.load(key);
  if (!binary) return {};
  try {
    cl::Program program(context_, {device_}, cl::Program::Binaries{*binary});
    compile(program, device_, options);
    return program;
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
    const auto binaries = program.getInfo<CL_PROGRAM_BINARIES>();
    if (binaries.empty() || binaries[0].empty()) return;
    std::string why;
    if (!cache_.store(key, binaries[0], &why)) say(LogLevel::warn, "opencl: program cache: " + why);
  } catch (const cl::Error& error) {
    say(LogLevel::info, "opencl: the driver gives no binary to cache: " + error_name(error.err()));
  }
}

}  // namespace ironcl::opencl
