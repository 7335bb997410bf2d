// SPDX-License-Identifier: Apache-2.0
// Answers of the modelled device.
#include "backends/ironwood/device.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "backends/ironwood/cost.h"
#include "backends/ironwood/gemm.h"
#include "backends/ironwood/memory.h"
#include "backends/ironwood/model_report.h"
#include "backends/ironwood/options.h"
#include "backends/ironwood/problem.h"
#include "backends/ironwood/quantize.h"
#include "backends/ironwood/queue.h"
#include "backends/ironwood/search.h"
#include "backends/ironwood/trace.h"

namespace ironcl::ironwood {

using backend::Error;
using backend::GemmDesc;
using backend::Status;

namespace {

/// The problem of a description. `time_only`: bf16 weights without scales are taken too, which have a time here and
/// no result (they calibrate the model against published bf16 measurements).
std::optional<Refusal> problem_for(const GemmDesc& desc, const Machine& machine, bool time_only, Problem* problem) {
  GemmDesc read = desc;
  const bool bf16_weights =
      time_only && desc.b == numerics::DType::bf16 && desc.b_scale.dtype == numerics::DType::none;
  if (bf16_weights) read.b = numerics::DType::e4m3fn;
  if (auto refusal = read_problem(read, problem)) return refusal;
  if (bf16_weights) problem->w = desc.b;
  const auto bytes = [](std::int64_t rows, std::int64_t cols, std::uint32_t element) {
    return static_cast<double>(rows) * static_cast<double>(cols) * element;
  };
  const double needed = bytes(problem->m, problem->ldx, numerics::size_of(problem->x)) +
                        bytes(problem->n, problem->k, numerics::size_of(problem->w)) +
                        bytes(problem->m, problem->ldd, numerics::size_of(problem->d));
  if (needed > machine.tpu->hbm_bytes) {
    return Refusal{backend::Reason::device_memory,
                   fmt::format("operands of {:.3g} bytes; one TensorCore of {} has {:.3g} bytes of HBM", needed,
                               machine.tpu->name, machine.tpu->hbm_bytes)};
  }
  return std::nullopt;
}

/// Problem and plan of a description. Throws Error(invalid_argument) for an option that does not exist.
std::optional<Refusal> plan_for(const GemmDesc& desc, bool time_only, Plan* plan) {
  const PlanRequest request = read_options(desc.options);
  Problem problem;
  if (auto refusal = problem_for(desc, request.machine, time_only, &problem)) return refusal;
  return make_plan(problem, request, plan);
}

/// Time-only schedules are stepped through; more steps than this would take minutes.
constexpr double kMostSteps = 2e7;

Plan plan_to_model(const GemmDesc& desc) {
  Plan plan;
  if (const auto refusal = plan_for(desc, true, &plan))
    throw Error(Status::unsupported, "ironwood: " + refusal->text);
  const Grid grid = plan.grid(desc.m);
  const double steps = static_cast<double>(grid[0]) * static_cast<double>(grid[1]) * static_cast<double>(grid[2]);
  if (steps > kMostSteps) {
    throw Error(
        Status::unsupported,
        fmt::format("ironwood: a schedule of {:.3g} steps; up to {:.3g} are modelled, take larger kernel_blocks",
                    steps, kMostSteps));
  }
  return plan;
}

std::string search_text(const GemmDesc& desc) {
  const PlanRequest request = read_options(desc.options);
  Problem problem;
  SearchResult result;
  auto refusal = problem_for(desc, request.machine, true, &problem);
  if (!refusal) refusal = search_blocks(problem, request, &result);
  if (refusal) throw Error(Status::unsupported, "ironwood: " + refusal->text);
  return boost::json::serialize(report_search(result));
}

std::string describe_features() {
  const boost::json::object features = {
      {"model", "Ironwood (TPU7x), one TensorCore; times are modelled, never measured"},
      {"weights", {"e4m3fn", "e5m2", "i8"}},
      {"activations", {"e4m3fn", "e5m2", "i8", "f32", "f16", "bf16"}},
      {"quantised_in_the_plan_from", {"f32", "f16", "bf16"}},
      {"outputs", {"f32", "f16", "bf16"}},
      {"scale_dtypes", {"f32", "f16", "bf16", "e8m0"}},
      {"weight_grids", {"any rows; columns 0 or a multiple of 32"}},
      {"activation_grids", {"any rows; columns 0 or a multiple of 32"}},
      {"bias", true},
      {"grouped", false},
      {"accuracy_class", "f32"},
  };
  return boost::json::serialize(features);
}

}  // namespace

backend::DeviceProps ModelDevice::props() const {
  const Tpu& tpu = ironwood_tpu();
  backend::DeviceProps props;
  props.type = backend::DeviceType::model;
  props.import_host_pointer = true;
  props.event_profiling = true;
  props.bitwise_repeatable = true;
  props.memory_bytes = static_cast<std::uint64_t>(tpu.hbm_bytes);
  props.max_buffer_bytes = static_cast<std::uint64_t>(tpu.hbm_bytes);
  props.buffer_alignment = 4;
  props.name = fmt::format("{} TensorCore, modelled", tpu.name);
  props.driver = "IronCL model of the TPU: exact group sums on the host, modelled time";
  return props;
}

backend::Support ModelDevice::supports(const GemmDesc& desc) {
  Plan plan;
  backend::Support support;
  if (const auto refusal = plan_for(desc, false, &plan)) {
    support.reason = refusal->reason;
    support.text = refusal->text;
    return support;
  }
  support.estimate_kind = backend::TimeKind::modelled;
  support.estimate_ns = estimate(plan, desc.m).time_ns;
  return support;
}

std::string ModelDevice::query(std::string_view key, const GemmDesc* desc) {
  if (key == "features") return describe_features();
  if (key == "options") return describe_options();
  if (key == "machines") return boost::json::serialize(report_machines());
  if (key == "model" || key == "trace" || key == "search") {
    if (desc == nullptr) {
      throw Error(Status::invalid_argument,
                  fmt::format("ironwood: the query \"{}\" is about a problem; give one", key));
    }
    if (key == "model") return boost::json::serialize(report_model(plan_to_model(*desc)));
    if (key == "trace") {
      const auto spans = static_cast<std::size_t>(read_options(desc->options).trace_spans);
      return boost::json::serialize(trace_of(plan_to_model(*desc), spans));
    }
    return search_text(*desc);
  }
  throw Error(
      Status::unimplemented,
      fmt::format("ironwood: no query \"{}\"; there are: features, options, machines, model, trace, search", key));
}

std::shared_ptr<backend::Queue> ModelDevice::create_queue() { return std::make_shared<ModelQueue>(); }

std::shared_ptr<backend::Buffer> ModelDevice::create_buffer(std::uint64_t size) {
  const std::uint64_t most = props().max_buffer_bytes;
  if (size > most) {
    throw Error(Status::out_of_device_memory, "ironwood: a buffer of " + std::to_string(size) +
                                                  " bytes is larger than the HBM of a TensorCore, " +
                                                  std::to_string(most) + " bytes");
  }
  return std::make_shared<HostBuffer>(size);
}

std::shared_ptr<backend::Buffer> ModelDevice::import_buffer(Memory kind, void* handle, std::uint64_t size) {
  if (kind != Memory::host_pointer) {
    throw Error(Status::unsupported, "ironwood: only host pointers are imported; the modelled HBM is host memory");
  }
  if (handle == nullptr) throw Error(Status::invalid_argument, "ironwood: the host pointer to import is null");
  return std::make_shared<HostBuffer>(static_cast<std::byte*>(handle), size);
}

std::shared_ptr<backend::Weights> ModelDevice::prepare_weights(const backend::WeightsDesc& desc) {
  return std::make_shared<PreparedWeights>(desc);
}

std::shared_ptr<backend::Gemm> ModelDevice::create_gemm(const GemmDesc& desc) {
  Plan plan;
  if (const auto refusal = plan_for(desc, false, &plan))
    throw Error(Status::unsupported, "ironwood: " + refusal->text);
  if (log_ != nullptr) {
    log_->write(backend::LogLevel::info,
                fmt::format("ironwood: plan {}x{}x{} {}", desc.m, desc.n, desc.k, describe(plan)));
  }
  return std::make_shared<PlannedGemm>(desc, std::move(plan), workers_);
}

std::shared_ptr<backend::Quantize> ModelDevice::create_quantize(const backend::QuantizeDesc& desc) {
  return std::make_shared<MatrixQuantizer>(desc, Machine{});
}

}  // namespace ironcl::ironwood
