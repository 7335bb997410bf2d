// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <bit>
#include <chrono>

#include "backends/opencl/elements.h"
#include "backends/opencl/steps/steps.h"

namespace ironcl::opencl {
namespace {

using backend::DType;

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
        form_(weights_form(variant, tuning, problem_)),
        weights_(form_->extent(problem_.n, problem_.k, scale_groups(problem_))),
        scales_(held_scales(*form_, weights_, problem_.b_scale.dtype)),
        places_(a, plan, schedules_itself(variant, tuning, problem_)),
        leaves_schedule_(places_.schedules && d.data.source == Source::workspace),
        from_counter_(takes_from_counter(variant, tuning, problem_, features_)),
        defines_(device_defines(features_)) {
    if (variant.scratch_bytes != nullptr)
      scratch_ = plan.booking.book(variant.scratch_bytes(tuning, problem_, features_));
    if (variant.persistent_groups != nullptr) {
      const int persistent = variant.persistent_groups(tuning, problem_);
      define("PERSISTENT_GROUPS", persistent);
      if (persistent > 0) {
        plan.booking.ask_for_counter();
        scratch_ = {Source::counter, 0};
      }
    }
    // What `floats` decides is QUANTISE below, so that a kernel that gets codes is compiled once.
    for (const auto& [name, value] : tuning)
      if (name != "floats") define(macro_name(name), value);
    defines_["A_TYPE"] = kernel_number(a.element);
    defines_["B_TYPE"] = kernel_number(problem_.b);
    defines_["D_TYPE"] = kernel_number(d_.element);
    defines_["BIAS_TYPE"] = kernel_number(problem_.bias);
    define("GROUP", problem_.k_group);
    const bool scaled = problem_.b_scale.dtype != DType::none;
    const std::int64_t group_cols = problem_.b_scale.grid.group_cols;
    define("B_SCALE_COLS", reach(scaled && group_cols < problem_.k ? group_cols : 0));
    const int run = gate_run(variant, tuning, problem_);
    define("B_SCALE_ROWS", reach(run == 0 ? problem_.b_scale_rows() : rows_of_a_scale_in_turns(problem_)));
    if (run != 0) {
      defines_["ACTIVATION"] = std::to_string(static_cast<std::uint32_t>(problem_.gate));
      defines_["ACTIVATION_LIMIT"] = fmt::format("{:a}f", problem_.activation_limit);
      options_ = quantizer_options(features_);  // As the activation's own kernel divides.
    }
    defines_["B_SCALE_TYPE"] = kernel_number(scales_.type);
    defines_["A_SCALE_TYPE"] = kernel_number(a.scale.dtype);
    define("A_SCALE_ROWS", reach(a.scale.grid.group_rows));
    define("A_SCALE_COLS", reach(a.scale.grid.group_cols));
    if (a.in_units_of_weights) define("UNIT_IN_A", 1);
    if (a.scale.dtype == DType::none && problem_.a_source == DType::none) define("A_UNSCALED", 1);
    if (problem_.a_source != DType::none && a.data.source == Source::a) {
      // Floats that the kernel quantises itself.
      defines_.merge(quantizer_defines(features_, a.element, problem_.a, problem_.a_quantizer));
      define("QUANTISE", 1);
      numbered_ = variant.numbered_calls;
      if (numbered_) define("NUMBERED_CALLS", 1);
      defines_["A_TYPE"] = kernel_number(problem_.a);
      defines_["FLOOR_BITS"] = std::to_string(std::bit_cast<std::uint32_t>(problem_.a_quantizer.amax_floor)) + "u";
      options_ = quantizer_options(features_);
    }
    if (d.scale.dtype != DType::none) {
      // After those of A, whose codes may be others; what they say of the device is the same.
      Defines more = quantizer_defines(features_, DType::f32, d.element, problem_.d_quantizer);
      defines_.merge(more);
      defines_["D_SCALE_TYPE"] = kernel_number(d.scale.dtype);
      define("D_POWER_OF_TWO", problem_.d_quantizer.rounding == numerics::ScaleRounding::power_of_two);
      define("D_GIVEN", problem_.d_quantizer.given);
      define("D_SCALE_COLS", reach(d_.scale.grid.group_cols));
      options_ = quantizer_options(features_);
    }
    places_.define(defines_);
    // Of the rows that a plan was made for, those of a last tile that is not whole.
    const std::int64_t last = variant.last_rows && !problem_.grouped() ? problem_.m % variant.tile(tuning).rows : 0;
    if (last != 0) define("LAST_ROWS", last);
    if (from_counter_) define("FROM_COUNTER", 1);
    if (features_.prefers_vectors() || scratch_.source == Source::counter) define("CORES", features_.compute_units);
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
      bind<GemmArg::sa_ld>(kernel, a_.scale.ld);
      bind<GemmArg::ldd>(kernel, d_.ld);
      kernels_.push_back(std::move(kernel));
    }
  }

