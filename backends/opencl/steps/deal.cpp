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
    set_args(kernel_, 1, static_cast<cl_int>(problem_.matrices), static_cast<cl_int>(problem_.masked ? 1 : 0),
             static_cast<cl_int>(shape_.tile_rows), static_cast<cl_int>(shape_.block_tiles));
    set_args(kernel_, 9, static_cast<cl_int>(lists_.tiles_at), static_cast<cl_int>(lists_.blocks_at));
  }

  void launch(Call& call) override {
    const Memory rows = call.at({Source::matrix_rows, 0}), dealt = call.at(dealt_);
    kernel_.setArg(0, static_cast<cl_int>(call.m));
    set_args(kernel_, 5, rows.buffer, element_of(rows, 4), dealt.buffer, element_of(dealt, 4));
    call.launch(kernel_, cl::NDRange(1, 1), cl::NDRange(lanes_, 1));
    call.depend_on_last();
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
