// SPDX-License-Identifier: Apache-2.0
// A layer of experts on a device: plans, prepared weights, workspace, and one call as a sequence of enqueues with no
// wait of the host between them. Next door: experts_source.h (what it is made from), experts_judge.h (is it right?),
// docs/experts.md (the steps).
//
//   router, route       logits [T, E], then ids, weights, and rows sorted by expert (or ids and weights are given)
//   quantise            x [T, H] once, whatever k is
//   gate and up         [T k, 2 I] f32, rows gathered from x; two plans where one grid cannot describe both
//   activate            silu(gate) * up, quantised again along I
//   down                [T k, H] f32
//   shared expert       the same three steps over T rows
//   combine             y [T, H]: weighted, in the order of the slots, rounded once
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/numerics/bounds.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/layer/experts_source.h"

namespace ironcl::layer {

/// What a caller chooses of a layer of experts.
struct ExpertsChoices {
  std::int64_t tokens = 0;                      ///< T: the most that a call will bring, at least 1.
  numerics::DType x = numerics::DType::bf16;    ///< What x comes in: f32, f16, bf16.
  numerics::DType out = numerics::DType::bf16;  ///< Of y: f32, f16, bf16.
  numerics::AccuracyClass weakest_accuracy = numerics::AccuracyClass::f32;
  std::vector<std::pair<std::string, std::string>> options{};  ///< A backend's own, for the grouped plans.
};

/// Where a call's routing comes from.
enum class RoutedBy {
  router,  ///< x and the layer's router.
  logits,  ///< Logits that the caller has made: [T, E], with a gate of a shared expert [T, E + 1].
  given,   ///< ids and weights that the caller has.
};

/// Spans of one call, tight. What is made is also left to the caller where a span is given.
struct ExpertsArgs {
  std::int64_t tokens = 0;
  RoutedBy routed = RoutedBy::router;
  ironcl_span x{};        ///< [T, H] of choices.x.
  ironcl_span logits{};   ///< f32; read where routed by logits.
  ironcl_span ids{};      ///< s32 [T, k]: read where given, else made; absent: in the layer's own memory.
  ironcl_span weights{};  ///< f32 [T, k]: likewise.
  ironcl_span y{};        ///< [T, H] of choices.out.
  std::vector<ironcl_event> wait{};
};

/// The parts of a call, for who looks at what a call left.
struct ExpertsBuffers {
  Buffer logits, ids, weights, counts, index, rows, shared_weights;
  Buffer x_codes, x_scales;
  struct Mlp {
    Buffer gate, up;  ///< [rows, I] f32 each; of a fused product gate is [rows, 2 I] and up is not there.
    Buffer h, h_scales, down;
  } experts, shared;
};

/// What a plan of it says of its arithmetic, for the bound.
struct ExpertsPlanInfo {
  numerics::AccuracyClass accuracy = numerics::AccuracyClass::f32;
  std::int64_t accumulation_length = 0;
  std::string variant;
};

/// Buffers are the layer's own, so its calls go to one queue, or wait for one another. One thread at a time.
class Experts {
 public:
  /// Creates plans and buffers and prepares the weights. Throws ironcl::Error as the plugin answers (UNSUPPORTED with
  /// the device's reason), INVALID_ARGUMENT for sizes that contradict each other; std::overflow_error.
  Experts(const Device& device, const ExpertsSource& source, const ExpertsChoices& choices);

  /// Enqueues one call; its event is that of the last step. `steps`, if given, gets the events of all steps
  /// before it, for their times. Throws ironcl::Error INVALID_ARGUMENT for spans and sizes.
  Event enqueue(Queue& queue, const ExpertsArgs& args, std::vector<Event>* steps = nullptr);

  /// The problem of its first grouped product, for choosing a device before there is one.
  static GemmDesc describe(const ExpertsForm& form, const ExpertsChoices& choices);

  const ExpertsForm& form() const noexcept { return form_; }
  const ExpertsChoices& choices() const noexcept { return choices_; }
  const ExpertsBuffers& buffers() const noexcept { return buffers_; }
  bool fused(bool shared) const noexcept { return shared ? shared_.fused : experts_.fused; }
  ExpertsPlanInfo gate_plan(bool shared) const { return info_of(shared ? shared_.gate : experts_.gate); }
  ExpertsPlanInfo down_plan(bool shared) const { return info_of(shared ? shared_.down : experts_.down); }
  ExpertsPlanInfo router_plan() const { return info_of(router_); }
  std::uint64_t weights_bytes() const noexcept { return weights_bytes_; }  ///< Prepared, on the device.

 private:
  /// The plans of a gated MLP; of the shared expert without groups.
  struct Mlp {
    bool fused = false;
    Gemm gate, up, down;  ///< gate also stands for both.
    Weights gate_weights, up_weights, down_weights;
    Activate activate;
  };
  void create_router(const ExpertsSource& source);
  void create_mlp(const ExpertsSource& source, bool shared, Mlp& mlp, ExpertsBuffers::Mlp& buffers);
  Weights prepare(const ExpertsSource& source, bool shared, Projection projection, const Gemm& plan);
  Gemm plan(bool shared, Projection projection) const;
  template <class Plan, class Args>
  void step(Queue& queue, const Plan& plan, const Args& args) {
    Event event = queue.run(plan, args);
    if (steps_ != nullptr) steps_->push_back(std::move(event));
  }
  void run_mlp(Queue& queue, bool shared, std::int64_t tokens, ironcl_span x, Mlp& mlp, ExpertsBuffers::Mlp& buffers);
  void route(Queue& queue, const ExpertsArgs& args, ironcl_span ids, ironcl_span weights);
  static ExpertsPlanInfo info_of(const Gemm& plan);

  Device device_;
  ExpertsForm form_;
  ExpertsChoices choices_;
  ExpertsBuffers buffers_;
  Gemm router_;
  Weights router_weights_;
  Buffer bias_;
  Route made_, given_;
  Quantize quantize_;
  Mlp experts_, shared_;
  Combine combine_;
  std::uint64_t weights_bytes_ = 0;
  std::vector<Event>* steps_ = nullptr;  ///< Of the call that is being enqueued.
};

}  // namespace ironcl::layer
