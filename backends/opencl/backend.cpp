// SPDX-License-Identifier: Apache-2.0
// Finds the devices of all platforms. Next door: device.cpp (one device).
#include "backends/opencl/backend.h"

#include <mutex>

#include "backends/opencl/device.h"
#include "backends/opencl/tuned.h"

namespace ironcl::opencl {
namespace {

using backend::LogLevel;

class OpenClBackend final : public backend::Backend {
 public:
  OpenClBackend(const Config& config, backend::Log* log)
      : config_(config), log_(log), tables_(read_tables(config.tuned, log)) {
    config_.tuned.clear();  // the texts are not needed again
  }

  std::vector<std::shared_ptr<backend::Device>> devices() override {
    const std::lock_guard lock(mutex_);
    if (!found_) {
      find();
      found_ = true;
    }
    return devices_;
  }

 private:
  void say(LogLevel level, const std::string& text) const {
    if (log_ != nullptr) log_->write(level, text);
  }

  void pass_over(std::size_t platform, std::size_t device, const std::string& why) const {
    say(LogLevel::warn, "opencl: device " + std::to_string(device) + " of platform " + std::to_string(platform) +
                            " is passed over: " + why);
  }

  void find() {
    std::vector<cl::Platform> platforms;
    try {
      cl::Platform::get(&platforms);
    } catch (const cl::Error& error) {
      throw backend::Error(
          backend::Status::unavailable,
          "no OpenCL platform: " + std::string(error.what()) + " answered " + error_name(error.err()) +
              "; install a driver, or name one for the ICD loader (OCL_ICD_VENDORS, OCL_ICD_FILENAMES)",
          error.err());
    }
    // The platforms' order and each one's own; a platform or device that fails hides no other.
    for (std::size_t i = 0; i < platforms.size(); ++i) {
      std::vector<cl::Device> found;
      try {
        platforms[i].getDevices(CL_DEVICE_TYPE_ALL, &found);
      } catch (const cl::Error& error) {
        if (error.err() != CL_DEVICE_NOT_FOUND) {
          say(LogLevel::warn,
              "opencl: platform " + std::to_string(i) + " lists no devices: " + error_name(error.err()));
        }
      }
      for (std::size_t j = 0; j < found.size(); ++j) {
        try {
          if (found[j].getInfo<CL_DEVICE_AVAILABLE>() != CL_TRUE ||
              found[j].getInfo<CL_DEVICE_COMPILER_AVAILABLE>() != CL_TRUE ||
              found[j].getInfo<CL_DEVICE_TYPE>() == CL_DEVICE_TYPE_CUSTOM) {
            say(LogLevel::info, "opencl: device " + std::to_string(j) + " of platform " + std::to_string(i) +
                                    " is passed over: not available, or without a compiler");
            continue;
          }
          devices_.push_back(std::make_shared<Device>(platforms[i], found[j], config_, log_, tables_));
        } catch (const cl::Error& error) {
          pass_over(i, j, make_error("asking it", error).what());
        } catch (const std::exception& error) {
          pass_over(i, j, error.what());
        }
      }
    }
  }

  Config config_;
  backend::Log* log_;
  std::shared_ptr<const tuned::Tables> tables_;
  std::mutex mutex_;
  bool found_ = false;
  std::vector<std::shared_ptr<backend::Device>> devices_;
};

}  // namespace

std::unique_ptr<backend::Backend> make_backend(const Config& config, backend::Log* log) {
  return std::make_unique<OpenClBackend>(config, log);
}

}  // namespace ironcl::opencl
