// SPDX-License-Identifier: Apache-2.0
// The C++ interface of a backend: devices, queues, buffers, weights, plans, events. No ABI types, no files, no
// environment. plugins/adapter turns any Backend into the C table of ironcl/plugin.h, one method per slot.
//
// The adapter has already checked what a problem description says about itself (validate in plugins/adapter): sizes
// are not negative and do not overflow, enumerations are known, spans lie inside their buffers. A backend checks what
// its device can do, and answers through Support or by throwing Error.
//
// Lifetime: objects are shared; a command keeps alive whatever it uses, so dropping an object in use is legal.
// Threads: Device, Buffer, Weights and Event are thread safe; Queue, Gemm and the other things that are enqueued
// serve one thread at a time.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "backends/numerics/experts.h"
#include "backends/problem.h"

namespace ironcl::backend {

using numerics::AccuracyClass;
using numerics::Activation;
using numerics::DType;
using numerics::Quantizer;
using numerics::ScaleGrid;
using numerics::Score;

/// The outcome of a call; values and meanings are those of IRONCL_* in ironcl/plugin.h.
enum class Status : std::uint32_t {
  ok = 0,
  invalid_argument = 1,
  unsupported = 2,
  unimplemented = 3,
  unavailable = 4,
  out_of_host_memory = 5,
  out_of_device_memory = 6,
  build_failed = 7,
  device_lost = 8,
  timeout = 9,
  incompatible = 10,
  internal = 11,
};

/// The one exception a backend throws on purpose. The text says what is wrong, where, and what to do about it.
class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : Error(status, 0, message) {}
  /// With the driver's own code.
  Error(Status status, std::int32_t native_code, const std::string& message)
      : std::runtime_error(message), status_(status), native_code_(native_code) {}
  /// The message by fmt.
  template <class Arg, class... Args>
  Error(Status status, fmt::format_string<Arg, Args...> text, Arg&& arg, Args&&... args)
      : Error(status, fmt::format(text, std::forward<Arg>(arg), std::forward<Args>(args)...)) {}
  Status status() const noexcept { return status_; }
  std::int32_t native_code() const noexcept { return native_code_; }  ///< The driver's own code, else 0.

 private:
  Status status_;
  std::int32_t native_code_;
};

enum class LogLevel : std::uint32_t { error = 0, warn = 1, info = 2, trace = 3 };

/// Where a backend logs; lent by the creator of the backend. Any thread.
class Log {
 public:
  virtual ~Log() = default;
  virtual void write(LogLevel level, const std::string& text) = 0;
};

using GemmDesc = Problem;
using ScaleDesc = Scales;
using ironcl::Grouping;
using ironcl::Options;

enum class Reason : std::uint32_t {
  none = 0,
  dtype = 1,
  scale_layout = 2,
  shape = 3,
  alignment = 4,
  device_feature = 5,
  device_memory = 6,
  accuracy = 7,
  grouping = 8,
  option = 9,
};

/// Why a device does not run something: what, and what would be accepted.
struct Refusal {
  Reason reason = Reason::none;
  std::string text;

  Refusal(Reason why, std::string what) : reason(why), text(std::move(what)) {}
  /// The text by fmt.
  template <class Arg, class... Args>
  Refusal(Reason why, fmt::format_string<Arg, Args...> what, Arg&& arg, Args&&... args)
      : Refusal(why, fmt::format(what, std::forward<Arg>(arg), std::forward<Args>(args)...)) {}
};

enum class TimeKind : std::uint32_t { none = 0, measured = 1, modelled = 2 };

/// Whether a device runs a problem, and if not, why.
struct Support {
  Reason reason = Reason::none;
  std::string text;  ///< The reason in a sentence: what, and what would be accepted.
  AccuracyClass accuracy = AccuracyClass::f32;
  TimeKind estimate_kind = TimeKind::none;
  double estimate_ns = 0;
  std::uint64_t workspace_bytes = 0;

  Support() = default;
  Support(Refusal refusal) : reason(refusal.reason), text(std::move(refusal.text)) {}
};

enum class DeviceType : std::uint32_t { cpu = 1, gpu = 2, accelerator = 3, model = 4 };

