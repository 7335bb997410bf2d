// SPDX-License-Identifier: Apache-2.0
// The plan: the steps by which it goes from what the caller gives to D, built; enqueue sets what a call changes and
// launches them. Next door: select.h (which variant), steps/ and forms/.
#pragma once

#include "backends/opencl/objects.h"
#include "backends/opencl/select.h"
#include "backends/opencl/weights.h"

namespace ironcl::opencl {

/// The steps of a plan in order, and the workspace that they booked.
struct Route {
  std::vector<std::unique_ptr<Step>> steps;
  Booking booking;
};

/// The one place that decides by which steps a plan goes. Builds nothing. `choice` and `features` outlive the steps.
/// Throws std::overflow_error where the workspace is larger than a number says.
Route route_of(const Choice& choice, const Features& features);

class Gemm final : public backend::Gemm {
 public:
  /// Builds every step, and launches each once with no rows, so that drivers that compile at the first launch do it
  /// now.
  Gemm(ContextPtr context, Choice choice);
  backend::GemmInfo info() const override;
  /// A call without a workspace takes the plan's own, which is allocated by the first such call. Where a step cannot
  /// be queued, those before it have ended when the error is thrown.
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::GemmArgs& args) override;

  const Choice& choice() const noexcept { return choice_; }
  /// The form in which this plan reads weights.
  const WeightFormPtr& weight_form() const noexcept { return weight_form_; }
  /// The plan's steps, in order: "quantize rows", "pack tiles", the variant's name.
  std::vector<std::string> step_names() const;

 private:
  void build();
  void warm_up();
  Memory own_workspace();

  ContextPtr context_;
  const Choice choice_;
  WeightFormPtr weight_form_;
  Route route_;
  std::string call_;          ///< The name of a call in errors.
  cl::Buffer counter_;        ///< Null where no step asked for it.
  cl::Buffer own_workspace_;  ///< Null until a call needs it.
  Exclusive own_memory_;      ///< Guards counter_ and own_workspace_.
};

}  // namespace ironcl::opencl
