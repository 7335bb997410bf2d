// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/steps/multiply.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/deal.h"
#include "backends/opencl/steps/quantizer.h"

namespace ironcl::opencl {
namespace {

using backend::DType;

/// Of the rows that a plan was made for; 0 where that tile is whole, or the variant multiplies it like the others.
std::int64_t rows_of_last_tile(const Variant& variant, const Tuning& tuning, const Problem& p) {
  return variant.last_rows && !p.grouped() ? p.m % variant.tile(tuning).rows : 0;
}

/// Another one for each call: what a call before has left in its workspace is not taken for this one's
/// (cl/one_launch.cl).
cl_ulong call_number() {
  constexpr cl_ulong kMask = (1ULL << 44) - 1;
  static std::atomic<cl_ulong> next{
      static_cast<cl_ulong>(std::chrono::steady_clock::now().time_since_epoch().count())};
  return ++next & kMask;
}

class Multiply final : public Step {
 public:
  Multiply(const Variant& variant, const Tuning& tuning, const Operand& a, const Operand& d, const Making& making)
      : variant_(variant),
        tuning_(tuning),
        features_(making.features),
        problem_(making.problem),
        a_(a),
        d_(d),
        bias_type_(making.desc.bias),
        weights_(variant.weights(tuning, problem_)
                     ->extent(problem_.n, problem_.k,
                              making.desc.b_scale.dtype == DType::none
                                  ? 1
                                  : making.desc.b_scale.grid.scale_cols(problem_.k))),
        dealt_(making.dealt),
        from_counter_(takes_from_counter(variant, tuning, making.problem, making.features)),
        defines_(device_defines(making.features)) {
    if (variant.scratch_bytes != nullptr)
      scratch_ = {Source::workspace,
                  making.booking.book("scratch", variant.scratch_bytes(tuning, problem_, features_))};
    if (const int kept = variant.kept != nullptr ? variant.kept(tuning, problem_) : 0; kept > 0) {
      making.booking.ask_for_counter();
      scratch_ = {Source::counter, 0};
      defines_["KEPT"] = std::to_string(kept);
    }
    for (const auto& [name, value] : tuning) defines_[macro_name(name)] = std::to_string(value);
    defines_["A_TYPE"] = kernel_number(a.element);
    defines_["B_TYPE"] = kernel_number(making.desc.b);
    defines_["D_TYPE"] = kernel_number(d_.element);
    defines_["BIAS_TYPE"] = kernel_number(bias_type_);
    defines_["GROUP"] = std::to_string(problem_.k_group);
    const backend::ScaleDesc& b = making.desc.b_scale;
    defines_["B_SCALE_COLS"] = std::to_string(reach(b.dtype == DType::none ? 0 : b.grid.group_cols));
    defines_["B_SCALE_ROWS"] = std::to_string(reach(b.dtype == DType::none ? 0 : b.grid.group_rows));
    defines_["A_SCALE_ROWS"] = std::to_string(reach(a.grid.group_rows));
    defines_["A_SCALE_COLS"] = std::to_string(reach(a.grid.group_cols));
    if (a.in_units_of_weights) defines_["UNIT_IN_A"] = "1";
    if (making.desc.a_source != DType::none && a.data.source == Source::a) {
      // Floats that the kernel quantises itself.
      defines_.merge(quantizer_defines(making.features, a.element, making.desc.a, making.desc.a_quantizer));
      defines_["QUANTISE"] = "1";
      numbered_ = variant.numbered_calls;
      if (numbered_) defines_["NUMBERED_CALLS"] = "1";
      defines_["A_TYPE"] = kernel_number(making.desc.a);
      defines_["FLOOR_BITS"] = std::to_string(std::bit_cast<std::uint32_t>(making.desc.a_quantizer.amax_floor)) + "u";
      options_ = quantizer_options(making.features);
    }
    if (problem_.grouped()) defines_["GROUPED"] = "1";
    if (const std::int64_t last = rows_of_last_tile(variant, tuning, problem_); last != 0)
      defines_["LAST_ROWS"] = std::to_string(last);
    if (from_counter_) defines_["FROM_COUNTER"] = "1";
    if (features_.prefers_vectors() || scratch_.source == Source::counter)
      defines_["CORES"] = std::to_string(features_.compute_units);
    if (a.gathered) defines_["GATHER"] = "1";
  }

