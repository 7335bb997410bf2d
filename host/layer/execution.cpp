// SPDX-License-Identifier: Apache-2.0
// A problem on a device, through the plugin's table.
#include "host/layer/execution.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "host/report/gemm_desc.h"

namespace ironcl::layer {
namespace {

using numerics::DType;

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A pattern that no kernel writes by computing: a NaN with a payload, in f32, and in f16 and bf16 alike.
template <class Element>
constexpr Element kPoison = static_cast<Element>(0x7fa5a5a5u >> (32 - 8 * sizeof(Element)));
template <>
constexpr std::uint8_t kPoison<std::uint8_t> = 0xffu;

template <class Element>
void poison(std::vector<std::byte>& bytes) {
  for (std::size_t i = 0; i + sizeof(Element) <= bytes.size(); i += sizeof(Element))
    std::memcpy(bytes.data() + i, &kPoison<Element>, sizeof(Element));
}

/// Elements that still have the pattern.
template <class Element>
std::int64_t count_poisoned(std::span<const std::byte> bytes) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i + sizeof(Element) <= bytes.size(); i += sizeof(Element)) {
    Element element;
    std::memcpy(&element, bytes.data() + i, sizeof(Element));
    count += element == kPoison<Element> ? 1 : 0;
  }
  return count;
}

/// Calls with an element of the width of `type`.
template <class Function>
auto with_element(DType type, Function function) {
  switch (numerics::size_of(type)) {
    case 4:
      return function(std::uint32_t{});
    case 2:
      return function(std::uint16_t{});
    default:
      return function(std::uint8_t{});
  }
}

void read_profile(const Event& event, Timing& timing) {
  try {
    const ironcl_event_profile profile = event.profile();
    timing.time_kind = profile.time_kind;
    timing.device_ns = static_cast<double>(profile.end_ns - profile.start_ns);
  } catch (const Error& error) {
    // A device that cannot say how long it took still computed.
    if (error.status() != IRONCL_UNIMPLEMENTED && error.status() != IRONCL_UNSUPPORTED) throw;
  }
}

}  // namespace

std::string time_kind_name(std::uint32_t time_kind) {
  return time_kind == IRONCL_TIME_MEASURED ? "measured" : time_kind == IRONCL_TIME_MODELLED ? "modelled" : "";
}

std::string call_kind_name(std::uint32_t time_kind) {
  return time_kind == IRONCL_TIME_NONE ? "host" : time_kind_name(time_kind);
}

Execution::Slot::Slot(const Device& device, std::uint64_t size)
    : buffer(device, std::max<std::uint64_t>(size, 1)), bytes(size) {}

Execution::Execution(const Device& device, const report::Problem& problem, const Operands& operands,
                     const ExecutionSettings& settings)
    : problem_(problem), device_(device), queue_(device) {
  const double before_plan = now_ns();
  plan_ = Gemm(device, report::to_gemm_desc(problem));
  plan_ns_ = now_ns() - before_plan;
  prepare(device, operands, settings);
  // Few distinct copies of A are enough: it is rewritten or small beside the weights that pass between two uses.
  const std::size_t a_copies = std::min<std::size_t>(copies(), 4);
  for (std::size_t i = 0; i < a_copies; ++i) {
    a_.push_back(upload(device, operands.a));
    if (problem.a_scale.dtype != DType::none && !plan_quantizes(problem))
      a_scale_.push_back(upload(device, operands.a_scale));
  }
  if (problem.bias != DType::none) bias_ = upload(device, operands.bias);
  if (problem.grouping != IRONCL_GROUPING_NONE) counts_ = upload(device, std::as_bytes(operands.counts));
  d_ = Slot(device, bytes_of_matrix(problem.d, problem.m, problem.n));
  if (const std::uint64_t bytes = plan_.info().workspace_bytes; bytes != 0) workspace_ = Slot(device, bytes);
  queue_.finish();
}

