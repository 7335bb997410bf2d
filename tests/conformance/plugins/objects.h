// SPDX-License-Identifier: Apache-2.0
// Objects of the reference plugin: the smallest implementation of plugin.h that keeps all its promises, in host
// memory, with a thread for each queue. Written against plugin.h alone (casts from backends/numerics), so that the
// suite is tried on something that shares nothing with our backends.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/include/ironcl/plugin_ops.h"

namespace ironcl::reference {

constexpr std::int64_t kLargest = 0x7fffffff;

/// What a call answers with instead of OK.
struct Refusal : std::runtime_error {
  Refusal(ironcl_status s, const std::string& text) : std::runtime_error(text), status(s) {}
  ironcl_status status;
};

using Bytes = std::vector<std::byte>;

/// The bytes of a buffer: its own, or the host's.
struct Memory {
  explicit Memory(std::uint64_t count) : own(count), data(own.data()), size(count) {}
  Memory(void* host, std::uint64_t count) : data(static_cast<std::byte*>(host)), size(count) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Bytes own;
  std::byte* data;
  std::uint64_t size;
};

/// Completion of a command.
struct Completion {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  ironcl_status status = IRONCL_OK;
  std::string text;
  std::uint64_t queued_ns = 0, start_ns = 0, end_ns = 0;
  std::vector<std::shared_ptr<Completion>> kept;  ///< Fault events_keep_their_causes.
};

using WaitList = std::vector<std::shared_ptr<Completion>>;

struct Command {
  std::vector<std::shared_ptr<Completion>> wait;
  bool orders_only = false;  ///< queue_wait: an error of what it waits for is not its own.
  std::function<void()> work;
  std::shared_ptr<Completion> completion;
};

/// A queue's commands and the thread that runs them; the thread ends when the queue is closed and empty.
class Worker : public std::enable_shared_from_this<Worker> {
 public:
  static std::shared_ptr<Worker> start();
  std::shared_ptr<Completion> push(Command command);
  void finish();
  void close();
  /// Waits until no worker of the process is left.
  static void join_all();

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Command> commands_;
  bool busy_ = false, closed_ = false;
};

/// OK, or TIMEOUT; throws the command's own Refusal.
ironcl_status wait_for(Completion& completion, std::uint64_t timeout_ns);

/// B as given, tight, and decoded: value (n, k) at k * columns + n, one matrix after another.
struct WeightsData {
  ironcl_weights_desc desc{};
  Bytes data, scales;
  std::vector<float> decoded;
  std::vector<float> decoded_scales;
  const void* borrowed = nullptr;  ///< Fault weights_keep_the_pointer.
};

struct PlanData {
  ironcl_gemm_desc desc{};
  std::vector<float> kept_rows, kept_scales;  ///< Fault stale_rows.
};

}  // namespace ironcl::reference

struct ironcl_device_t {
  int unused = 0;
};
struct ironcl_queue_t {
  std::shared_ptr<ironcl::reference::Worker> worker;
};
struct ironcl_buffer_t {
  std::shared_ptr<ironcl::reference::Memory> memory;
};
struct ironcl_weights_t {
  std::shared_ptr<ironcl::reference::WeightsData> data;
};
struct ironcl_op_t {
  std::uint32_t kind = 0;
  std::shared_ptr<ironcl::reference::PlanData> data;  ///< Of a GEMM; the others have a description.
  ironcl_quantize_desc quantize{};
  ironcl_route_desc route{};
  ironcl_activate_desc activate{};
  ironcl_combine_desc combine{};
};
struct ironcl_event_t {
  std::shared_ptr<ironcl::reference::Completion> completion;
};

