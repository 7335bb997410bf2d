// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/trial.h"

#include <unistd.h>

#include "backends/numerics/casts.h"
#include "backends/opencl/gemm.h"

namespace ironcl::opencl {
namespace {

using backend::DType;

/// The problem of a trial with its data on the host.
struct Tiny {
  Problem desc;
  std::vector<std::uint8_t> a, b, a_scales, b_scales;

  explicit Tiny(const Variant& variant) : desc(trial_problem(variant)) {
    // Integers of -4 to 4, other ones in every row and column.
    const auto integers = [&](std::int64_t rows, std::uint32_t state) {
      std::vector<float> out(static_cast<std::size_t>(rows * desc.k));
      for (float& value : out) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<float>(static_cast<int>((state >> 24) % 9) - 4);
      }
      return out;
    };
    std::vector<float> left = integers(desc.m, 1), right = integers(desc.n, 2);
    // The width of accumulators: in element [0, 0], beside one product of 2^16 (of i8 nearly 2^14; four bits hold no
    // more than 6) in each K group, those of the other k are lost where sums have 14 bits. Class f32 allows no such
    // loss. The other elements keep their narrow bounds.
    const bool of_f32 = variant.accuracy == backend::AccuracyClass::f32;
    if (of_f32) {
      const float wide = desc.a == DType::i8 ? 120 : 256;
      for (std::int64_t k = 5; k < desc.k; k += 128) {
        left[static_cast<std::size_t>(k)] = wide;
        right[static_cast<std::size_t>(k)] = std::min(wide, static_cast<float>(numerics::largest(desc.b)));
      }
    }
    a = encoded(desc.a, left);
    b = encoded(desc.b, right);
    // Subnormal codes of the second row: what reads them as zeros is wrong in each element of it.
    if (of_f32 && numerics::is_quantized(desc.a) && desc.a != DType::i8 && desc.m > 1) {
      const std::uint8_t subnormal = desc.a == DType::e5m2 ? 0x83 : 0x87;
      for (std::int64_t k = desc.k; k < 2 * desc.k; ++k) a[static_cast<std::size_t>(k)] &= subnormal;
      for (std::int64_t k = desc.k; k < 2 * desc.k; k += 3) a[static_cast<std::size_t>(k)] |= 1;
    }
    a_scales = scales(desc.a_scale, desc.m);
    b_scales = scales(desc.b_scale, desc.n);
  }

  numerics::Comparison judge(const std::vector<float>& d, std::int64_t accumulation_length) const {
    const auto operand = [&](DType type, const auto& codes, std::int64_t rows, const backend::ScaleDesc& scale,
                             const auto& its) {
      return numerics::Operand{type,        codes.data(), rows,       desc.k,  desc.k,
                               scale.dtype, its.data(),   scale.grid, scale.ld};
    };
    const std::vector<double> got(d.begin(), d.end());
    const numerics::OracleResult want = numerics::oracle(operand(desc.a, a, desc.m, desc.a_scale, a_scales),
                                                         operand(desc.b, b, desc.n, desc.b_scale, b_scales),
                                                         DType::none, nullptr, desc.weakest_accuracy);
    return compare(got, bounded(want, {DType::f32, desc.weakest_accuracy, desc.k, accumulation_length}));
  }

 private:
  static std::vector<std::uint8_t> encoded(DType type, const std::vector<float>& values) {
    std::vector<std::uint8_t> out(numerics::bytes_of(type, static_cast<std::int64_t>(values.size())));
    if (type == DType::i8)
      numerics::quantize_run(type, values, 1.0f, out.data());
    else
      numerics::encode(type, values, out.data());
    return out;
  }

  static std::vector<std::uint8_t> scales(const backend::ScaleDesc& scale, std::int64_t rows) {
    if (scale.dtype == DType::none) return {};
    std::vector<float> out(static_cast<std::size_t>(scale.grid.scale_rows(rows) * scale.ld));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = i % 3 == 0 ? 0.5f : i % 3 == 1 ? 1.0f : 4.0f;
    if (scale.dtype != DType::f32) return encoded(scale.dtype, out);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(out.data());
    return {bytes, bytes + out.size() * sizeof(float)};
  }
};

Tuning trial_tuning(const Variant& variant, const Features& features, const Problem& problem) {
  Tuning tuning = variant.rule_of_thumb(features, problem);
  for (const auto& [name, value] : variant.trial->tunables) tuning[name] = value;
  return tuning;
}

class DeviceTrials final : public Trials {
 public:
  DeviceTrials(const Context& context, backend::Log* log) : context_(context), log_(log) {}

  std::string why_not(const Variant& variant) override {
    const std::lock_guard lock(mutex_);  // Others wait: they need the answer, and a trial takes part of a second.
    const auto known = answers_.find(variant.name);
    if (known != answers_.end()) return known->second;
    const std::string why = find_out(variant);
    if (log_ != nullptr) {
      log_->write(backend::LogLevel::info, "opencl: " + context_.features.name + ": trial of " + variant.name +
                                               (why.empty() ? ": right" : ": " + why));
    }
    return answers_[variant.name] = why;
  }