  std::string name() const override { return variant_.name; }

  void build(ProgramBuilder& builder) override {
    const cl::Program program = builder.build(variant_.name + ".cl", defines_, options_, *variant_.toolchain);
    for (const Pass& pass : variant_.passes(tuning_, problem_, features_, 1)) {
      cl::Kernel kernel(program, pass.kernel.c_str());
      set_args(kernel, 1, static_cast<cl_int>(problem_.n), static_cast<cl_int>(problem_.k),
               static_cast<cl_int>(weights_.n_pad), static_cast<cl_int>(weights_.k_pad));
      kernel.setArg(7, static_cast<cl_ulong>(a_.ld));
      kernel.setArg(10, static_cast<cl_ulong>(a_.scale_ld));
      kernel.setArg(15, static_cast<cl_ulong>(d_.ld));
      kernels_.push_back(std::move(kernel));
    }
  }

  void launch(Call& call) override {
    const Memory a = call.at(a_.data), sa = call.at(a_.scales), d = call.at(d_.data),
                 bias = call.at({bias_type_ == DType::none ? Source::nothing : Source::bias, 0}),
                 scratch = call.at(scratch_);
    if (const std::int64_t rows = std::max<std::int64_t>(call.m, 1); rows != rows_of_passes_) {
      passes_ = variant_.passes(tuning_, problem_, features_, rows);
      rows_of_passes_ = rows;
    }
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      cl::Kernel& kernel = kernels_[i];
      kernel.setArg(0, static_cast<cl_int>(call.m));
      set_args(kernel, 5, a.buffer, element_of(a, numerics::size_of(a_.element)));
      set_args(kernel, 8, sa.buffer, element_of(sa, 4));
      set_args(kernel, 11, call.weights->codes, call.weights->scales, d.buffer,
               element_of(d, numerics::size_of(d_.element)));
      set_args(kernel, 16, bias.buffer, element_of(bias, std::max<std::uint32_t>(1, numerics::size_of(bias_type_))),
               scratch.buffer, element_of(scratch, 4));
      cl_uint next = 20;
      if (problem_.grouped()) {
        next = set_dealt(kernel, next, call, dealt_);
        set_args(kernel, next, static_cast<cl_ulong>(weights_.code_bytes.bytes()),
                 static_cast<cl_ulong>(weights_.scales.bytes()));
        next += 2;
      }
      if (a_.gathered) next = set_gather(kernel, next, call);
      if (numbered_) kernel.setArg(next, call_number());
      const auto [width, height] = passes_[i].global;
      // The passes after the first add what it has left, tile by tile.
      const cl::NDRange groups =
          from_counter_ && i == 0 ? cl::NDRange(features_.compute_units, 1)
                                  : cl::NDRange(width, at_once(problem_, static_cast<std::int64_t>(height), width));
      call.launch(kernel, groups, cl::NDRange(passes_[i].local, 1));
    }
  }

 private:
  const Variant& variant_;
  Tuning tuning_;
  const Features& features_;
  Problem problem_;
  Operand a_, d_;
  DType bias_type_;
  WeightExtent weights_;
  Place dealt_;
  bool from_counter_;
  bool numbered_ = false;
  Place scratch_;
  Defines defines_;
  std::string options_;
  std::vector<cl::Kernel> kernels_;
  std::int64_t rows_of_passes_ = 0;  ///< The m that passes_ are for: that of the last call, most often of the next.
  std::vector<Pass> passes_;
};

}  // namespace

bool takes_from_counter(const Variant& variant, const Tuning& tuning, const Problem& p, const Features& f) {
  return p.grouped() && f.prefers_vectors() && variant.work_items(tuning) == 1;
}

std::unique_ptr<Step> multiply_step(const Variant& variant, const Tuning& tuning, const Operand& a, const Operand& d,
                                    const Making& making) {
  return std::make_unique<Multiply>(variant, tuning, a, d, making);
}

}  // namespace ironcl::opencl