namespace ironcl::reference {

/// Spans of a call with the buffers kept alive.
struct Region {
  std::shared_ptr<Memory> memory;
  std::uint64_t offset = 0, size = 0;
  std::byte* at() const { return memory ? memory->data + offset : nullptr; }
};
struct Call {
  std::int64_t m = 0;
  std::shared_ptr<WeightsData> weights;
  std::shared_ptr<PlanData> plan;
  std::int64_t a_rows = 0;  ///< Of a gathered A; else 0.
  Region a, a_scale, d, d_scale, bias, workspace, codes, code_scales, counts, index;
  std::vector<std::int32_t> early_counts;  ///< Fault counts_are_read_early.
};

/// A row of D, the row of A that it is made of, and the matrix that multiplies it.
struct Deal {
  std::int64_t d_row, a_row, matrix;
};

struct QuantizeCall {
  ironcl_quantize_desc desc{};
  std::int64_t rows = 0;
  Region x, codes, scales;
};

struct RouteCall {
  ironcl_route_desc desc{};
  std::int64_t tokens = 0;
  Region logits, bias, ids, weights, counts, index, rows, shared;
};
struct ActivateCall {
  ironcl_activate_desc desc{};
  std::int64_t rows = 0;
  Region gate, up, y, scales, counts;
};
struct CombineCall {
  ironcl_combine_desc desc{};
  std::int64_t tokens = 0;
  Region x, rows, weights, add, add_weights, y;
};

// check_experts.cpp: every throws Refusal.
ironcl_route_desc check_route(const ironcl_route_desc* in);
RouteCall check_route_call(const ironcl_route_args* in, const ironcl_route_desc& desc, WaitList* wait);
ironcl_activate_desc check_activate(const ironcl_activate_desc* in);
ActivateCall check_activate_call(const ironcl_activate_args* in, const ironcl_activate_desc& desc, WaitList* wait);
ironcl_combine_desc check_combine(const ironcl_combine_desc* in);
CombineCall check_combine_call(const ironcl_combine_args* in, const ironcl_combine_desc& desc, WaitList* wait);

// check.cpp: what both share.
[[noreturn]] void invalid(const std::string& text);
void known(std::uint32_t value, std::uint32_t last, const char* field);
void dimension(std::int64_t value, std::int64_t least, const char* field);
void leading(std::int64_t ld, std::int64_t cols, std::int64_t rows, const char* field);
bool is_float(ironcl_dtype type);
bool is_code(ironcl_dtype type);
void check_scale(const ironcl_scale_desc& scale, std::int64_t cols, bool tight, const char* field);
void check_wait_list(const ironcl_event* events, std::uint32_t count, WaitList* wait);

// experts.cpp
void route(const RouteCall& call);
void activate(const ActivateCall& call);
void combine(const CombineCall& call);
/// First row and number of rows of each matrix: counts that trust nothing.
void clamp_counts(const std::int32_t* counts, std::int64_t matrices, std::int64_t rows, bool masked,
                  std::vector<std::int64_t>* begin, std::vector<std::int64_t>* used);

// check.cpp: every throws Refusal.
ironcl_quantize_desc check_quantize(const ironcl_quantize_desc* in);
QuantizeCall check_quantize_call(const ironcl_quantize_args* in, const ironcl_quantize_desc& desc, WaitList* wait);
ironcl_gemm_desc check_desc(const ironcl_gemm_desc* in);
/// The reason why the device will not run `desc`; empty where it will.
std::string refusal_of(const ironcl_gemm_desc& desc, ironcl_status* reason, bool asked_by_create);
ironcl_weights_desc check_weights(const ironcl_weights_desc* in);
Call check_call(const ironcl_gemm_args* in, const ironcl_op_t& plan, WaitList* wait);
Region check_span(const ironcl_span& span, const char* name, std::uint64_t needed, std::uint64_t alignment);
std::uint64_t workspace_bytes(const ironcl_gemm_desc& desc);

// gemm.cpp
float decode_one(ironcl_dtype type, const std::byte* at);
void store_one(ironcl_dtype type, float value, std::byte* at);
/// Codes and scales of x [rows, cols] in groups of 1 x cols, x becoming the codes' values.
Bytes quantize_rows(ironcl_dtype type, const ironcl_quantizer_desc& how, const ironcl_scale_desc& scale,
                    std::int64_t rows, std::int64_t cols, std::vector<float>& x, std::vector<float>& scales);
std::shared_ptr<WeightsData> prepare(const ironcl_weights_desc& desc);
void export_weights(const WeightsData& weights, std::byte* data, std::byte* scales);
void multiply(const Call& call);
void quantize(const QuantizeCall& call);
/// Products between two scalings.
std::int64_t accumulation_length(const ironcl_gemm_desc& desc);
std::uint32_t size_of(ironcl_dtype type);
std::int64_t ceil_div(std::int64_t a, std::int64_t b);
/// Groups of `size` elements in `count`; 0 spans all.
std::int64_t groups(std::int64_t count, std::uint32_t size);
/// The bytes of a matrix, and of 32-bit words.
std::uint64_t extent(std::int64_t rows, std::int64_t ld, std::int64_t cols, std::uint32_t element);
std::uint64_t words(std::int64_t count);

// structs.h
/// A copy of a struct that the caller gave: a missing tail is zero, an unknown one must be.
template <class T>
T read_struct(const T* in, const char* name);
/// Writes what fits of `value` into a struct that the caller gave.
template <class T>
void fill_struct(T* out, const T& value, const char* name);
void check_chain(const ironcl_chain* chain);

}  // namespace ironcl::reference

#include "tests/conformance/plugins/structs.h"
