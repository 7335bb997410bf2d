// SPDX-License-Identifier: Apache-2.0
// One problem on one device, through the C ABI: plan, weights, guarded buffers, calls and their checks.
// Next door: problem.h (what the problem is), harness.h (the tests that use it).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/numerics/bounds.h"
#include "tests/conformance/suite/harness.h"
#include "tests/conformance/suite/problem.h"

namespace ironcl::conformance {

Queue make_queue(Context& context);
Buffer make_buffer(Context& context, std::uint64_t size);
/// Writes `bytes` at `offset` and waits.
void upload(Context& context, ironcl_queue queue, ironcl_buffer buffer, std::uint64_t offset,
            std::span<const std::byte> bytes);
std::vector<std::byte> download(Context& context, ironcl_queue queue, ironcl_buffer buffer, std::uint64_t offset,
                                std::uint64_t size);
/// Waits for ever; throws Failed with the command's own status.
void wait(Context& context, ironcl_event event, const char* what);

ironcl_device_props props_of(Context& context);

/// An operation of any kind. supports() and op_create must agree. Throws Unsupported with the reason, Failed where
/// they differ.
Op make_op(Context& context, const void* desc);
inline Op make_plan(Context& context, const ironcl_gemm_desc& desc) { return make_op(context, &desc); }

/// Of a test's own struct that describes one.
template <class T>
requires requires(const T& t) { t.desc(); }
Op make_op(Context& context, const T& described) {
  const auto desc = described.desc();
  return make_op(context, static_cast<const void*>(&desc));
}

/// One call, and the wait for it.
void run(Context& context, ironcl_op op, ironcl_queue queue, const void* args);

template <class T, class Bench>
void call(Context& context, const T& described, const Op& op, const Bench& bench) {
  const auto args = bench.args(described);
  run(context, op.get(), bench.queue.get(), &args);
}

/// That supports() and op_create refuse a description, or op_enqueue a call, with `status` in a text that has `word`.
void expect_refused(Context& context, const void* desc, ironcl_status status, const char* word,
                    const char* what = "");
void expect_call_refused(Context& context, ironcl_op op, ironcl_queue queue, const void* args, const char* word,
                         const char* what = "");

constexpr ironcl_status kInvalid = IRONCL_INVALID_ARGUMENT, kUnknown = IRONCL_UNIMPLEMENTED;
constexpr std::uint64_t kGuard = 512;  ///< Bytes on each side of what a call writes.

/// What makes a description wrong, and how it is refused.
template <class Desc>
struct Wrong {
  const char* word;
  ironcl_status status;
  void (*change)(Desc&);
};

/// That `good` is made, and refused with each of the changes.
template <class Desc, std::size_t N>
void expect_wrong(Context& context, const Desc& good, const Wrong<Desc> (&all)[N]) {
  make_op(context, &good);
  for (const Wrong<Desc>& wrong : all) {
    Desc desc = good;
    wrong.change(desc);
    expect_refused(context, &desc, wrong.status, wrong.word);
  }
}

/// The same of the arguments of a call of `op`.
template <class Args, std::size_t N>
void expect_wrong_calls(Context& context, ironcl_op op, ironcl_queue queue, const Args& good,
                        const Wrong<Args> (&all)[N]) {
  for (const Wrong<Args>& wrong : all) {
    Args args = good;
    wrong.change(args);
    expect_call_refused(context, op, queue, &args, wrong.word);
  }
}

/// Whether `text` has `word` as a word of its own (m, k) or as part of a path (gemm_desc.k, a_scale.ld).
bool has_word(const std::string& text, const std::string& word);

ironcl_op_info info_of(Context& context, ironcl_op plan);

/// B, spread to its ld, prepared for `plan` (NULL: in the device's usual layout). The host bytes are overwritten
/// afterwards.
Weights make_weights(Context& context, const Problem& problem, const Operands& operands, ironcl_op plan);

/// The length of accumulation that the bound may use, checked against the scale grids.
numerics::BoundTerms bound_terms(const Problem& problem, const ironcl_op_info& info);

/// What is wrong with D [of want.rows] of a problem, by its bits where it is exact, else by its bound; else empty.
std::string wrong_about(const Problem& problem, const numerics::BoundTerms& terms, std::span<const double> got,
                        const numerics::OracleResult& want);

/// Result of a call: D as a tight matrix, bytes and values.
struct Output {
  std::vector<std::byte> bytes;
  std::vector<double> values;
};

struct RigOptions {
  bool weights_for_plan = true;  ///< Prepare B in the plan's layout; else in the device's usual one.
  bool own_workspace = false;    ///< Lend the plan a guarded workspace.
  bool keep_quantized = false;   ///< Ask for a_quantized and a_quantized_scale.
};

/// A problem made ready on a device.
class Rig {
 public:
  /// Throws Unsupported where the plugin refuses the problem.
  Rig(Context& context, const Problem& problem, RigOptions options = {});
  /// The same with operands made elsewhere.
  Rig(Context& context, const Problem& problem, Operands operands, RigOptions options = {});

