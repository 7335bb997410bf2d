// SPDX-License-Identifier: Apache-2.0
// A list of operations on a device: plans, prepared weights, buffers, and one call as a sequence of enqueues with no
// wait of the host. Next door: graph.h (the list), oracle.h (what must come out of it).
#pragma once

#include "host/layer/graph.h"

namespace ironcl::layer {

/// What the plan of a product says of itself; the arithmetic is what its bound depends on.
struct PlanInfo {
  numerics::AccuracyClass accuracy = numerics::AccuracyClass::f32;
  std::int64_t accumulation_length = 0;  ///< G of the bound.
  std::string variant, tuning;
};

/// A value's memory in one call, borrowed.
struct Bound {
  ValueId value = kNoValue;
  ironcl_span span{};
  ironcl_span scales{};  ///< Scales of a quantised value.
  bool given = false;    ///< It holds what the call is to use, rather than getting what the call makes.
};

/// One call of a list.
struct Call {
  std::int64_t tokens = 0;
  std::vector<Bound> bound;  ///< All values that callers bring; others as they like.
  std::vector<ironcl_event> wait;
  ironcl_span workspace{};  ///< A product's workspace; absent: the plan's own.
  std::size_t copy = 0;     ///< Which copies of the prepared weights, of as many as there are.
};

/// Values that no caller brings are the runner's own, so its calls go to one queue, or wait for one another. One
/// thread at a time.
class Runner {
 public:
  using Copies = std::shared_ptr<std::vector<Weights>>;

  /// Creates the operations and the buffers for calls of up to `tokens` tokens. Throws ironcl::Error as the plugin
  /// answers (UNSUPPORTED with the device's reason), std::overflow_error.
  Runner(const Device& device, Graph graph, std::int64_t tokens);

  /// Prepares one more copy of B of a product.
  void prepare(std::size_t operation, std::span<const std::byte> codes, std::span<const std::byte> scales,
               std::span<const float> globals = {});
  /// The prepared copies of a product, which several runners may share.
  Copies& weights(std::size_t operation) { return prepared_[operation].weights; }

  /// Bytes on the device, for one copy of all prepared weights.
  std::uint64_t weights_bytes() const;

  /// Enqueues one call; its event is the last operation's. `steps`, if given, gets those of all before it.
  Event enqueue(Queue& queue, const Call& call, std::vector<Event>* steps = nullptr);
  /// Adds one call to a sequence. Of the runner's own values it leaves what a sequence promises.
  void record(const Call& call, SequenceDesc& into);

  const Graph& graph() const noexcept { return graph_; }
  const Device& device() const noexcept { return device_; }
  std::int64_t tokens() const noexcept { return tokens_; }
  /// The rows that a call of `tokens` tokens has of one of its own values.
  ironcl_span span(ValueId value, std::int64_t tokens) const;
  /// Its scales, of a quantised value.
  ironcl_span scales(ValueId value, std::int64_t tokens) const;
  const Gemm& gemm(std::size_t operation) const { return std::get<Gemm>(prepared_[operation].object); }
  /// By operation; those that are no products have the default.
  std::vector<PlanInfo> plans() const;

 private:
  using Object = std::variant<Gemm, Quantize, Route, Activate, Combine>;
  struct Prepared {
    Object object;
    Copies weights;
  };
  struct Memory {
    Buffer values, scales;
  };

  Object create(const Operation& operation) const;
  const std::vector<std::size_t>& order_of(const Call& call);
  /// run(object, arguments) of one operation's call.
  template <class Consume>
  auto with_call(std::size_t operation, const Call& call, std::vector<ironcl_event> wait, Consume&& run);

  Device device_;
  Graph graph_;
  std::int64_t tokens_;
  std::vector<Prepared> prepared_;  ///< By operation.
  std::vector<Memory> memory_;      ///< By value.
  /// What a call runs that is given these values: those that callers give are few sets.
  std::vector<std::pair<std::vector<ValueId>, std::vector<std::size_t>>> orders_;
};

}  // namespace ironcl::layer
