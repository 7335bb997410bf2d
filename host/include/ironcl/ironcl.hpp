// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp: the C API of ironcl.h and a plugin's table of plugin.h as C++20: RAII handles, exceptions, spans.
// Header-only, over the two C headers and the standard library; link ironcl::ironcl. Next door: docs/host-api.md.
//
//   ironcl::Registry registry = ironcl::Registry::discover();
//   const ironcl::GemmDesc desc{.m = 2, .n = 128, .k = 128};  // e4m3fn, 1x128 and 128x128 scales, f32 out
//   const ironcl::Device device = registry.select(desc);
//   const std::vector<std::uint8_t> a(2 * 128, 0x38), b(128 * 128, 0x38);  // 1.0 in e4m3fn
//   const std::vector<float> a_scales{1.0f, 2.0f}, b_scales{0.5f};
//   std::vector<float> d(2 * 128);
//
//   const ironcl::Gemm gemm(device, desc);
//   const ironcl::WeightsDesc layer{
//       .n = 128, .k = 128, .data = ironcl::bytes_of(b), .scales = ironcl::bytes_of(b_scales)};
//   const ironcl::Weights weights(device, layer, &gemm);
//   const ironcl::Buffer a_buffer(device, 256), a_scale_buffer(device, 8), d_buffer(device, 1024);
//   ironcl::Queue queue(device);
//   queue.write(a_buffer, std::span(a));
//   queue.write(a_scale_buffer, std::span(a_scales));
//   queue.run(gemm, {.m = 2, .weights = weights, .a = a_buffer, .a_scale = a_scale_buffer, .d = d_buffer});
//   queue.read(d_buffer, std::span(d)).wait();  // row 0 is 64, row 1 is 128
//
// Errors: every failing call throws ironcl::Error. Threads: as plugin.h says of each object. Ownership: objects are
// move-only, release in their destructors and keep their registry alive; a Device is a copyable reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ironcl.h"

namespace ironcl {

/// A status that is not OK, with the message and, where there is one, the driver's own code.
class Error : public std::runtime_error {
 public:
  Error(ironcl_status status, std::int32_t native_code, const std::string& message)
      : std::runtime_error(std::string(ironcl_status_name(status)) + ": " + message),
        status_(status),
        native_code_(native_code) {}
  ironcl_status status() const noexcept { return status_; }
  std::int32_t native_code() const noexcept { return native_code_; }

