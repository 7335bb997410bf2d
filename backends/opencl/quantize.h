// SPDX-License-Identifier: Apache-2.0
// A quantiser of matrices on the device: one step of a plan by itself. Next door: steps/quantize_rows.h (the step),
// gemm.h (plans).
#pragma once

#include "backends/opencl/objects.h"
#include "backends/opencl/step.h"

namespace ironcl::opencl {

class MatrixQuantizer final : public backend::Quantize {
 public:
  /// Builds the kernel, and launches it once on nothing for drivers that compile at the first launch. Throws
  /// unsupported with what would be accepted.
  MatrixQuantizer(ContextPtr context, const backend::QuantizeDesc& desc);
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::QuantizeArgs& args) override;

 private:
  ContextPtr context_;
  backend::QuantizeDesc desc_;
  std::unique_ptr<Step> step_;
  cl::Buffer null_buffer_;
};

}  // namespace ironcl::opencl
