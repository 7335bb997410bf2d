// SPDX-License-Identifier: Apache-2.0
// A list on a device with what its calls bring. A problem's weights and activations may rotate, so that no call finds
// them in a cache. Next door: runner.h, operands.h (what a problem is made from), expected.h and judge.h.
#pragma once

#include "host/layer/expected.h"
#include "host/layer/experts.h"
#include "host/layer/experts_input.h"
#include "host/layer/operands.h"

namespace ironcl::layer {

/// One call, timed.
struct Timing {
  double device_ns = 0;  ///< From the event's profile: start of the first kernel to the end of the last; 0: not said.
  double host_ns = 0;    ///< From before the enqueue to after the wait, on the host's clock.
  std::uint32_t time_kind = IRONCL_TIME_NONE;

  /// What the call took: as the device says, or on the host's clock where it says nothing.
  double ns() const { return time_kind == IRONCL_TIME_NONE ? host_ns : device_ns; }
};

/// "measured", "modelled"; empty for none.
std::string time_kind_name(std::uint32_t time_kind);

/// Results of a call in host memory, with what its plan says of itself; of a layer of experts the weakest class of
/// its products and the rest of the first one's.
struct Output : PlanInfo {
  std::vector<std::byte> d;         ///< The list's result, tight; what the device did not write is NaN.
  std::vector<std::byte> d_scales;  ///< Scales of a quantised D, without gaps, of the type of its value.
  std::int64_t unwritten = 0;       ///< Elements of it that the device did not write.
  bool shows_quantized = false;
  QuantizedA quantized;  ///< What the plan made of A, where that was asked for and the plan quantises.
  Timing timing;
  RoutedTokens routed;        ///< Routing of a layer of experts, computed or given.
  std::vector<float> logits;  ///< [T, logits()]; empty where the routing was given.
};

/// Prepared copies of one B on one device, by layout, which candidates of a search share. One thread at a time.
using WeightsPool = std::map<std::string, Runner::Copies>;

struct ExecutionSettings {
  std::uint64_t rotate_bytes = 0;  ///< As many copies of the weights as reach it, at least one, at most 64.
  WeightsPool* pool = nullptr;     ///< Copies of `layout` are taken from there or put there; its B is the operands'.
  std::string layout{};
  std::size_t copies = 1;  ///< At least this many, whatever their size.
};

/// One thread at a time.
class Execution {
 public:
  /// Creates the plan, prepares the weights and uploads the rest of the operands. Throws ironcl::Error as the plugin
  /// answers (UNSUPPORTED with the device's reason), std::overflow_error.
  Execution(const Device& device, const report::Problem& problem, const Operands& operands,
            const ExecutionSettings& settings = {});

  /// Calls of a list with what they bring; the runner outlives this. Throws std::invalid_argument where a value is
  /// not in the list or has another size.
  Execution(const Device& device, Runner& runner, std::int64_t tokens, const std::vector<Brought>& brought);
  /// Calls of a layer of experts with an input, routed by itself where the input has no routing.
  Execution(const Device& device, Runner& experts, const ExpertsInput& input);

  /// Runs one call on the next copy and waits for it.
  Timing run();
  /// Poisons D, runs one call and reads what it left; with `show_quantized`, the plan's own codes and scales of A.
  /// `instead`: runs in place of that call, to its end.
  Output compute(bool show_quantized = false, const std::function<Timing()>& instead = nullptr);
  /// compute(), compared with the oracle.
  Check check(const Expected& expected, const std::function<Timing()>& instead = nullptr);
  /// What the last call left of a value that no caller brings: [rows, value.cols] in f64, scales applied.
  std::vector<double> left(ValueId value, std::int64_t rows);

  /// Adds a call on the next copy to a sequence.
  void record(SequenceDesc& into) { runner_->record(next_call(), into); }
  /// From here on each call is the next one of now, recorded, and its time the host's.
  void record();
  /// The kernel that runs several of the recorded calls as one; empty: none does.
  std::string variant() const { return sequence_ ? sequence_.info().variant : ""; }

  const Runner& runner() const noexcept { return *runner_; }
  const Gemm& plan() const { return runner_->gemm(0); }               ///< The plan of a single product.
  double plan_ns() const noexcept { return plan_ns_; }                ///< Host time of creating the plan.
  double prepare_ns() const noexcept { return prepare_ns_; }          ///< Host time of preparing the weights once.
  std::size_t copies() const { return runner_->weights(0)->size(); }  ///< Of the weights.

 private:
  /// What every call brings of a value: copies in turn.
  struct Given {
    ValueId value = kNoValue;
    std::vector<Buffer> values, scales;
  };
  void prepare(const Operands& operands, const ExecutionSettings& settings);
  Buffer upload(std::span<const std::byte> values);
  void bind_result(std::int64_t tokens);
  void bring(const std::string& name, std::span<const std::byte> values, std::span<const std::byte> scales = {},
             std::size_t copies = 1);
  Call next_call();
  Timing run(const Call& call);
  template <class T>
  std::vector<T> fetch(const ironcl_span& span);

  report::Problem problem_;
  Device device_;
  Queue queue_;
  std::unique_ptr<Runner> own_;
  Runner* runner_ = nullptr;
  Call call_;  ///< But for what rotates.
  Sequence sequence_;
  std::vector<Given> given_;
  std::vector<Buffer> made_;  ///< Values that calls make and callers see.
  Buffer d_, d_scale_, workspace_;
  std::size_t next_ = 0;
  bool tells_times_ = true;  ///< Whether the device says how long steps take: else they need no events.
  double plan_ns_ = 0, prepare_ns_ = 0;
};

}  // namespace ironcl::layer