 private:
  ironcl_status status_;
  std::int32_t native_code_;
};

namespace detail {

inline ironcl_error make_error() {
  ironcl_error error{};
  error.struct_size = sizeof error;
  return error;
}

/// Calls function(args..., &error) and throws where the status is not OK.
template <class F, class... Args>
void check(F&& function, Args&&... args) {
  ironcl_error error = make_error();
  const ironcl_status status = function(std::forward<Args>(args)..., &error);
  if (status != IRONCL_OK) throw Error(status, error.native_code, error.message[0] ? error.message : "no message");
}

/// A zeroed struct of the C API with its struct_size set.
template <class Struct>
Struct sized() {
  Struct value{};
  value.struct_size = sizeof value;
  return value;
}

/// What keeps the plugins of a registry loaded; shared by every object made with one of its devices.
struct RegistryOwner {
  ironcl_registry registry = nullptr;
  std::function<void(std::string_view)> log;
  RegistryOwner() = default;
  RegistryOwner(const RegistryOwner&) = delete;
  RegistryOwner& operator=(const RegistryOwner&) = delete;
  ~RegistryOwner() { ironcl_registry_destroy(registry); }
};

/// The one owner of a plugin's object: `Destroy` is the slot of the table that releases it.
template <class Handle, void (*ironcl_plugin::*Destroy)(Handle)>
class Ref {
 public:
  Ref() = default;
  Ref(std::shared_ptr<RegistryOwner> owner, const ironcl_plugin* api, Handle handle) noexcept
      : owner_(std::move(owner)), api_(api), handle_(handle) {}
  Ref(Ref&& other) noexcept
      : owner_(std::move(other.owner_)), api_(other.api_), handle_(std::exchange(other.handle_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    if (this != &other) {
      reset();
      owner_ = std::move(other.owner_);
      api_ = other.api_;
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Ref() { reset(); }

  /// Releases the object now; legal while work still uses it.
  void reset() noexcept {
    if (handle_) (api_->*Destroy)(std::exchange(handle_, nullptr));
    owner_.reset();
  }
  Handle handle() const noexcept { return handle_; }
  const ironcl_plugin& api() const noexcept { return *api_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 protected:
  std::shared_ptr<RegistryOwner> owner_;
  const ironcl_plugin* api_ = nullptr;
  Handle handle_ = nullptr;
};

}  // namespace detail

/// The bytes of a contiguous range of trivially copyable values, borrowed.
template <class Range>
std::span<const std::byte> bytes_of(const Range& values) {
  return std::as_bytes(std::span(values));
}

/// Scales of an operand: one a block of rows x cols; 0 spans the dimension. As ironcl_scale_desc.
struct Scale {
  ironcl_dtype dtype = IRONCL_DTYPE_NONE;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::int64_t ld = 0;
  ironcl_scale_desc to_c() const {
    return {.dtype = dtype, .group_rows = rows, .group_cols = cols, .reserved = 0, .ld = ld};
  }
};

/// A problem; every field as in ironcl_gemm_desc. The default is a DeepSeek-style layer: e4m3fn operands given with
/// their scales, token groups of 128 and blocks of 128 x 128, f32 out.
struct GemmDesc {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldd = 0;
  ironcl_dtype a_source = IRONCL_DTYPE_NONE;
  ironcl_dtype a = IRONCL_F8_E4M3FN;
  ironcl_dtype b = IRONCL_F8_E4M3FN;
  ironcl_dtype d = IRONCL_F32;
  ironcl_dtype bias = IRONCL_DTYPE_NONE;
  std::uint32_t flags = 0;
  std::uint32_t weakest_accuracy = IRONCL_ACCURACY_F32;
  std::uint32_t grouping = IRONCL_GROUPING_NONE;
  std::uint32_t group_count = 0;
  Scale a_scale{IRONCL_F32, 1, 128};
  Scale b_scale{IRONCL_F32, 128, 128};
  Scale d_scale{};
  ironcl_quantizer_desc a_quantizer{};
  ironcl_quantizer_desc d_quantizer{};
  std::vector<std::pair<std::string, std::string>> options{};  ///< a backend's own, such as {"variant", "gemm_tiled"}
};

namespace detail {

/// The C form of a GemmDesc, which it borrows from: keep the GemmDesc alive.
class CGemmDesc {
 public:
  explicit CGemmDesc(const GemmDesc& desc) : desc_(sized<ironcl_gemm_desc>()) {
    desc_.flags = desc.flags;
    desc_.m = desc.m;
    desc_.n = desc.n;
    desc_.k = desc.k;
    desc_.lda = desc.lda;
    desc_.ldd = desc.ldd;
    desc_.a_source_dtype = desc.a_source;
    desc_.a_dtype = desc.a;
    desc_.b_dtype = desc.b;
    desc_.d_dtype = desc.d;
    desc_.bias_dtype = desc.bias;
    desc_.weakest_accuracy = desc.weakest_accuracy;
    desc_.grouping = desc.grouping;
    desc_.group_count = desc.group_count;
    desc_.a_scale = desc.a_scale.to_c();
    desc_.b_scale = desc.b_scale.to_c();
    desc_.d_scale = desc.d_scale.to_c();
    desc_.a_quantizer = desc.a_quantizer;
    desc_.d_quantizer = desc.d_quantizer;
    if (desc.options.empty()) return;
    for (const auto& [key, value] : desc.options) items_.push_back({key.c_str(), value.c_str()});
    options_.chain.struct_size = sizeof options_;
    options_.chain.type = IRONCL_CHAIN_OPTIONS;
    options_.count = static_cast<std::uint32_t>(items_.size());
    options_.items = items_.data();
    desc_.next = &options_.chain;
  }
  CGemmDesc(const CGemmDesc&) = delete;
  CGemmDesc& operator=(const CGemmDesc&) = delete;
  const ironcl_gemm_desc* get() const { return &desc_; }

 private:
  ironcl_gemm_desc desc_;
  ironcl_options options_{};
  std::vector<ironcl_key_value> items_;
};

}  // namespace detail

/// The answer of supports(); true where the device will run the problem.
struct Support {
  std::uint32_t reason = IRONCL_REASON_NONE;
  std::uint32_t accuracy_class = IRONCL_ACCURACY_F32;
  std::uint32_t estimate_kind = IRONCL_TIME_NONE;
  double estimate_ns = 0;
  std::uint64_t workspace_bytes = 0;
  std::string text;
  explicit operator bool() const { return reason == IRONCL_REASON_NONE; }
};

/// A device of a plugin: a reference, cheap to copy.
class Device {
 public:
  Device() = default;
  Device(std::shared_ptr<detail::RegistryOwner> owner, const ironcl_device_info& info)
      : owner_(std::move(owner)),
        api_(info.api),
        handle_(info.handle),
        uri_(info.uri),
        plugin_(info.plugin),
        props_(*info.props) {}
  /// A device of a plugin that the caller opened without a registry. `api` must have no NULL slot and outlive
  /// everything made here.
  Device(const ironcl_plugin* api, ironcl_device handle, std::string uri = {})
      : api_(api),
        handle_(handle),
        uri_(std::move(uri)),
        plugin_(api->name),
        props_(detail::sized<ironcl_device_props>()) {
    detail::check(api_->device_props, handle_, &props_);
  }

  /// The same of a plugin that `owner` keeps loaded.
  Device(std::shared_ptr<detail::RegistryOwner> owner, const ironcl_plugin* api, ironcl_device handle,
         std::string uri)
      : Device(api, handle, std::move(uri)) {
    owner_ = std::move(owner);
  }

  const std::string& uri() const { return uri_; }
  const std::string& plugin() const { return plugin_; }
  const ironcl_device_props& props() const { return props_; }
  std::string name() const { return props_.name; }
  const ironcl_plugin& api() const { return *api_; }
  ironcl_device handle() const { return handle_; }
  const std::shared_ptr<detail::RegistryOwner>& owner() const { return owner_; }
  explicit operator bool() const { return handle_ != nullptr; }

  Support supports(const GemmDesc& desc) const {
    auto answer = detail::sized<ironcl_support>();
    detail::check(api_->supports, handle_, detail::CGemmDesc(desc).get(), &answer);
    return {answer.reason,      answer.accuracy_class,  answer.estimate_kind,
            answer.estimate_ns, answer.workspace_bytes, answer.text};
  }

  /// device_query as text: "features", "options", "variants" and a backend's own keys.
  std::string query(const std::string& key) const { return query_with(key, nullptr); }
  std::string query(const std::string& key, const GemmDesc& desc) const {
    return query_with(key, detail::CGemmDesc(desc).get());
  }

 private:
  std::string query_with(const std::string& key, const ironcl_gemm_desc* desc) const {
    std::uint64_t size = 0;
    detail::check(api_->device_query, handle_, key.c_str(), desc, nullptr, std::uint64_t{0}, &size);
    std::string text;
    while (size > text.size()) {  // an answer may have grown between two calls
      text.assign(size, '\0');    // with the NUL
      detail::check(api_->device_query, handle_, key.c_str(), desc, text.data(), std::uint64_t{text.size()}, &size);
    }
    text.resize(std::strlen(text.c_str()));
    return text;
  }

  std::shared_ptr<detail::RegistryOwner> owner_;
  const ironcl_plugin* api_ = nullptr;
  ironcl_device handle_ = nullptr;
  std::string uri_, plugin_;
  ironcl_device_props props_{};
};

/// Completion of a command. Destroying it is legal at any time and waits for nothing.
class Event : public detail::Ref<ironcl_event, &ironcl_plugin::event_destroy> {
 public:
  using Ref::Ref;
  /// Waits; throws the command's own failure.
  void wait() const { detail::check(api_->event_wait, handle_, UINT64_MAX); }
  /// Waits at most `timeout_ns`; false when that was not enough, throws the command's own failure.
  bool wait_for(std::uint64_t timeout_ns) const {
    ironcl_error error = detail::make_error();
    const ironcl_status status = api_->event_wait(handle_, timeout_ns, &error);
    if (status == IRONCL_TIMEOUT) return false;
    if (status != IRONCL_OK) throw Error(status, error.native_code, error.message);
    return true;
  }
  /// Times of the command; after it has completed.
  ironcl_event_profile profile() const {
    auto profile = detail::sized<ironcl_event_profile>();
    detail::check(api_->event_profile, handle_, &profile);
    return profile;
  }
  operator ironcl_event() const noexcept { return handle_; }
};

/// Bytes on a device. Converts to the span of the whole buffer.
class Buffer : public detail::Ref<ironcl_buffer, &ironcl_plugin::buffer_destroy> {
 public:
  Buffer() = default;
  Buffer(const Device& device, std::uint64_t bytes) : Buffer(device, bytes, nullptr) {}

  /// Memory that the caller owns, wrapped: host memory (kind IRONCL_MEMORY_HOST_POINTER) or a cl_mem. It outlives the
  /// buffer and every command on it.
  static Buffer wrap(const Device& device, std::uint32_t kind, void* native, std::uint64_t bytes) {
    ironcl_native_memory memory{};
    memory.chain.struct_size = sizeof memory;
    memory.chain.type = IRONCL_CHAIN_NATIVE_MEMORY | IRONCL_CHAIN_REQUIRED;
    memory.kind = kind;
    memory.handle = native;
    return Buffer(device, bytes, &memory.chain);
  }

  std::uint64_t size() const noexcept { return size_; }
  ironcl_span span() const noexcept { return {handle_, 0, size_}; }
  ironcl_span span(std::uint64_t offset, std::uint64_t bytes) const noexcept { return {handle_, offset, bytes}; }
  operator ironcl_span() const noexcept { return span(); }

 private:
  Buffer(const Device& device, std::uint64_t bytes, const ironcl_chain* next)
      : Ref(device.owner(), &device.api(), nullptr), size_(bytes) {
    auto desc = detail::sized<ironcl_buffer_desc>();
    desc.size = bytes;
    desc.next = next;
    detail::check(api_->buffer_create, device.handle(), &desc, &handle_);
  }
  std::uint64_t size_ = 0;
};

/// A plan: everything of a problem that is compiled or looked up. One thread at a time.
class Gemm : public detail::Ref<ironcl_gemm, &ironcl_plugin::gemm_destroy> {
 public:
  Gemm() = default;
  Gemm(const Device& device, const GemmDesc& desc) : Ref(device.owner(), &device.api(), nullptr) {
    detail::check(api_->gemm_create, device.handle(), detail::CGemmDesc(desc).get(), &handle_);
  }
  ironcl_gemm_info info() const {
    auto info = detail::sized<ironcl_gemm_info>();
    detail::check(api_->gemm_info, handle_, &info);
    return info;
  }
};

/// B in host memory; every field as in ironcl_weights_desc.
struct WeightsDesc {
  std::int64_t n = 0, k = 0;
  std::int64_t ld = 0;
  std::uint32_t group_count = 0;
  ironcl_dtype dtype = IRONCL_F8_E4M3FN;
  Scale scale{IRONCL_F32, 128, 128};
  std::span<const std::byte> data{};
  std::span<const std::byte> scales{};
};

/// B, prepared for a device; immutable. Host memory may go once the constructor has returned.
class Weights : public detail::Ref<ironcl_weights, &ironcl_plugin::weights_destroy> {
 public:
  Weights() = default;
  /// `plan`: whose layout to prepare; null: one that every plan of the device takes.
  Weights(const Device& device, const WeightsDesc& desc, const Gemm* plan = nullptr)
      : Ref(device.owner(), &device.api(), nullptr) {
    auto c = detail::sized<ironcl_weights_desc>();
    c.dtype = desc.dtype;
    c.n = desc.n;
    c.k = desc.k;
    c.ld = desc.ld;
    c.group_count = desc.group_count;
    c.scale = desc.scale.to_c();
    c.data = desc.data.data();
    c.scales = desc.scales.data();
    c.data_bytes = desc.data.size();
    c.scale_bytes = desc.scales.size();
    c.plan = plan ? plan->handle() : nullptr;
    detail::check(api_->weights_prepare, device.handle(), &c, &handle_);
  }
  /// The bytes it was made from, tight, bit for bit.
  void export_to(std::span<std::byte> data, std::span<std::byte> scales) const {
    detail::check(api_->weights_export, handle_, data.data(), std::uint64_t{data.size()}, scales.data(),
                  std::uint64_t{scales.size()});
  }
  ironcl_weights_info info() const {
    auto info = detail::sized<ironcl_weights_info>();
    detail::check(api_->weights_info, handle_, &info);
    return info;
  }
  operator ironcl_weights() const noexcept { return handle_; }
};

/// One call of a plan; every field as in ironcl_gemm_args. Weights, buffers and events convert.
struct GemmArgs {
  std::int64_t m = 0;
  ironcl_weights weights = nullptr;
  ironcl_span a{}, a_scale{}, d{}, d_scale{}, bias{}, group_sizes{}, workspace{}, a_quantized{}, a_quantized_scale{};
  std::vector<ironcl_event> wait{};
};

/// A matrix to quantise; every field as in ironcl_quantize_desc. The default is bf16 to e4m3fn in token groups of
/// 128.
struct QuantizeDesc {
  std::int64_t rows = 0, cols = 0;
  std::int64_t x_ld = 0, code_ld = 0;
  ironcl_dtype x = IRONCL_BF16;
  ironcl_dtype code = IRONCL_F8_E4M3FN;
  Scale scale{IRONCL_F32, 1, 128};
  ironcl_quantizer_desc quantizer{};
};

/// A quantiser: everything that is compiled or looked up for one. One thread at a time. Since ABI 1.1: a plugin
/// without it answers UNIMPLEMENTED.
class Quantize : public detail::Ref<ironcl_quantize, &ironcl_plugin::quantize_destroy> {
 public:
  Quantize() = default;
  Quantize(const Device& device, const QuantizeDesc& desc) : Ref(device.owner(), &device.api(), nullptr) {
    auto c = detail::sized<ironcl_quantize_desc>();
    c.rows = desc.rows;
    c.cols = desc.cols;
    c.x_ld = desc.x_ld;
    c.code_ld = desc.code_ld;
    c.x_dtype = desc.x;
    c.code_dtype = desc.code;
    c.scale = desc.scale.to_c();
    c.quantizer = desc.quantizer;
    detail::check(api_->quantize_create, device.handle(), &c, &handle_);
  }
};

/// One call of a quantiser; every field as in ironcl_quantize_args. Buffers and events convert.
struct QuantizeArgs {
  std::int64_t rows = 0;
  ironcl_span x{}, codes{}, scales{};
  std::vector<ironcl_event> wait{};
};

/// Commands in order. One thread at a time.
class Queue : public detail::Ref<ironcl_queue, &ironcl_plugin::queue_destroy> {
 public:
  Queue() = default;
  explicit Queue(const Device& device) : Ref(device.owner(), &device.api(), nullptr) {
    detail::check(api_->queue_create, device.handle(), std::uint32_t{0}, &handle_);
  }

  /// Copies host values to `dst`. By default the values may be reused on return; with IRONCL_HOST_STABLE_UNTIL_EVENT
  /// the caller keeps them until the event completes. The span must be as large as the values.
  template <class T>
  Event write(ironcl_span dst, std::span<T> values, std::uint32_t semantics = IRONCL_HOST_COPIED_BEFORE_RETURN) {
    static_assert(std::is_trivially_copyable_v<T>);
    require_size("write", dst, values.size_bytes());
    return command([&](ironcl_event* event, ironcl_error* error) {
      return api_->write(handle_, dst, values.data(), semantics, event, error);
    });
  }

  /// Copies `src` to host values, which are filled when the event completes.
  template <class T>
  [[nodiscard]] Event read(ironcl_span src, std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);
    require_size("read", src, values.size_bytes());
    return command([&](ironcl_event* event, ironcl_error* error) {
      return api_->read(handle_, src, values.data(), event, error);
    });
  }

  /// Enqueues one call of a plan.
  Event run(const Gemm& gemm, const GemmArgs& args) {
    auto c = detail::sized<ironcl_gemm_args>();
    c.wait_count = static_cast<std::uint32_t>(args.wait.size());
    c.wait = args.wait.data();
    c.m = args.m;
    c.weights = args.weights;
    c.a = args.a;
    c.a_scale = args.a_scale;
    c.d = args.d;
    c.d_scale = args.d_scale;
    c.bias = args.bias;
    c.group_sizes = args.group_sizes;
    c.workspace = args.workspace;
    c.a_quantized = args.a_quantized;
    c.a_quantized_scale = args.a_quantized_scale;
    return command([&](ironcl_event* event, ironcl_error* error) {
      return api_->gemm_enqueue(gemm.handle(), handle_, &c, event, error);
    });
  }

  /// Enqueues one call of a quantiser.
  Event run(const Quantize& quantize, const QuantizeArgs& args) {
    auto c = detail::sized<ironcl_quantize_args>();
    c.wait_count = static_cast<std::uint32_t>(args.wait.size());
    c.wait = args.wait.data();
    c.rows = args.rows;
    c.x = args.x;
    c.codes = args.codes;
    c.scales = args.scales;
    return command([&](ironcl_event* event, ironcl_error* error) {
      return api_->quantize_enqueue(quantize.handle(), handle_, &c, event, error);
    });
  }

  /// Commands enqueued later run after `event`, which may be another queue's of the same plugin.
  void wait(const Event& event) { detail::check(api_->queue_wait, handle_, event.handle()); }
  /// Waits until every command is done.
  void finish() { detail::check(api_->queue_finish, handle_); }

 private:
  static void require_size(const char* what, ironcl_span span, std::uint64_t bytes) {
    if (span.size == bytes) return;
    throw Error(IRONCL_INVALID_ARGUMENT, 0,
                std::string(what) + ": the host has " + std::to_string(bytes) + " bytes, the span of the buffer " +
                    std::to_string(span.size) + "; give the part that is meant with Buffer::span(offset, bytes)");
  }
  template <class F>
  Event command(F&& enqueue) {
    ironcl_event event = nullptr;
    detail::check(enqueue, &event);
    return Event(owner_, api_, event);
  }
};

/// A plugin of a registry, as ironcl_plugin_info.
struct PluginInfo {
  std::string name, build_id, path;
  std::uint32_t abi_major = 0, abi_minor = 0, flags = 0, device_count = 0, source = 0;
  ironcl_status enumerate_status = IRONCL_OK;
  std::string enumerate_reason;
  const ironcl_plugin* api = nullptr;
};

/// An entry of the load report, as ironcl_report_entry.
struct ReportEntry {
  std::uint32_t outcome = 0, step = 0, source = 0;
  ironcl_status status = IRONCL_OK;
  std::string path, plugin, build_id, reason;
};

/// What selection found about a device, as ironcl_candidate.
struct Candidate {
  std::uint32_t verdict = 0, rank = UINT32_MAX, reason = IRONCL_REASON_NONE;
  ironcl_status status = IRONCL_OK;
  std::string text;
  Device device;
  std::optional<Support> support;  ///< empty where the device was not asked
};

/// A choice and how it came about. `device` is empty where nothing was chosen; `error` then says why.
struct Selection {
  std::optional<Device> device;
  std::vector<Candidate> candidates;
  ironcl_status status = IRONCL_OK;
  std::string error;
};

/// The plugins that were found. Thread safe. Devices and what is made with them keep it alive.
class Registry {
 public:
  struct PluginOption {
    std::string plugin, key, value;
  };
  struct Options {
    bool use_environment = true;
    bool unload = false;  ///< IRONCL_REGISTRY_UNLOAD
    std::string plugin_files{}, plugin_dirs{}, disable{};
    std::optional<std::string> verbose{};         ///< as IRONCL_VERBOSE; empty: what that variable says
    std::function<void(std::string_view)> log{};  ///< one line a call, from any thread; it must not throw
    std::vector<PluginOption> plugin_options{};
  };

  /// An empty registry.
  Registry() : Registry(Options{}) {}
  explicit Registry(const Options& options) : owner_(std::make_shared<detail::RegistryOwner>()) {
    owner_->log = options.log;
    auto c = detail::sized<ironcl_registry_options>();
    if (!options.use_environment) c.flags |= IRONCL_REGISTRY_IGNORE_ENVIRONMENT;
    if (options.unload) c.flags |= IRONCL_REGISTRY_UNLOAD;
    c.verbose = options.verbose ? options.verbose->c_str() : nullptr;
    c.plugin_files = options.plugin_files.empty() ? nullptr : options.plugin_files.c_str();
    c.plugin_dirs = options.plugin_dirs.empty() ? nullptr : options.plugin_dirs.c_str();
    c.disable = options.disable.empty() ? nullptr : options.disable.c_str();
    if (owner_->log) {
      c.log_context = owner_.get();
      c.log = [](void* context, const char* line) { static_cast<detail::RegistryOwner*>(context)->log(line); };
    }
    std::vector<ironcl_plugin_option> items;
    for (const auto& option : options.plugin_options)
      items.push_back({option.plugin.c_str(), option.key.c_str(), option.value.c_str()});
    c.plugin_options = items.data();
    c.plugin_option_count = static_cast<std::uint32_t>(items.size());
    detail::check(ironcl_registry_create, &c, &owner_->registry);
  }

  /// A registry with every plugin of the usual places.
  static Registry discover() { return discover(Options{}); }
  static Registry discover(const Options& options) {
    Registry registry(options);
    registry.search();
    return registry;
  }

  void load_file(const std::string& path) { detail::check(ironcl_registry_load_file, handle(), path.c_str()); }
  void search() { detail::check(ironcl_registry_discover, handle()); }
  /// Unloads every plugin now. Everything made with its devices must be gone.
  void shutdown() { detail::check(ironcl_registry_shutdown, handle()); }

  std::vector<PluginInfo> plugins() const {
    std::vector<PluginInfo> all;
    for (std::uint32_t i = 0, count = ironcl_registry_plugin_count(handle()); i < count; ++i) {
      auto c = detail::sized<ironcl_plugin_info>();
      detail::check(ironcl_registry_plugin_info, handle(), i, &c);
      all.push_back({c.name, c.build_id, c.path, c.abi_major, c.abi_minor, c.flags, c.device_count, c.source,
                     c.enumerate_status, c.enumerate_reason, c.api});
    }
    return all;
  }

  std::vector<Device> devices() const {
    std::vector<Device> all;
    for (std::uint32_t i = 0, count = ironcl_registry_device_count(handle()); i < count; ++i) {
      auto c = detail::sized<ironcl_device_info>();
      detail::check(ironcl_registry_device_info, handle(), i, &c);
      all.emplace_back(owner_, c);
    }
    return all;
  }

  /// The device of a URI: "opencl:0", "opencl:gpu", "opencl:cpu:1", "ironwood:0", "auto".
  Device device(const std::string& uri) const {
    auto c = detail::sized<ironcl_device_info>();
    detail::check(ironcl_registry_find_device, handle(), uri.c_str(), &c);
    return Device(owner_, c);
  }

  /// A device of `plugin` ("opencl") over the application's own cl_device_id and cl_context, for buffers that are its
  /// cl_mems: Buffer::wrap(device, IRONCL_MEMORY_CL_MEM, mem, bytes). The plugin retains both until it is unloaded.
  Device import_opencl(const std::string& plugin, void* cl_device, void* cl_context) const {
    for (const PluginInfo& info : plugins()) {
      if (info.name != plugin) continue;
      auto native = detail::sized<ironcl_native_device>();
      native.kind = IRONCL_NATIVE_OPENCL;
      native.device = cl_device;
      native.context = cl_context;
      ironcl_device device = nullptr;
      detail::check(info.api->device_import, &native, &device);
      return Device(owner_, info.api, device, plugin + ":imported");
    }
    throw Error(IRONCL_INVALID_ARGUMENT, 0, "no plugin \"" + plugin + "\" is loaded");
  }

  /// The device that runs the problem, by the caller's URIs (','-separated), IRONCL_DEVICE or the rule of ironcl.h.
  Device select(const GemmDesc& desc, const std::string& preference = {}) const {
    Selection selection = explain(&desc, preference);
    if (!selection.device) throw Error(selection.status, 0, selection.error);
    return *selection.device;
  }

  /// The same, with what was found about each device, and without throwing where none will do. `desc` may be null.
  Selection explain(const GemmDesc* desc, const std::string& preference = {}) const {
    struct Visit {
      const Registry* registry;
      Selection selection;
    } visit{this, {}};
    std::optional<detail::CGemmDesc> c_desc;
    if (desc) c_desc.emplace(*desc);
    auto options = detail::sized<ironcl_select_options>();
    options.desc = c_desc ? c_desc->get() : nullptr;
    options.preference = preference.c_str();
    options.visit_context = &visit;
    options.visit = [](void* context, const ironcl_candidate* c) noexcept {
      auto& self = *static_cast<Visit*>(context);
      Candidate candidate{
          c->verdict, c->rank, c->reason, c->status, c->text, Device(self.registry->owner_, *c->device), {}};
      if (const ironcl_support* s = c->support)
        candidate.support =
            Support{s->reason, s->accuracy_class, s->estimate_kind, s->estimate_ns, s->workspace_bytes, s->text};
      self.selection.candidates.push_back(std::move(candidate));
    };
    auto chosen = detail::sized<ironcl_device_info>();
    ironcl_error error = detail::make_error();
    visit.selection.status = ironcl_registry_select(handle(), &options, &chosen, &error);
    if (visit.selection.status == IRONCL_OK)
      visit.selection.device = Device(owner_, chosen);
    else
      visit.selection.error = error.message;
    return std::move(visit.selection);
  }

  std::vector<ReportEntry> report() const {
    std::vector<ReportEntry> all;
    for (std::uint32_t i = 0, count = ironcl_registry_report_count(handle()); i < count; ++i) {
      auto c = detail::sized<ironcl_report_entry>();
      detail::check(ironcl_registry_report_entry, handle(), i, &c);
      all.push_back({c.outcome, c.step, c.source, c.status, c.path, c.plugin, c.build_id, c.reason});
    }
    return all;
  }

  ironcl_registry handle() const { return owner_->registry; }

 private:
  std::shared_ptr<detail::RegistryOwner> owner_;
};

}  // namespace ironcl