  void launch(Call& call) override {
    if (const std::int64_t rows = std::max<std::int64_t>(call.m, 1); rows != rows_of_passes_) {
      passes_ = variant_.passes(tuning_, problem_, features_, rows);
      rows_of_passes_ = rows;
    }
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      cl::Kernel& kernel = kernels_[i];
      bind<GemmArg::m>(kernel, call.m);
      bind_memory<GemmArg::a>(kernel, call.at(a_.data), numerics::size_of(a_.element));
      bind_memory<GemmArg::sa>(kernel, call.at(a_.scales), 4);
      bind<GemmArg::b>(kernel, call.weights->codes);
      bind<GemmArg::sb>(kernel, call.weights->scales);
      bind_memory<GemmArg::d>(kernel, call.at(d_.data), numerics::size_of(d_.element));
      bind_memory<GemmArg::bias>(kernel, call.at({Source::bias, 0}), numerics::size_of(problem_.bias));
      bind_memory<GemmArg::scratch>(kernel, call.at(scratch_), 4);
      cl_uint next = places_.bind_schedule(kernel, kCountOf<GemmArg>, call);
      if (problem_.grouped()) {
        bind<MatricesArg::b_stride>(kernel, weights_.code_bytes.bytes(), next);
        bind<MatricesArg::sb_stride>(kernel, scales_.bytes.bytes() / 4, next);
        next += kCountOf<MatricesArg>;
      }
      next = places_.bind_gather(kernel, next, call);
      if (numbered_) {
        bind<NumberArg::call>(kernel, call_number(), next);
        next += kCountOf<NumberArg>;
      }
      if (d_.scale.dtype != DType::none) {
        bind_memory<DScalesArg::ds>(kernel, call.at(d_.scales), numerics::size_of(d_.scale.dtype), next);
        bind<DScalesArg::lds>(kernel, d_.scale.ld, next);
        bind<DScalesArg::d_rows>(kernel, reach(d_.scale.grid.group_rows), next);
        bind<DScalesArg::d_cols>(kernel, reach(d_.scale.grid.group_cols), next);
        bind<DScalesArg::d_floor>(kernel, std::bit_cast<cl_uint>(problem_.d_quantizer.amax_floor), next);
      }
      const auto& [width, height] = passes_[i].work_groups;
      // The passes after the first add what it has left, tile by tile.
      if (from_counter_ && i == 0)
        call.launch(kernel, features_.compute_units, 1, passes_[i].items);
      else
        call.launch(kernel, width, at_once(problem_, height, width), passes_[i].items, leaves_schedule_);
    }
  }

 private:
  /// B_SCALE_ROWS where gates and ups lie in turns: 64 of each are 128 columns.
  static std::int64_t rows_of_a_scale_in_turns(const Problem& p) {
    const std::int64_t rows = p.b_scale_rows();
    return rows == 0 ? 0 : rows % 64 == 0 && p.d_cols() % 64 == 0 ? 128 : 1;
  }
  static std::int64_t scale_groups(const Problem& p) {
    return p.b_scale.dtype == DType::none ? 1 : p.b_scale.grid.scale_cols(p.k);
  }
  void define(const std::string& name, std::int64_t value) { defines_[name] = std::to_string(value); }

  const Variant& variant_;
  const Tuning tuning_;
  const Features& features_;
  const Problem& problem_;
  Operand a_, d_;
  WeightFormPtr form_;
  WeightExtent weights_;
  HeldScales scales_;
  RowPlaces places_;
  bool leaves_schedule_;  ///< A later step reads the schedule that the kernel makes.
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

bool schedules_itself(const Variant& variant, const Tuning& tuning, const Problem& p) {
  return p.grouped() && variant.schedules != nullptr && variant.schedules(tuning, p);
}

bool takes_from_counter(const Variant& variant, const Tuning& tuning, const Problem& p, const Features& f) {
  return p.grouped() && f.prefers_vectors() && most_work_items(variant, tuning, f, p) == 1;
}

std::unique_ptr<Step> multiply_step(const Variant& variant, const Tuning& tuning, const Operand& a, const Operand& d,
                                    const PlanContext& plan) {
  return std::make_unique<Multiply>(variant, tuning, a, d, plan);
}

}  // namespace ironcl::opencl