void Execution::prepare(const Device& device, const Operands& operands, const ExecutionSettings& settings) {
  const WeightsDesc desc{.n = problem_.n,
                         .k = problem_.k,
                         .group_count = problem_.matrices,
                         .dtype = static_cast<ironcl_dtype>(problem_.b),
                         .scale = report::to_scale(problem_.b_scale),
                         .data = operands.b,
                         .scales = operands.b_scale};
  const std::uint64_t one = std::max<std::uint64_t>(operands.b.size(), 1);
  const std::uint64_t wanted =
      std::clamp<std::uint64_t>(settings.rotate_bytes / one + (settings.rotate_bytes % one != 0 ? 1 : 0), 1, 64);
  if (settings.pool != nullptr) weights_ = settings.pool->of(settings.layout);
  if (weights_ == nullptr) weights_ = std::make_shared<std::vector<Weights>>();
  while (weights_->size() < wanted) {
    const double before = now_ns();
    weights_->emplace_back(device, desc, &plan_);
    if (prepare_ns_ == 0) prepare_ns_ = now_ns() - before;
  }
  if (settings.pool != nullptr) settings.pool->of(settings.layout) = weights_;
}

Execution::Slot Execution::upload(const Device& device, std::span<const std::byte> values) {
  Slot slot(device, values.size());
  if (!values.empty()) queue_.write(slot.span(), values);
  return slot;
}

GemmArgs Execution::arguments(std::size_t copy) const {
  GemmArgs args;
  args.m = problem_.m;
  args.weights = (*weights_)[copy % weights_->size()];
  args.a = a_[copy % a_.size()].span();
  if (!a_scale_.empty()) args.a_scale = a_scale_[copy % a_scale_.size()].span();
  args.bias = bias_.span();
  args.group_sizes = counts_.span();
  args.d = d_.span();
  args.workspace = workspace_.span();
  return args;
}

Timing Execution::run(const GemmArgs& args) {
  Timing timing;
  const double before = now_ns();
  const Event event = queue_.run(plan_, args);
  event.wait();
  timing.host_ns = now_ns() - before;
  read_profile(event, timing);
  return timing;
}

Timing Execution::run() { return run(arguments(next_++)); }

Output Execution::compute(bool show_quantized) {
  Output output;
  const ironcl_gemm_info info = plan_.info();
  output.accuracy = static_cast<numerics::AccuracyClass>(info.accuracy_class);
  output.accumulation_length = info.accumulation_length;
  output.variant = info.variant;
  output.config = info.config;
  output.d.resize(static_cast<std::size_t>(d_.bytes));
  with_element(problem_.d, [&](auto element) { poison<decltype(element)>(output.d); });
  if (d_.bytes != 0) queue_.write(d_.span(), std::span<const std::byte>(output.d)).wait();

  GemmArgs args = arguments(next_++);
  Slot codes, scales;
  output.shows_quantized = show_quantized && plan_quantizes(problem_);
  if (output.shows_quantized) {
    const numerics::ScaleGrid grid = problem_.a_scale.grid;
    output.quantized.codes.resize(bytes_of_matrix(problem_.a, problem_.m, problem_.k));
    output.quantized.scales.resize(
        bytes_of_matrix(DType::i8, grid.scale_rows(problem_.m), grid.scale_cols(problem_.k)));
    codes = Slot(device_, output.quantized.codes.size());
    scales = Slot(device_, output.quantized.scales.size() * sizeof(float));
    args.a_quantized = codes.span();
    args.a_quantized_scale = scales.span();
  }
  output.timing = run(args);
  const auto fetch = [&](const Slot& slot, std::span<std::byte> values) {
    if (!values.empty()) queue_.read(slot.span(), values).wait();
  };
  fetch(d_, output.d);
  fetch(codes, std::as_writable_bytes(std::span(output.quantized.codes)));
  fetch(scales, std::as_writable_bytes(std::span(output.quantized.scales)));
  output.unwritten =
      with_element(problem_.d, [&](auto element) { return count_poisoned<decltype(element)>(output.d); });
  return output;
}

Check Execution::check(const Expected& expected) {
  const Output output = compute();
  return layer::check(problem_, expected, output.d, output.unwritten, output.accuracy, output.accumulation_length);
}

}  // namespace ironcl::layer
