// SPDX-License-Identifier: Apache-2.0
// A router on the device: the experts of each token (cl/choose_experts.cl), and rows sorted by expert
// (cl/sort_rows.cl). Next door: activation.h, combiner.h, and numerics/experts.h, whose rules these are.
#pragma once

#include "backends/opencl/objects.h"

namespace ironcl::opencl {

class Router final : public backend::Route {
 public:
  /// Builds the kernels. Throws unsupported with what would be accepted.
  Router(ContextPtr context, const backend::RouteDesc& desc);
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::RouteArgs& args) override;

 private:
  void build();

  ContextPtr context_;
  backend::RouteDesc desc_;
  std::size_t choosing_lanes_ = 1, sorting_lanes_ = 1;
  cl::Kernel choose_, sort_;
  cl::Buffer null_buffer_, scores_, begins_;
  Exclusive own_memory_;  ///< Of scores_ and begins_.
};

}  // namespace ironcl::opencl
