// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/steps/multiply.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/quantizer.h"
#include "backends/opencl/steps/schedule.h"

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
  Multiply(const Variant& variant, const Tuning& tuning, const Operand& a, const Operand& d, const PlanContext& plan)
      : variant_(variant),
        tuning_(tuning),
        features_(plan.features),
        problem_(plan.problem),
        a_(a),
        d_(d),
        bias_type_(plan.desc.bias),
        weights_(
            variant.weights(tuning, problem_)
                ->extent(problem_.n, problem_.k,
                         plan.desc.b_scale.dtype == DType::none ? 1 : plan.desc.b_scale.grid.scale_cols(problem_.k))),
        schedule_(plan.scheduled),
        from_counter_(takes_from_counter(variant, tuning, plan.problem, plan.features)),
        defines_(device_defines(plan.features)) {
    if (variant.scratch_bytes != nullptr)
      scratch_ = {Source::workspace,
                  plan.booking.book("scratch", variant.scratch_bytes(tuning, problem_, features_))};
    if (const int persistent = variant.persistent_groups != nullptr ? variant.persistent_groups(tuning, problem_) : 0;
        persistent > 0) {
      plan.booking.ask_for_counter();
      scratch_ = {Source::counter, 0};
      defines_["PERSISTENT_GROUPS"] = std::to_string(persistent);
    }
    for (const auto& [name, value] : tuning) defines_[macro_name(name)] = std::to_string(value);
    defines_["A_TYPE"] = kernel_number(a.element);
    defines_["B_TYPE"] = kernel_number(plan.desc.b);
    defines_["D_TYPE"] = kernel_number(d_.element);
    defines_["BIAS_TYPE"] = kernel_number(bias_type_);
    defines_["GROUP"] = std::to_string(problem_.k_group);
    const backend::ScaleDesc& b = plan.desc.b_scale;
    defines_["B_SCALE_COLS"] = std::to_string(reach(b.dtype == DType::none ? 0 : b.grid.group_cols));
    defines_["B_SCALE_ROWS"] = std::to_string(reach(b.dtype == DType::none ? 0 : b.grid.group_rows));
    defines_["A_SCALE_ROWS"] = std::to_string(reach(a.grid.group_rows));
    defines_["A_SCALE_COLS"] = std::to_string(reach(a.grid.group_cols));
    if (a.in_units_of_weights) defines_["UNIT_IN_A"] = "1";
    if (plan.desc.a_source != DType::none && a.data.source == Source::a) {
      // Floats that the kernel quantises itself.
      defines_.merge(quantizer_defines(plan.features, a.element, plan.desc.a, plan.desc.a_quantizer));
      defines_["QUANTISE"] = "1";
      numbered_ = variant.numbered_calls;
      if (numbered_) defines_["NUMBERED_CALLS"] = "1";
      defines_["A_TYPE"] = kernel_number(plan.desc.a);
      defines_["FLOOR_BITS"] = std::to_string(std::bit_cast<std::uint32_t>(plan.desc.a_quantizer.amax_floor)) + "u";
      options_ = quantizer_options(plan.features);
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
    const cl::Program program = builder.build(file_of(variant_), defines_, options_, *variant_.toolchain);
    for (const Pass& pass : variant_.passes(tuning_, problem_, features_, 1)) {
      cl::Kernel kernel(program, pass.kernel.c_str());
      bind<GemmArg::n>(kernel, problem_.n);
      bind<GemmArg::k>(kernel, problem_.k);
      bind<GemmArg::n_pad>(kernel, weights_.n_pad);
      bind<GemmArg::k_pad>(kernel, weights_.k_pad);
      bind<GemmArg::lda>(kernel, a_.ld);
      bind<GemmArg::sa_ld>(kernel, a_.scale_ld);
      bind<GemmArg::ldd>(kernel, d_.ld);
      kernels_.push_back(std::move(kernel));
    }
  }

  void launch(Call& call) override {
    const Memory a = call.at(a_.data), sa = call.at(a_.scales), d = call.at(d_.data),
                 bias = call.at({bias_type_ == DType::none ? Source::none : Source::bias, 0}),
                 scratch = call.at(scratch_);
    if (const std::int64_t rows = std::max<std::int64_t>(call.m, 1); rows != rows_of_passes_) {
      passes_ = variant_.passes(tuning_, problem_, features_, rows);
      rows_of_passes_ = rows;
    }
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      cl::Kernel& kernel = kernels_[i];
      bind<GemmArg::m>(kernel, call.m);
      bind_memory<GemmArg::a>(kernel, a, numerics::size_of(a_.element));
      bind_memory<GemmArg::sa>(kernel, sa, 4);
      bind<GemmArg::b>(kernel, call.weights->codes);
      bind<GemmArg::sb>(kernel, call.weights->scales);
      bind_memory<GemmArg::d>(kernel, d, numerics::size_of(d_.element));
      bind_memory<GemmArg::bias>(kernel, bias, numerics::size_of(bias_type_));
      bind_memory<GemmArg::scratch>(kernel, scratch, 4);
      cl_uint next = kCountOf<GemmArg>;
      if (problem_.grouped()) {
        next = bind_schedule(kernel, next, call, schedule_);
        bind<MatricesArg::b_stride>(kernel, weights_.code_bytes.bytes(), next);
        bind<MatricesArg::sb_stride>(kernel, weights_.scales.bytes(), next);
        next += kCountOf<MatricesArg>;
      }
      if (a_.gathered) next = bind_gather(kernel, next, call);
      if (numbered_) bind<NumberArg::call>(kernel, call_number(), next);
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
  Place schedule_;
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
                                    const PlanContext& plan) {
  return std::make_unique<Multiply>(variant, tuning, a, d, plan);
}

}  // namespace ironcl::opencl