struct DeviceProps {
  DeviceType type = DeviceType::cpu;
  std::uint32_t vendor_id = 0;
  bool import_host_pointer = false;
  bool import_cl_mem = false;
  bool event_profiling = false;
  bool bitwise_repeatable = false;
  std::uint64_t memory_bytes = 0;
  std::uint64_t max_buffer_bytes = 0;
  std::uint64_t buffer_alignment = 1;
  std::string name, driver, stable_id;
};

/// Device time of a finished command.
struct Profile {
  TimeKind kind = TimeKind::none;
  std::uint64_t queued_ns = 0, start_ns = 0, end_ns = 0;
};

/// Completion of a command.
class Event {
 public:
  virtual ~Event() = default;
  /// Waits up to `timeout` (nanoseconds::max(): for ever). Returns ok or timeout; throws the command's own Error.
  virtual Status wait(std::chrono::nanoseconds timeout) = 0;
  /// Throws unimplemented where the device cannot say.
  virtual Profile profile() = 0;
};

class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::uint64_t size() const noexcept = 0;  ///< Bytes.
  /// The foreign memory that this buffer wraps, if any; the adapter compares it to find buffers over the same memory.
  const void* imported = nullptr;
  bool is_host_pointer = false;  ///< `imported` is an address, and not a cl_mem.
};

/// `size` bytes of a buffer from `offset`; no buffer means absent. Inside the buffer: the adapter has checked.
struct Span {
  std::shared_ptr<Buffer> buffer;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  bool written = false;  ///< By the call whose operand it is; else read.
  explicit operator bool() const noexcept { return buffer != nullptr; }
};

enum class HostSemantics : std::uint32_t { copied_before_return = 0, stable_until_event = 1 };

/// Commands run in order.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual void finish() = 0;
  /// Later commands run after `event`, which may be another queue's (of the same backend).
  virtual void wait_for(const std::shared_ptr<Event>& event) = 0;
  virtual std::shared_ptr<Event> write(const Span& dst, const void* src, HostSemantics semantics) = 0;
  virtual std::shared_ptr<Event> read(const Span& src, void* dst) = 0;
};

/// Something that is enqueued with its arguments: everything compiled and looked up. Serves one thread at a time.
template <class Args>
class Operation {
 public:
  virtual ~Operation() = default;
  virtual std::shared_ptr<Event> enqueue(const std::shared_ptr<Queue>& queue, const Args& args) = 0;
};

class Gemm;

/// B in host memory. data and scales are read before prepare_weights returns.
struct WeightsDesc {
  DType dtype = DType::none;
  std::int64_t n = 0, k = 0;
  std::int64_t ld = 0;        ///< Elements; the adapter has replaced 0 by k.
  std::int64_t matrices = 1;  ///< One after another.
  ScaleDesc scale;
  const std::byte* data = nullptr;
  const std::byte* scales = nullptr;
  const float* global_scales = nullptr;  ///< One per matrix, where scale.global.
  std::shared_ptr<Gemm> plan;            ///< The plan whose form to prepare; none: the device's usual one.
};

/// B on a device, in the device's own form; immutable.
class Weights {
 public:
  virtual ~Weights() = default;
  virtual std::uint64_t device_bytes() const noexcept = 0;
  virtual std::string form() const = 0;  ///< Its name.
  /// Bytes of the tight export: values, then scales.
  virtual std::uint64_t data_bytes() const noexcept = 0;
  virtual std::uint64_t scale_bytes() const noexcept = 0;
  /// Writes what prepare_weights was given, tight, bit for bit. The pointers hold data_bytes() and scale_bytes().
  virtual void export_to(std::byte* data, std::byte* scales) = 0;
};

struct GemmInfo {
  AccuracyClass accuracy = AccuracyClass::f32;
  std::int64_t accumulation_length = 0;  ///< G of the error bound.
  std::uint64_t workspace_bytes = 0;
  std::string variant, tuning;
  std::string form{};  ///< Form of the weights that it reads; empty: any.
};

/// What each call has beside its operands.
struct CallArgs {
  std::vector<std::shared_ptr<Event>> wait;
  bool wants_event = true;  ///< False: no event is made, and null returned.
};

