// SPDX-License-Identifier: Apache-2.0
// One problem on one device.
#include "host/cli/device_run.h"
#include "host/report/gemm_desc.h"

#include <algorithm>
#include <span>

#include "backends/numerics/checked.h"
#include "backends/numerics/formats.h"

namespace ironcl::cli {
namespace {

using numerics::checked_mul;

constexpr std::byte kPoison{0xff};

std::size_t bytes_of_matrix(std::int64_t rows, std::int64_t cols, numerics::DType type) {
  return static_cast<std::size_t>(checked_mul(checked_mul(rows, cols), numerics::size_of(type)));
}

/// A buffer of `bytes`, at least one, as M may be 0; span() is then empty but not absent.
class Slot {
 public:
  Slot(const ironcl::Device& device, std::size_t bytes)
      : buffer_(device, std::max<std::size_t>(bytes, 1)), bytes_(bytes) {}
  ironcl_span span() const noexcept { return buffer_.span(0, bytes_); }

  void fill(ironcl::Queue* queue, std::span<const std::byte> values) const {
    if (!values.empty()) queue->write(span(), values);
  }
  void fetch(ironcl::Queue* queue, std::span<std::byte> values) const {
    if (!values.empty()) queue->read(span(), values).wait();
  }

 private:
  ironcl::Buffer buffer_;
  std::size_t bytes_;
};

template <class T>
std::span<std::byte> writable_bytes(std::vector<T>* values) {
  return std::as_writable_bytes(std::span(*values));
}

void read_profile(const ironcl::Event& event, DeviceResult* result) {
  try {
    const ironcl_event_profile profile = event.profile();
    result->time_kind = profile.time_kind;
    result->time_ns = static_cast<double>(profile.end_ns - profile.start_ns);
  } catch (const ironcl::Error& error) {
    // A device that cannot say how long it took still computed.
    if (error.status() != IRONCL_UNIMPLEMENTED && error.status() != IRONCL_UNSUPPORTED) throw;
  }
}

}  // namespace

std::string time_kind_name(std::uint32_t time_kind) {
  return time_kind == IRONCL_TIME_MEASURED ? "measured" : time_kind == IRONCL_TIME_MODELLED ? "modelled" : "";
}

DeviceResult run_on(const ironcl::Device& device, const report::Problem& problem, const Activations& a,
                    const LayerOperand& b) {
  const ironcl::Gemm gemm(device, report::to_gemm_desc(problem));
  const ironcl_gemm_info info = gemm.info();
  DeviceResult result;
  result.accuracy = static_cast<numerics::AccuracyClass>(info.accuracy_class);
  result.accumulation_length = info.accumulation_length;
  result.variant = info.variant;
  result.config = info.config;

  const auto* values = static_cast<const std::byte*>(b.b.data);
  const ironcl::Weights weights(device,
                                {.n = problem.n,
                                 .k = problem.k,
                                 .dtype = static_cast<ironcl_dtype>(b.b.dtype),
                                 .scale = report::to_scale(problem.b_scale),
                                 .data = std::span(values, bytes_of_matrix(problem.n, problem.k, b.b.dtype)),
                                 .scales = b.scales},
                                &gemm);

  ironcl::Queue queue(device);
  result.d.assign(bytes_of_matrix(problem.m, problem.n, problem.d), kPoison);
  const Slot a_slot(device, a.data.size()), d_slot(device, result.d.size());
  const Slot scale_slot(device, a.scales.size()), bias_slot(device, b.bias.size());
  a_slot.fill(&queue, a.data);
  d_slot.fill(&queue, result.d);
  scale_slot.fill(&queue, a.scales);
  bias_slot.fill(&queue, b.bias);

  ironcl::GemmArgs args{.m = problem.m, .weights = weights, .a = a_slot.span(), .d = d_slot.span()};
  const bool scales_given = problem.a_scale.dtype != numerics::DType::none && !a.quantized_by_plan();
  if (scales_given) args.a_scale = scale_slot.span();
  if (!b.bias.empty()) args.bias = bias_slot.span();
  if (a.quantized_by_plan()) {
    result.codes.resize(a.codes.size());
    result.code_scales.resize(a.code_scales.size());
    result.shows_quantized = true;
  }
  const Slot codes_slot(device, result.codes.size());
  const Slot code_scales_slot(device, result.code_scales.size() * sizeof(float));
  if (result.shows_quantized) {
    args.a_quantized = codes_slot.span();
    args.a_quantized_scale = code_scales_slot.span();
  }
  const ironcl::Event done = queue.run(gemm, args);
  done.wait();
  read_profile(done, &result);
  d_slot.fetch(&queue, result.d);
  codes_slot.fetch(&queue, writable_bytes(&result.codes));
  code_scales_slot.fetch(&queue, writable_bytes(&result.code_scales));
  return result;
}

}  // namespace ironcl::cli
