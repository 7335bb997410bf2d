// SPDX-License-Identifier: Apache-2.0
// A plugin of invented devices, told by load options what to be and how to fail; compile definitions make the
// variants that are broken before load. Next door: CMakeLists.txt (the variants), ../fakes.h (what tests ask of it).
//
// Options: devices = "TYPE/MEMORY[/REASON-CODE[/ACCURACY]],..."; load and enumerate = "ok", "fail", "unavailable",
// "throw"; enumerate also "null" (NULL handles), "many" (more devices than anybody has), "props" (device_props of
// device 0 fails), "props_throw" and "unterminated" (of each) and "unload_throws".
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/include/ironcl/plugin.h"

#ifndef FAKE_NAME
#define FAKE_NAME "fake"
#endif
#ifndef FAKE_TABLE_NAME
#define FAKE_TABLE_NAME FAKE_NAME
#endif
#ifndef FAKE_MAJOR
#define FAKE_MAJOR IRONCL_ABI_MAJOR
#endif
#ifndef FAKE_MINOR
#define FAKE_MINOR IRONCL_ABI_MINOR
#endif
#ifndef FAKE_SIZE
#define FAKE_SIZE sizeof(ironcl_plugin)
#endif
#ifndef FAKE_ENUMERATE
#define FAKE_ENUMERATE enumerate
#endif
#ifndef FAKE_EXTENSIONS
#define FAKE_EXTENSIONS nullptr
#endif

namespace {

struct Device {
  std::uint32_t type;
  std::uint64_t memory;
  std::uint32_t reason;
  std::uint32_t accuracy;
};
struct State {
  std::vector<Device> devices{{IRONCL_DEVICE_CPU, 1000, 0, 0}};
  std::string enumerate = "ok";
  const ironcl_host* host = nullptr;
};
State state;
int loads = 0, unloads = 0;

ironcl_status fail(ironcl_error* error, ironcl_status status, const char* text) {
  if (error) {
    error->status = status;
    error->native_code = -7;
    std::snprintf(error->message, sizeof error->message, "%s", text);
  }
  return status;
}

ironcl_status behave(const std::string& how, ironcl_error* error) {
  if (how == "fail") return fail(error, IRONCL_INTERNAL, "told to fail");
  if (how == "silent") return IRONCL_INTERNAL;
  if (how == "unavailable") return fail(error, IRONCL_UNAVAILABLE, "no driver here");
  if (how == "throw") throw std::runtime_error("told to throw");
  return IRONCL_OK;
}

std::vector<Device> parse_devices(const char* text) {
  std::vector<Device> devices;
  while (*text) {
    char type[32] = "";
    unsigned long long memory = 0;
    unsigned reason = 0, accuracy = 0;
    int used = 0;
    std::sscanf(text, "%31[a-z]/%llu%n/%u%n/%u%n", type, &memory, &used, &reason, &used, &accuracy, &used);
    const std::uint32_t code = !std::strcmp(type, "cpu")     ? IRONCL_DEVICE_CPU
                               : !std::strcmp(type, "gpu")   ? IRONCL_DEVICE_GPU
                               : !std::strcmp(type, "model") ? IRONCL_DEVICE_MODEL
                                                             : IRONCL_DEVICE_ACCELERATOR;
    devices.push_back({code, memory, reason, accuracy});
    text += used;
    if (*text == ',') ++text;
  }
  return devices;
}

ironcl_status load(const ironcl_host* host, const ironcl_key_value* options, std::uint32_t count,
                   ironcl_error* error) {
  State next;
  next.host = host;
  std::string how = "ok";
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string key = options[i].key, value = options[i].value;
    if (key == "devices") {
      next.devices = parse_devices(options[i].value);
    } else if (key == "load") {
      how = value;
    } else if (key == "enumerate") {
      next.enumerate = value;
    } else if (key == "log") {
      if (host && host->log) host->log(host->context, static_cast<std::uint32_t>(value[0] - '0'), value.c_str() + 1);
    } else {
      return fail(error, IRONCL_INVALID_ARGUMENT, "unknown option; there are devices, load, enumerate, log");
    }
  }
  if (const ironcl_status status = behave(how, error)) return status;
  state = next;
  ++loads;
  return IRONCL_OK;
}

void unload() {
  ++unloads;
  state.devices.clear();
  if (state.enumerate == "unload_throws") throw std::runtime_error("told to throw");
}

ironcl_device handle_of(std::size_t i) { return reinterpret_cast<ironcl_device>(i + 1); }
Device& device_of(ironcl_device device) { return state.devices[reinterpret_cast<std::size_t>(device) - 1]; }