 private:
  /// What the driver answers to the questions before a trial says nothing of the variant, is thrown, and leaves the
  /// trial for the next time.
  std::string find_out(const Variant& variant) const {
    // Whether there is a program to start and a folder to keep its answer in.
    const Config& config = context_.config;
    const bool keeps = !config.cache_dir.empty() && access(config.trial_program.c_str(), X_OK) == 0;
    if (!variant.trial->in_child || (variant.trial->or_here && !keeps)) return try_here(variant);
    std::string why = guarded("asking which device " + variant.name + " is to be tried on",
                              [&] { return try_in_child(context_, variant); });
    // A GPU may be one process's alone (NVIDIA's compute mode "exclusive process"): then no child finds it.
    if (variant.trial->or_here && why.starts_with(kNotSeenByChild)) return try_here(variant);
    if (!why.empty()) return why;
    return variant.trial->permission != nullptr ? variant.trial->permission() : std::string();
  }

  /// Inside a trial, what would come out again is said of the variant: wrong numbers, a program that does not build,
  /// and all else of a kernel that may take its context along. Where numbers alone are needs_trial, the rest is
  /// thrown.
  std::string try_here(const Variant& variant) const {
    const bool only_numbers = !variant.trial->in_child;
    try {
      return guarded("its trial", [&] { return attempt_trial(context_, variant, log_); });
    } catch (const std::exception& error) {
      const auto* const known = dynamic_cast<const backend::Error*>(&error);
      if (only_numbers && (known == nullptr || known->status() != backend::Status::build_failed)) throw;
      return error.what();
    }
  }

  const Context& context_;
  backend::Log* log_;
  std::mutex mutex_;
  std::map<std::string, std::string> answers_;
};

}  // namespace

Problem trial_problem(const Variant& variant) {
  const Trial& trial = *variant.trial;
  const auto [a, b] = trial_codes(variant);
  const bool four_bits = numerics::bits_of(b) < 8;  // As MXFP4 has them.
  Problem p{trial.m, trial.n, trial.k, four_bits ? 32 : 128, a, b, DType::f32};
  p.a_scale = {DType::f32, {1, 128}, numerics::ceil_div(trial.k, 128)};
  p.b_scale = {DType::f32, {128, 128}, numerics::ceil_div(trial.k, 128)};
  if (numerics::is_float(b)) p.a_scale = p.b_scale = {};
  if (four_bits) p.b_scale = {DType::e8m0, {1, 32}, numerics::ceil_div(trial.k, 32)};
  p.weakest_accuracy = variant.accuracy;
  return p;
}

std::string trial_question(const Variant& variant, const Features& features) {
  const Problem problem = trial_problem(variant);
  const Tuning tuning = trial_tuning(variant, features, problem);
  const Tiny tiny(variant);
  std::string text =
      fmt::format("{}x{}x{} {} {} {} {} ", problem.m, problem.n, problem.k, numerics::name_of(problem.a),
                  numerics::name_of(problem.b), to_string(tuning), variant.weights(tuning, problem)->name());
  text.append(tiny.a.begin(), tiny.a.end());
  text.append(tiny.b.begin(), tiny.b.end());
  return text;
}

std::string attempt_trial(const Context& context, const Variant& variant, backend::Log* log) {
  const auto own = std::make_shared<Context>();
  own->platform = context.platform;
  own->device = context.device;
  own->features = context.features;
  own->config = context.config;
  own->context = cl::Context(context.device);
  own->null_buffer = make_null_buffer(*own);
  own->builder = std::make_unique<ProgramBuilder>(own->config, log, own->context, own->device);
  own->variants = {variant};
  const Tiny tiny(variant);
  Choice choice;
  choice.variant = &own->variants.front();
  choice.problem = trial_problem(variant);
  choice.tuning = trial_tuning(variant, own->features, choice.problem);
  if (const auto refusal = refuse(variant, choice.tuning, own->features, choice.problem))
    return "its trial cannot run: " + refusal->text;
  const auto plan = std::make_shared<Gemm>(own, std::move(choice));
  const auto queue = std::make_shared<Queue>(own);
  const auto upload = [&](const void* data, std::uint64_t bytes) {
    if (bytes == 0) return backend::Span{};
    backend::Span span{std::make_shared<Buffer>(own, bytes), 0, bytes};
    queue->write(span, data, backend::HostSemantics::copied_before_return);
    return span;
  };
  backend::WeightsDesc weights;
  weights.dtype = tiny.desc.b;
  weights.n = tiny.desc.n;
  weights.k = weights.ld = tiny.desc.k;
  weights.scale = tiny.desc.b_scale;
  weights.data = reinterpret_cast<const std::byte*>(tiny.b.data());
  weights.scales = reinterpret_cast<const std::byte*>(tiny.b_scales.data());
  std::vector<float> d(static_cast<std::size_t>(tiny.desc.m * tiny.desc.n), std::nanf(""));
  backend::GemmArgs args;
  args.m = tiny.desc.m;
  args.weights = std::make_shared<Weights>(own, weights, plan->weight_form());
  args.a = upload(tiny.a.data(), tiny.a.size());
  args.a_scale = upload(tiny.a_scales.data(), tiny.a_scales.size());
  args.d = upload(d.data(), d.size() * sizeof(float));
  plan->enqueue(queue, args)->wait(std::chrono::nanoseconds::max());  // A kernel that failed is no wrong number.
  queue->read(args.d, d.data())->wait(std::chrono::nanoseconds::max());
  const numerics::Comparison verdict = tiny.judge(d, plan->info().accumulation_length);
  if (verdict.pass) return {};
  return fmt::format("on a tiny problem {} elements are wrong, the first at [{}, {}]", verdict.out_of_bounds,
                     verdict.first_row, verdict.first_col);
}

std::unique_ptr<Trials> make_trials(const Context& context, backend::Log* log) {
  return std::make_unique<DeviceTrials>(context, log);
}

}  // namespace ironcl::opencl