  /// Poisons D, calls the plan on the rig's queue, waits, and returns D. Adds a failure for every byte outside D (or
  /// the workspace) that changed and for elements that were not written.
  Output call();
  /// The pieces of call(), for tests about order: refill and upload everything; enqueue only; read back and check.
  void reset();
  Event enqueue(ironcl_queue queue, std::span<const ironcl_event> wait = {});
  Output collect(ironcl_queue queue);
  /// What a call is given; tests change it to see it refused.
  ironcl_gemm_args args() const;
  /// Calls with `args` as they are; out_event as the plugin left it.
  ironcl_status enqueue_raw(ironcl_queue queue, const ironcl_gemm_args& args, ironcl_event* event, Error& error);

  /// Compares with the oracle: bit for bit where the problem is exact, else by the bound. One failure a call.
  void expect_right(const Output& output);
  /// Compares what the plan left in a_quantized with numerics::quantize, bit for bit.
  void expect_quantized_right();
  std::vector<std::byte> quantized_codes();
  std::vector<std::byte> quantized_scales();

  const Problem& problem() const { return problem_; }
  const Operands& operands() const { return operands_; }
  const Expected& expected();  ///< Computed at the first call.
  const ironcl_op_info& info() const { return info_; }
  ironcl_op plan() const { return plan_.get(); }
  ironcl_queue queue() const { return queue_.get(); }
  ironcl_weights weights() const { return weights_.get(); }
  ironcl_buffer d_buffer() const { return d_.buffer.get(); }
  ironcl_span d_span() const { return d_.span(); }
  /// Takes one object out of the rig and destroys it now.
  void destroy_plan() { plan_.reset(); }
  void destroy_weights() { weights_.reset(); }
  void destroy_queue() { queue_.reset(); }
  void destroy_buffers();

 private:
  /// A span inside a buffer with guard bytes on both sides.
  struct Guarded {
    Buffer buffer;
    std::uint64_t offset = 0, size = 0, whole = 0;
    ironcl_span span() const { return {buffer.get(), offset, size}; }
  };
  Guarded guarded(std::uint64_t size, bool offset);
  void put(const Guarded& to, std::span<const std::byte> bytes);
  void check_guards(const Guarded& of, std::span<const std::byte> whole, const char* name);

  Context& context_;
  Problem problem_;
  RigOptions options_;
  Operands operands_;
  ironcl_device_props props_;
  Queue queue_;
  Op plan_;
  ironcl_op_info info_{};
  Weights weights_;
  Guarded a_, a_scale_, d_, bias_, workspace_, codes_, code_scales_;
  std::vector<Expected> expected_;
};

/// The whole life of a problem: rig, call, check. What the data-driven groups run.
void run_problem(Context& context, const Problem& problem);

/// Adds a test that runs `problem`.
void add_problem(Suite& suite, const char* group, const std::string& name, const Problem& problem, bool floor,
                 bool heavy = false);

}  // namespace ironcl::conformance
