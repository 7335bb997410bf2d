// SPDX-License-Identifier: Apache-2.0
// Loading, unloading and listing: the entries, and what a loaded plugin holds. Next door: entries.cpp.
#include "plugins/adapter/instance.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <mutex>

#include "backends/words.h"
#include "plugins/adapter/entries.h"
#include "plugins/adapter/handles.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

namespace {

/// The host's log as a backend sees it: one call a line; silent before load and after unload.
class HostLog final : public backend::Log {
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
    std::string kind;
    for (const std::string_view known : {"build: ", "create: ", "exec: "}) {
      if (text.starts_with(known)) kind = known;
    }
    for (const std::string_view part : words::split(text, '\n')) {
      const std::string line = (part.data() == text.data() ? "" : kind).append(part);
      if (!part.empty()) write_(context_, static_cast<std::uint32_t>(level), line.c_str());
    }
  }

 private:
  std::mutex mutex_;
  void (*write_)(void*, std::uint32_t, const char*) = nullptr;
  void* context_ = nullptr;
};

/// What a load holds.
struct Loaded {
  std::unique_ptr<backend::Backend> backend;
  std::vector<std::unique_ptr<ironcl_device_t>> devices;  // one for each of the backend's that was handed out
  std::optional<std::vector<ironcl_device>> listed;       // those of enumerate, in its order
  Loaded* next = nullptr;
};

/// The one of this library, constant-initialised and never destroyed: nothing of a driver is released from a static
/// destructor.
struct Instance {
  std::atomic<pid_t> process{0};  // that loaded it first; 0: none has. Read without the lock, which a fork may hold
  std::mutex mutex;               // guards the three below
  HostLog* log = nullptr;         // made by the first load and kept: objects may outlive unload()
  Loaded* loaded = nullptr;
  Loaded* retired = nullptr;  // device handles of earlier loads: empty, but still legal to ask
};
constinit Instance instance;

/// Throws unavailable in a process forked from one that has loaded the plugin.
void check_fork() {
  if (const pid_t process = instance.process; process != 0) check_process(process);
}

/// What the load holds; the lock is held. Throws invalid_argument where there is none.
Loaded& loaded_for(const char* entry) {
  if (instance.loaded == nullptr)
    invalid("{}: \"{}\" is not loaded; call load() first", entry, plugin_definition.name);
  return *instance.loaded;
}

/// The same handle for the same device.
ironcl_device handle_of(Loaded& loaded, const std::shared_ptr<backend::Device>& device) {
  for (const auto& known : loaded.devices)
    if (known->state->device == device) return known.get();
  auto handle = std::make_unique<ironcl_device_t>();
  handle->state = std::make_shared<DeviceState>();
  handle->state->device = device;
  handle->state->buffer_alignment = std::max<std::uint64_t>(1, device->props().buffer_alignment);
  return loaded.devices.emplace_back(std::move(handle)).get();
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

namespace entries {

void load(const ironcl_host* host, const ironcl_key_value* options, uint32_t option_count, ironcl_error*) {
  check_fork();
  const std::lock_guard lock(instance.mutex);
  if (instance.loaded != nullptr)
    invalid("load: \"{}\" is loaded already in this process; share that load, or call unload() first",
            plugin_definition.name);
  ironcl_host known{};
  if (host != nullptr) {
    known = read_struct(host, "host");
    if (known.abi_major != IRONCL_ABI_MAJOR)
      refuse(IRONCL_INCOMPATIBLE,
             "load: the host speaks ABI {}.{}, this plugin {}.{}; the major versions must be the same",
             known.abi_major, known.abi_minor, IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
  }
  const backend::Options given = adapter::read(options, option_count, "options");
  if (instance.log == nullptr) instance.log = new HostLog;
  auto loaded = std::make_unique<Loaded>();
  instance.log->lend(host == nullptr ? nullptr : &known);
  try {
    loaded->backend = plugin_definition.make(given, instance.log);
    if (loaded->backend == nullptr) refuse(IRONCL_INTERNAL, "load: the backend's factory returned nothing");
  } catch (...) {
    instance.log->lend(nullptr);
    throw;
  }
  instance.loaded = loaded.release();
  instance.process = getpid();
}

/// Drops the backend and cuts the log. Handles that the host still holds stay legal to destroy. Does nothing in a
/// forked child, where the driver must not be called.
void unload() {
  try {
    if (const pid_t process = instance.process; process != 0 && process != getpid()) return;
    const std::lock_guard lock(instance.mutex);
    Loaded* const loaded = instance.loaded;
    if (loaded == nullptr) return;
    const std::int64_t alive = live_handles.load(std::memory_order_relaxed);
    if (alive != 0) {
      instance.log->write(
          backend::LogLevel::warn,
          fmt::format("{}: unload() with {} objects not destroyed; destroy queues, buffers, weights, plans and "
                      "events first",
                      plugin_definition.name, alive));
    }
    for (const auto& device : loaded->devices) device->state.reset();
    loaded->backend.reset();
    instance.log->lend(nullptr);
    loaded->next = std::exchange(instance.retired, loaded);
    instance.loaded = nullptr;
  } catch (...) {
  }
}

void enumerate(ironcl_device* out_devices, uint32_t capacity, uint32_t* out_count, ironcl_error*) {
  require("out_count", out_count);
  if (capacity != 0) require("out_devices", out_devices);
  check_fork();
  const std::lock_guard lock(instance.mutex);
  Loaded& loaded = loaded_for("enumerate");
  if (!loaded.listed)
    loaded.listed =
        words::each(loaded.backend->devices(), [&](const auto& device) { return handle_of(loaded, device); });
  const auto count = static_cast<std::uint32_t>(loaded.listed->size());
  std::copy_n(loaded.listed->begin(), std::min(count, capacity), out_devices);
  *out_count = count;
}

/// The same objects give the same handle.
void device_import(const ironcl_native_device* desc, ironcl_device* out_device, ironcl_error*) {
  const auto known = read_struct(desc, "native_device");
  if (known.kind != IRONCL_NATIVE_OPENCL)
    unimplemented("native_device.kind is {}; this plugin knows 1 (OpenCL)", known.kind);
  require("native_device.device", known.device);
  require("native_device.context", known.context);
  require("out_device", out_device);
  check_fork();
  const std::lock_guard lock(instance.mutex);
  Loaded& loaded = loaded_for("device_import");
  const auto device = loaded.backend->import_device(
      {static_cast<backend::NativeDevice::Kind>(known.kind), known.device, known.context});
  if (device == nullptr) refuse(IRONCL_INTERNAL, "device_import: the backend made no device");
  *out_device = handle_of(loaded, device);
}

}  // namespace entries
}  // namespace ironcl::adapter
