// SPDX-License-Identifier: Apache-2.0
// A plan that the interface can run: binds the operands of a call to the arrays that the kernel's program reads.
#pragma once

#include <memory>

#include "backends/interface.h"
#include "backends/ironwood/plan.h"
#include "backends/ironwood/program.h"
#include "backends/ironwood/workers.h"

namespace ironcl::ironwood {

class PlannedGemm final : public backend::Gemm {
 public:
  PlannedGemm(const backend::GemmDesc& desc, Plan plan, std::shared_ptr<Workers> workers);

  backend::GemmInfo info() const override;
  const backend::GemmDesc& desc() const noexcept override { return desc_; }
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::GemmArgs& args) override;

 private:
  double run(const backend::GemmArgs& args) const;

  backend::GemmDesc desc_;
  Plan plan_;
  std::shared_ptr<Workers> workers_;
};

/// The configuration of a plan as text, "kernel_blocks=1024,1024,1024,mode=large,...".
std::string describe(const Plan& plan);

}  // namespace ironcl::ironwood