/// One call of a plan; the spans are those of ironcl_gemm_args.
struct GemmArgs : CallArgs {
  std::int64_t m = 0;
  std::shared_ptr<Weights> weights;
  std::int64_t a_rows = 0;  ///< Rows of A where the plan gathers; else 0.
  Span a, a_scale, d, d_scale, bias, matrix_rows, workspace, a_quantized, a_quantized_scale, a_index;
  Span a_global, d_global;
};

/// A plan.
class Gemm : public Operation<GemmArgs> {
 public:
  virtual GemmInfo info() const = 0;
};

/// X [rows, cols] to codes and scales; the meaning of every field is that of ironcl_quantize_desc.
struct QuantizeDesc {
  std::int64_t rows = 0, cols = 0;
  std::int64_t x_ld = 0, code_ld = 0;  ///< Elements; the adapter has replaced 0 by cols.
  DType x = DType::none, code = DType::none;
  ScaleDesc scale;
  Quantizer quantizer;
};

struct QuantizeArgs : CallArgs {
  std::int64_t rows = 0;
  Span x, codes, scales;
  Span global;
};

using Quantize = Operation<QuantizeArgs>;

/// From a router's logits to rows sorted by expert. Where `given`, ids are read, weights are left alone, and logits
/// are there only with `shared_gate`, of which only the last is read. The meaning of every field is that of
/// ironcl_route_desc; the adapter has replaced 0 local experts by all, and other zeros by what they mean.
struct RouteDesc : numerics::Routing {
  RouteDesc() { score = Score::none; }
  std::int64_t tokens = 0;
  std::int64_t logits_ld = 0;  ///< Elements.
  std::int64_t capacity = 0;   ///< 0: contiguous rows. Else rows of each expert, that many apart.
  std::int64_t first_expert = 0, local_experts = 0;
  bool given = false, shared_gate = false, shared_expert = false;
  DType logits = DType::none, bias = DType::none;

  std::int64_t matrices() const { return local_experts + (shared_expert ? 1 : 0); }
  std::int64_t rows_of_token() const { return top_k + (shared_expert ? 1 : 0); }
  /// Of a call of so many tokens, the most rows that all matrices together have.
  std::int64_t rows(std::int64_t of) const { return capacity != 0 ? local_experts * capacity : of * rows_of_token(); }
};

struct RouteArgs : CallArgs {
  std::int64_t tokens = 0;
  Span logits, bias, ids, weights, matrix_rows, a_index, rows, shared_weights;  ///< weights: absent where given.
};

using Route = Operation<RouteArgs>;

/// activation(gate, up), quantised or not; the meaning of every field is that of ironcl_activate_desc.
struct ActivateDesc {
  std::int64_t rows = 0, cols = 0;
  std::int64_t gate_ld = 0, up_ld = 0, y_ld = 0;  ///< Elements; the adapter has replaced 0 by cols.
  DType x = DType::none, y = DType::none;
  Activation activation = Activation::silu;
  float limit = 0;  ///< 0: nothing is clamped.
  Grouping grouping = Grouping::none;
  std::int64_t matrices = 0;
  ScaleDesc scale;  ///< {1, group_cols}; dtype none where y is a float type.
  Quantizer quantizer;
};

struct ActivateArgs : CallArgs {
  std::int64_t rows = 0;
  Span gate, up, y, scales, matrix_rows;
  Span global;
};

using Activate = Operation<ActivateArgs>;

/// The weighted sum of each token's rows; the meaning of every field is that of ironcl_combine_desc.
struct CombineDesc {
  std::int64_t tokens = 0, cols = 0, rows = 0, top_k = 0;
  std::int64_t x_ld = 0, add_ld = 0, y_ld = 0;  ///< Elements; the adapter has replaced 0 by cols.
  DType x = DType::none, add = DType::none, y = DType::none;
};

struct CombineArgs : CallArgs {
  std::int64_t tokens = 0;
  Span x, rows, weights, add, add_weights, y;  ///< add_weights may be absent: 1.
};

using Combine = Operation<CombineArgs>;

struct SequenceArgs : CallArgs {};

/// A call as a sequence has it: its arguments wait for nothing.
template <class Args>
struct Recorded {
  std::shared_ptr<Operation<Args>> operation;
  Args args;
};
using RecordedCall = std::variant<Recorded<GemmArgs>, Recorded<QuantizeArgs>, Recorded<RouteArgs>,
                                  Recorded<ActivateArgs>, Recorded<CombineArgs>, Recorded<SequenceArgs>>;

