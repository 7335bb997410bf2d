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
    if (!devices_) devices_ = find();
    return *devices_;
  }

  std::shared_ptr<backend::Device> import_device(const backend::NativeDevice& native) override {
    const auto device_id = static_cast<cl_device_id>(native.device);
    const auto context_id = static_cast<cl_context>(native.context);
    const std::lock_guard lock(mutex_);
    for (const Imported& known : imported_) {
      if (known.device_id == device_id && known.context() == context_id) return known.device;
    }
    return guarded("importing an OpenCL device", [&]() -> std::shared_ptr<backend::Device> {
      const cl::Context context(context_id, true);
      const cl::Device device(device_id, true);
      const auto of_context = context.getInfo<CL_CONTEXT_DEVICES>();
      // Of a sub-device PoCL 3.1 lists the device that it is a part of.
      const auto lists = [&](cl_device_id id) {
        return std::any_of(of_context.begin(), of_context.end(), [&](const cl::Device& one) { return one() == id; });
      };
      cl_device_id listed = device_id;
      while (listed != nullptr && !lists(listed))
        listed = cl::Device(listed, true).getInfo<CL_DEVICE_PARENT_DEVICE>()();
      if (listed == nullptr) {
        throw backend::Error(backend::Status::invalid_argument,
                             "native_device.device is not one of native_device.context's {} devices",
                             of_context.size());
      }
      if (const char* why = passed_over(device)) {
        throw backend::Error(backend::Status::unsupported, "{} is {}", device.getInfo<CL_DEVICE_NAME>(), why);
      }
      const cl::Platform platform(device.getInfo<CL_DEVICE_PLATFORM>());
      auto made = std::make_shared<Device>(platform, device, config_, log_, tables_, context);
      imported_.push_back({device_id, context, made});
      return made;
    });
  }

 private:
  struct Imported {
    cl_device_id device_id = nullptr;
    cl::Context context;  ///< Kept, so that its address cannot become another context's.
    std::shared_ptr<backend::Device> device;
  };

  /// Why nothing can be computed on a device; null where it can.
  static const char* passed_over(const cl::Device& device) {
    if (device.getInfo<CL_DEVICE_AVAILABLE>() != CL_TRUE) return "not available";
    if (device.getInfo<CL_DEVICE_COMPILER_AVAILABLE>() != CL_TRUE) return "without a compiler";
    if (device.getInfo<CL_DEVICE_TYPE>() == CL_DEVICE_TYPE_CUSTOM) return "a custom device, without kernels";
    return nullptr;
  }

  void say(LogLevel level, const std::string& text) const {
    if (log_ != nullptr) log_->write(level, text);
  }

  void pass_over(LogLevel level, std::size_t platform, std::size_t device, const std::string& why) const {
    say(level, fmt::format("opencl: device {} of platform {} is skipped: {}", device, platform, why));
  }

  std::vector<std::shared_ptr<backend::Device>> find() const {
    std::vector<std::shared_ptr<backend::Device>> devices;
    std::vector<cl::Platform> platforms;
    try {
      cl::Platform::get(&platforms);
    } catch (const cl::Error& error) {
      if (const std::string why = calls::why_missing(); !why.empty()) {
        throw backend::Error(backend::Status::unavailable,
                             "no OpenCL: {}; install the loader (Debian: ocl-icd-libopencl1) and a driver", why);
      }
      throw backend::Error(
          backend::Status::unavailable, error.err(),
          fmt::format("no OpenCL platform: {} answered {}; install a driver, or name one for the ICD loader "
                      "(OCL_ICD_VENDORS, OCL_ICD_FILENAMES)",
                      error.what(), error_name(error.err())));
    }
    // The platforms' order and each one's own; a platform or device that fails hides no other.
    for (std::size_t i = 0; i < platforms.size(); ++i) {
      std::vector<cl::Device> found;
      try {
        platforms[i].getDevices(CL_DEVICE_TYPE_ALL, &found);
      } catch (const cl::Error& error) {
        if (error.err() != CL_DEVICE_NOT_FOUND) {
          say(LogLevel::warn, fmt::format("opencl: platform {} lists no devices: {}", i, error_name(error.err())));
        }
      }
      for (std::size_t j = 0; j < found.size(); ++j) {
        try {
          if (const char* why = passed_over(found[j])) {
            pass_over(LogLevel::info, i, j, why);
            continue;
          }
          devices.push_back(std::make_shared<Device>(platforms[i], found[j], config_, log_, tables_));
        } catch (const std::bad_alloc&) {  // It says nothing of the device: whoever asks again finds it.
          throw;
        } catch (const cl::Error& error) {
          pass_over(LogLevel::warn, i, j, make_error("asking it", error).what());
        } catch (const std::exception& error) {
          pass_over(LogLevel::warn, i, j, error.what());
        }
      }
    }
    return devices;
  }

  Config config_;
  backend::Log* log_;
  std::shared_ptr<const tuned::Tables> tables_;
  std::mutex mutex_;
  std::optional<std::vector<std::shared_ptr<backend::Device>>> devices_;  ///< Once they were asked for.
  std::vector<Imported> imported_;
};

}  // namespace

std::unique_ptr<backend::Backend> make_backend(const Config& config, backend::Log* log) {
  return std::make_unique<OpenClBackend>(config, log);
}

}  // namespace ironcl::opencl
