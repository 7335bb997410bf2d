// SPDX-License-Identifier: Apache-2.0
// Loading, unloading and listing. Next door: instance.h.
#include "plugins/adapter/instance.h"

#include <fmt/ranges.h>

#include <cstdlib>

#include "plugins/adapter/handles.h"

namespace ironcl::adapter {

/// The host's log as a backend sees it: one call a line; silent before load and after unload.
class Instance::HostLog final : public backend::Log {
 public:
  void lend(const ironcl_host* host) {
    const std::lock_guard lock(mutex_);
    write_ = host == nullptr ? nullptr : host->log;
    context_ = host == nullptr ? nullptr : host->context;
  }

  void write(backend::LogLevel level, const std::string& text) override {
    const std::lock_guard lock(mutex_);  // so that no line is written once unload() has cut the log
    if (write_ == nullptr) return;
    // "build: ..." names a kind of line (docs/environment.md): the lines that follow are of the same kind.
    std::string kind, line;
    for (const std::string_view known : {"build: ", "create: ", "exec: "}) {
      if (text.starts_with(known)) kind = known;
    }
    for (std::size_t start = 0; start < text.size();) {
      const std::size_t end = std::min(text.find('\n', start), text.size());
      line.assign(start == 0 ? "" : kind).append(text, start, end - start);
      if (end != start) write_(context_, static_cast<std::uint32_t>(level), line.c_str());
      start = end + 1;
    }
  }

 private:
  std::mutex mutex_;
  void (*write_)(void*, std::uint32_t, const char*) = nullptr;
  void* context_ = nullptr;
};

struct Instance::State {
  std::unique_ptr<backend::Backend> backend;
  std::vector<std::unique_ptr<ironcl_device_t>> devices;   // in the order of enumerate
  std::vector<std::unique_ptr<ironcl_device_t>> imported;  // in the order of device_import
  bool listed = false;
  State* next = nullptr;
};

namespace {

backend::Options load_options(const ironcl_key_value* options, std::uint32_t count) {
  backend::Options out;
  if (count != 0) require("options", options);
  for (std::uint32_t i = 0; i < count; ++i) {
    require(fmt::format("options[{}].key", i), options[i].key);
    require(fmt::format("options[{}].value", i), options[i].value);
    out.emplace_back(options[i].key, options[i].value);
  }
  return out;
}

std::unique_ptr<ironcl_device_t> handle_of(const std::shared_ptr<backend::Device>& device) {
  auto handle = std::make_unique<ironcl_device_t>();
  handle->state = std::make_shared<DeviceState>();
  handle->state->device = device;
  handle->state->buffer_alignment = std::max<std::uint64_t>(1, device->props().buffer_alignment);
  return handle;
}

}  // namespace

void check_option_names(const backend::Options& options, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : options) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    if (known.size() == 0) invalid("load: unknown option \"{}\"; this plugin has none", key);
    invalid("load: unknown option \"{}\"; this plugin has {}", key, fmt::join(known, ", "));
  }
}

std::optional<std::string> setting(const backend::Options& options, std::string_view option, const char* variable) {
  for (const auto& [key, value] : options) {
    if (key == option && !value.empty()) return value;
  }
  const char* value = variable == nullptr ? nullptr : secure_getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

void Instance::load(const ironcl_host* host, const ironcl_key_value* options, std::uint32_t option_count) {
  if (const pid_t process = process_; process != 0) check_process(process);
  const std::lock_guard lock(mutex_);
  if (state_ != nullptr)
    invalid("load: \"{}\" is loaded already in this process; share that load, or call unload() first", name_);
  ironcl_host known{};
  if (host != nullptr) {
    known = read_struct(host, "host");
    if (known.abi_major != IRONCL_ABI_MAJOR)
      refuse(IRONCL_INCOMPATIBLE,
             "load: the host speaks ABI {}.{}, this plugin {}.{}; the major versions must be the same",
             known.abi_major, known.abi_minor, IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
  }
  const backend::Options given = load_options(options, option_count);
  if (log_ == nullptr) log_ = new HostLog;
  auto state = std::make_unique<State>();
  log_->lend(host == nullptr ? nullptr : &known);
  try {
    state->backend = make_(given, log_);
    if (state->backend == nullptr) refuse(IRONCL_INTERNAL, "load: the backend's factory returned nothing");
  } catch (...) {
    log_->lend(nullptr);
    throw;
  }
  state_ = state.release();
  process_ = getpid();
}

void Instance::unload() noexcept {
  try {
    if (const pid_t process = process_; process != 0 && process != getpid()) return;
    const std::lock_guard lock(mutex_);
    if (state_ == nullptr) return;
    const std::int64_t alive = live_handles.load(std::memory_order_relaxed);
    if (alive != 0) {
      log_->write(
          backend::LogLevel::warn,
          fmt::format("{}: unload() with {} objects not destroyed; destroy queues, buffers, weights, plans and "
                      "events first",
                      name_, alive));
    }
    for (const auto& device : state_->devices) device->state.reset();
    for (const auto& device : state_->imported) device->state.reset();
    state_->backend.reset();
    log_->lend(nullptr);
    state_->next = retired_;
    retired_ = state_;
    state_ = nullptr;
  } catch (...) {
  }
}

void Instance::enumerate(ironcl_device* out_devices, std::uint32_t capacity, std::uint32_t* out_count) {
  require("out_count", out_count);
  if (capacity != 0) require("out_devices", out_devices);
  if (const pid_t process = process_; process != 0) check_process(process);
  const std::lock_guard lock(mutex_);
  if (state_ == nullptr) invalid("enumerate: \"{}\" is not loaded; call load() first", name_);
  if (!state_->listed) {
    std::vector<std::unique_ptr<ironcl_device_t>> devices;
    for (const auto& device : state_->backend->devices()) devices.push_back(handle_of(device));
    state_->devices = std::move(devices);
    state_->listed = true;
  }
  const auto count = static_cast<std::uint32_t>(state_->devices.size());
  for (std::uint32_t i = 0; i < std::min(count, capacity); ++i) out_devices[i] = state_->devices[i].get();
  *out_count = count;
}

void Instance::import_device(const ironcl_native_device* desc, ironcl_device* out_device) {
  const auto known = read_struct(desc, "native_device");
  if (known.kind != IRONCL_NATIVE_OPENCL)
    unimplemented("native_device.kind is {}; this plugin knows 1 (OpenCL)", known.kind);
  require("native_device.device", known.device);
  require("native_device.context", known.context);
  require("out_device", out_device);
  if (const pid_t process = process_; process != 0) check_process(process);
  const std::lock_guard lock(mutex_);
  if (state_ == nullptr) invalid("device_import: \"{}\" is not loaded; call load() first", name_);
  const auto device = state_->backend->import_device(
      {static_cast<backend::NativeDevice::Kind>(known.kind), known.device, known.context});
  if (device == nullptr) refuse(IRONCL_INTERNAL, "device_import: the backend made no device");
  auto& imported = state_->imported;
  auto found = std::find_if(imported.begin(), imported.end(),
                            [&](const auto& handle) { return handle->state->device == device; });
  if (found == imported.end()) found = imported.insert(found, handle_of(device));
  *out_device = found->get();
}

}  // namespace ironcl::adapter
