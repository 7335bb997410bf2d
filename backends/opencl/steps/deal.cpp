// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/steps/deal.h"

#include <bit>

namespace ironcl::opencl {
namespace {

class Deal final : public Step {
 public:
  Deal(const DealtShape& shape, const Making& making)
      : shape_(shape),
        problem_(making.problem),
        lists_(making.problem, making.desc.m, shape),
        dealt_(making.dealt),
        lanes_(making.features.prefers_vectors()
                   ? 1
                   : std::min(std::bit_ceil(static_cast<std::uint64_t>(making.problem.matrices)),
                              std::bit_floor(std::min<std::uint64_t>(256, making.features.max_work_group)))) {}

  std::string name() const override { return "deal rows"; }

  void build(ProgramBuilder& builder) override {
    Defines defines{{"LANES", std::to_string(lanes_)}};
    if (shape_.even) defines["EVEN_TILES"] = "1";
    kernel_ = cl::Kernel(builder.build("deal.cl", defines), "deal");
    bind<DealArg::matrices>(kernel_, problem_.matrices);
    bind<DealArg::masked>(kernel_, problem_.masked);
    bind<DealArg::tile>(kernel_, shape_.tile_rows);
    bind<DealArg::block>(kernel_, shape_.block_tiles);
    bind<DealArg::tiles_at>(kernel_, lists_.tiles_at);
    bind<DealArg::blocks_at>(kernel_, lists_.blocks_at);
  }

  void launch(Call& call) override {
    bind<DealArg::m>(kernel_, call.m);
    bind_memory<DealArg::matrix_rows>(kernel_, call.at({Source::matrix_rows, 0}), 4);
    bind_memory<DealArg::dealt_memory>(kernel_, call.at(dealt_), 4);
    call.launch(kernel_, cl::NDRange(1, 1), cl::NDRange(lanes_, 1), true);
  }

 private:
  DealtShape shape_;
  Problem problem_;
  DealtLists lists_;
  Place dealt_;
  std::size_t lanes_;
  cl::Kernel kernel_;
};

}  // namespace

Place book_dealt(const DealtShape& shape, const Making& making) {
  const DealtLists lists(making.problem, making.desc.m, shape);
  return {Source::workspace, making.booking.book("dealt rows", numerics::Size(lists.elements) * 4)};
}

std::unique_ptr<Step> deal_step(const DealtShape& shape, const Making& making) {
  return std::make_unique<Deal>(shape, making);
}

}  // namespace ironcl::opencl