/// Calls with fixed arguments, one after another.
class Sequence final : public Operation<SequenceArgs> {
 public:
  /// At least one call. `variant`: the kernel that stands for several calls; empty: none does.
  explicit Sequence(std::vector<RecordedCall> calls, std::string variant = {})
      : calls_(std::move(calls)), variant_(std::move(variant)) {}
  const std::string& variant() const noexcept { return variant_; }
  std::shared_ptr<Event> enqueue(const std::shared_ptr<Queue>& queue, const SequenceArgs& args) override {
    std::shared_ptr<Event> last;
    for (RecordedCall& call : calls_)
      std::visit(
          [&](auto& recorded) {
            // In place: a copy would count references of every buffer.
            if (&call == &calls_.front()) recorded.args.wait = args.wait;
            recorded.args.wants_event = args.wants_event && &call == &calls_.back();
            last = recorded.operation->enqueue(queue, recorded.args);
            recorded.args.wait.clear();
          },
          call);
    return last;
  }

 private:
  std::vector<RecordedCall> calls_;
  std::string variant_;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceProps props() const = 0;
  virtual Support supports(const GemmDesc& desc) = 0;
  /// Facts as text (JSON); `desc` may be null. Throws unimplemented for an unknown key, naming the known ones.
  virtual std::string query(std::string_view key, const GemmDesc* desc) = 0;
  virtual std::shared_ptr<Queue> create_queue() = 0;
  virtual std::shared_ptr<Buffer> create_buffer(std::uint64_t size) = 0;
  enum class Memory : std::uint32_t { host_pointer = 1, cl_mem = 2, pinned_host = 3 };
  /// Wraps memory that the application owns; pinned_host: allocates `size` bytes for the host, whose address goes to
  /// the void* that `handle` points to, as a buffer of no bytes. Default: unimplemented.
  virtual std::shared_ptr<Buffer> import_buffer(Memory, void* /*handle*/, std::uint64_t /*size*/) {
    throw Error(Status::unimplemented, "this backend imports no foreign memory");
  }
  virtual std::shared_ptr<Weights> prepare_weights(const WeightsDesc& desc) = 0;
  /// Throws unsupported, with the text of supports(), where that refuses the problem.
  virtual std::shared_ptr<Gemm> create_gemm(const GemmDesc& desc) = 0;
  /// Throws unsupported, with what would be accepted, where the device will not run it. Default: unimplemented.
  virtual std::shared_ptr<Quantize> create_quantize(const QuantizeDesc&) {
    throw Error(Status::unimplemented, "this backend quantises only inside of a plan");
  }
  /// The steps of a layer of experts, likewise.
  virtual std::shared_ptr<Route> create_route(const RouteDesc&) {
    throw Error(Status::unimplemented, "this backend routes no tokens to experts");
  }
  virtual std::shared_ptr<Activate> create_activate(const ActivateDesc&) {
    throw Error(Status::unimplemented, "this backend has no activations");
  }
  virtual std::shared_ptr<Combine> create_combine(const CombineDesc&) {
    throw Error(Status::unimplemented, "this backend combines no experts' rows");
  }
  /// At least one call, of this device. Default: one after another.
  virtual std::shared_ptr<Sequence> create_sequence(std::vector<RecordedCall> calls) {
    return std::make_shared<Sequence>(std::move(calls));
  }
};

/// Objects of another library that an application has opened itself; the backend keeps a share of what it needs.
struct NativeDevice {
  enum class Kind : std::uint32_t { opencl = 1 };
  Kind kind = Kind::opencl;
  void* device = nullptr;   ///< A cl_device_id.
  void* context = nullptr;  ///< A cl_context that has it.
};

/// What a plugin makes once, at load.
class Backend {
 public:
  virtual ~Backend() = default;
  /// Same devices in the same order on every call and in every process. Throws unavailable where there is no driver.
  virtual std::vector<std::shared_ptr<Device>> devices() = 0;
  /// A device over the application's own objects; the same objects give the same device. Default: unimplemented.
  virtual std::shared_ptr<Device> import_device(const NativeDevice&) {
    throw Error(Status::unimplemented, "this backend makes no device of an application's own objects");
  }
};

}  // namespace ironcl::backend
