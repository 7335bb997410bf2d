// SPDX-License-Identifier: Apache-2.0
// Answers of the modelled device.
#include "backends/ironwood/device.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "backends/ironwood/cost.h"
#include "backends/ironwood/gemm.h"
#include "backends/ironwood/memory.h"
#include "backends/ironwood/options.h"
#include "backends/ironwood/problem.h"
#include "backends/ironwood/queue.h"

namespace ironcl::ironwood {

using backend::Error;
using backend::GemmDesc;
using backend::Status;

namespace {

/// Problem and plan of a description. Throws Error(invalid_argument) for an option that does not exist.
std::optional<Refusal> plan_for(const GemmDesc& desc, Plan* plan) {
  const PlanRequest request = read_options(desc.options);
  Problem problem;
  if (auto refusal = read_problem(desc, &problem)) return refusal;
  const auto bytes = [](std::int64_t rows, std::int64_t cols, std::uint32_t element) {
    return static_cast<double>(rows) * static_cast<double>(cols) * element;
  };
  const double needed = bytes(problem.m, problem.ldx, numerics::size_of(problem.x)) + bytes(problem.n, problem.k, 1) +
                        bytes(problem.m, problem.ldd, numerics::size_of(problem.d));
  if (needed > request.machine.tpu->hbm_bytes) {
    return Refusal{backend::Reason::device_memory,
                   fmt::format("operands of {:.3g} bytes; one TensorCore has {:.3g} bytes of HBM", needed,
                               request.machine.tpu->hbm_bytes)};
  }
  return make_plan(problem, request, plan);
}

std::string describe_features() {
  const boost::json::object features = {
      {"model", "Ironwood (TPU7x), one TensorCore; times are modelled, never measured"},
      {"weights", {"e4m3fn"}},
      {"activations", {"e4m3fn", "f32", "f16", "bf16"}},
      {"quantised_in_the_plan_from", {"f32", "f16", "bf16"}},
      {"outputs", {"f32", "f16", "bf16"}},
      {"scale_dtypes", {"f32", "f16", "bf16", "e8m0"}},
      {"weight_grids", {"128x128", "256x256", "512x512", "1x0", "0x0", "1xG, G a multiple of 128"}},
      {"activation_grids", {"rows 0, 1, 128, 256 or 512; columns 0 or a multiple of 128"}},
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
  if (const auto refusal = plan_for(desc, &plan)) {
    support.reason = refusal->reason;
    support.text = refusal->text;
    return support;
  }
  support.estimate_kind = backend::TimeKind::modelled;
  support.estimate_ns = estimate(plan, desc.m).time_ns;
  return support;
}

std::string ModelDevice::query(std::string_view key, const GemmDesc* desc) {
  (void)desc;
  if (key == "features") return describe_features();
  if (key == "options") return describe_options();
  throw Error(Status::unimplemented, fmt::format("ironwood: no query \"{}\"; there are: features, options", key));
}

std::shared_ptr<backend::Queue> ModelDevice::create_queue() { return std::make_shared<ModelQueue>(); }

std::shared_ptr<backend::Buffer> ModelDevice::create_buffer(std::uint64_t size) {
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
  if (const auto refusal = plan_for(desc, &plan)) throw Error(Status::unsupported, "ironwood: " + refusal->text);
  if (log_ != nullptr) {
    log_->write(backend::LogLevel::info,
                fmt::format("ironwood: plan {}x{}x{} {}", desc.m, desc.n, desc.k, describe(plan)));
  }
  return std::make_shared<PlannedGemm>(desc, std::move(plan), workers_);
}

}  // namespace ironcl::ironwood
