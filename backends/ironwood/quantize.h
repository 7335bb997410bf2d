// SPDX-License-Identifier: Apache-2.0
// A quantiser that the interface can run: codes and scales of a matrix, as XLA makes them ahead of a kernel. Next
// door: gemm.h (plans), quantize_tile.h (the same arithmetic on a tile in VMEM).
#pragma once

#include <memory>
#include <optional>

#include "backends/interface.h"
#include "backends/ironwood/machine.h"
#include "backends/ironwood/problem.h"

namespace ironcl::ironwood {

class MatrixQuantizer final : public backend::Quantize {
 public:
  /// Throws Error(unsupported) with what would be accepted.
  MatrixQuantizer(const backend::QuantizeDesc& desc, const Machine& machine);

  /// The event's time is modelled: X read twice (the largest magnitudes come first), codes and scales written once,
  /// all at the HBM's rate. Nobody publishes a measurement of it.
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::QuantizeArgs& args) override;

 private:
  double run(const backend::QuantizeArgs& args) const;

  backend::QuantizeDesc desc_;
  Machine machine_;
};

}  // namespace ironcl::ironwood