[[maybe_unused]] ironcl_status enumerate(ironcl_device* out, std::uint32_t capacity, std::uint32_t* count,
                                         ironcl_error* error) {
  if (const ironcl_status status = behave(state.enumerate, error)) return status;
  if (state.enumerate == "many") {
    std::fill_n(out, capacity, handle_of(0));
    *count = 4097;
    return IRONCL_OK;
  }
  for (std::uint32_t i = 0; i < capacity && i < state.devices.size(); ++i)
    out[i] = state.enumerate == "null" ? nullptr : handle_of(i);
  *count = static_cast<std::uint32_t>(state.devices.size());
  return IRONCL_OK;
}

ironcl_status device_props(ironcl_device device, ironcl_device_props* props, ironcl_error* error) {
  const Device& it = device_of(device);
  if (state.enumerate == "props" && device == handle_of(0)) return fail(error, IRONCL_DEVICE_LOST, "device fell off");
  if (state.enumerate == "props_throw") throw std::runtime_error("told to throw");
  props->type = it.type;
  props->memory_bytes = it.memory;
  std::snprintf(props->name, sizeof props->name, "%s device %d", FAKE_NAME,
                static_cast<int>(&it - state.devices.data()));
  if (state.enumerate == "unterminated") std::memset(props->name, 'x', sizeof props->name);
  return IRONCL_OK;
}

ironcl_status supports(ironcl_device device, const void* asked, ironcl_support* support, ironcl_error* error) {
  const Device& it = device_of(device);
  const auto* desc = static_cast<const ironcl_gemm_desc*>(asked);
  if (desc->n < 1) return fail(error, IRONCL_INVALID_ARGUMENT, "n is 0, expected at least 1");
  if (it.reason == 99) throw std::runtime_error("supports was told to throw");
  support->reason = it.reason;
  support->accuracy_class = it.accuracy;
  if (it.reason) std::snprintf(support->text, sizeof support->text, "refused with reason %u", it.reason);
  return IRONCL_OK;
}

ironcl_status device_query(ironcl_device, const char* key, const void*, char* out, std::uint64_t capacity,
                           std::uint64_t* size, ironcl_error* error) {
  std::string text;
  if (!std::strcmp(key, "loads")) {
    text = std::to_string(loads);
  } else if (!std::strcmp(key, "unloads")) {
    text = std::to_string(unloads);
  } else {
    return fail(error, IRONCL_UNIMPLEMENTED, "no such key");
  }
  if (capacity) std::snprintf(out, capacity, "%s", text.c_str());
  *size = text.size() + 1;
  return IRONCL_OK;
}

[[maybe_unused]] constexpr ironcl_sanitizer kOtherSanitizer = {
    {sizeof(ironcl_sanitizer), IRONCL_CHAIN_SANITIZER, nullptr}, IRONCL_SANITIZER_MEMORY, 0};
[[maybe_unused]] constexpr ironcl_chain kUnknownRequired = {sizeof(ironcl_chain), 77u | IRONCL_CHAIN_REQUIRED,
                                                            nullptr};
[[maybe_unused]] constexpr ironcl_chain kUnknownOptional = {sizeof(ironcl_chain), 77u, nullptr};

[[maybe_unused]] constexpr ironcl_chain kEndless = {sizeof(ironcl_chain), 77u, &kEndless};

struct Grown {  // as if a later minor version had appended slots
  ironcl_plugin table;
  void* appended[8];
};

[[maybe_unused]] ironcl_plugin make_table() {
  ironcl_plugin table{};
  table.struct_size = FAKE_SIZE;
  table.abi_major = FAKE_MAJOR;
  table.abi_minor = FAKE_MINOR;
  table.flags = IRONCL_PLUGIN_UNLOADABLE;
  table.name = FAKE_TABLE_NAME;
  table.build_id = "fake 1.2.3";
  table.extensions = FAKE_EXTENSIONS;
  table.load = load;
  table.unload = unload;
  table.enumerate = FAKE_ENUMERATE;
  table.device_props = device_props;
  table.supports = supports;
  table.device_query = device_query;
  return table;
}

}  // namespace

extern "C" IRONCL_EXPORT const ironcl_plugin* ironcl_plugin_query(std::uint32_t, std::uint32_t) {
#if defined(FAKE_QUERY_THROWS)
  throw std::runtime_error("query was told to throw");
#elif defined(FAKE_QUERY_NULL)
  return nullptr;
#else
  static const Grown grown{make_table(), {}};
  return &grown.table;
#endif
}
