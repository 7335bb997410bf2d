// SPDX-License-Identifier: Apache-2.0
// Answers of the modelled device.
#include "backends/ironwood/backend.h"

#include <boost/json.hpp>

#include "backends/ironwood/cost.h"
#include "backends/ironwood/fused_experts.h"
#include "backends/ironwood/memory.h"
#include "backends/ironwood/model_report.h"
#include "backends/ironwood/operations.h"
#include "backends/ironwood/problem.h"
#include "backends/ironwood/queue.h"
#include "backends/ironwood/search.h"
#include "backends/not_yet.h"

namespace ironcl::ironwood {

using backend::Error;
using backend::GemmDesc;
using backend::Status;

namespace {

/// The problem of a description, if a TensorCore holds its operands.
std::optional<Refusal> problem_for(const GemmDesc& desc, const Machine& machine, Problem* problem) {
  if (auto refusal = read_problem(desc, problem)) return refusal;
  const Problem& p = *problem;
  const std::int64_t x_rows = p.a_rows != 0 ? p.a_rows : p.rows(), matrices = std::max<std::int64_t>(p.matrices, 1);
  const double needed = 1.0 * x_rows * p.lda * numerics::size_of(p.x()) +
                        1.0 * matrices * p.n * p.k * numerics::size_of(p.w()) +
                        1.0 * p.rows() * p.ldd * numerics::size_of(p.d);
  if (needed > machine.tpu->hbm_bytes) {
    return Refusal(backend::Reason::device_memory,
                   "operands of {:.3g} bytes; one TensorCore of {} has {:.3g} bytes of HBM", needed,
                   machine.tpu->name, machine.tpu->hbm_bytes);
  }
  return std::nullopt;
}

/// Problem and plan of a description. Throws Error(invalid_argument) for an option that does not exist.
std::optional<Refusal> plan_for(const GemmDesc& desc, Plan* plan) {
  const PlanRequest request = read_options(desc.options);
  Problem problem;
  if (auto refusal = problem_for(desc, request.machine, &problem)) return refusal;
  return make_plan(problem, request, plan);
}

/// Time-only schedules are stepped through; more steps than this would take minutes.
constexpr double kMostSteps = 2e7;

Plan plan_to_model(const GemmDesc& desc) {
  Plan plan;
  if (const auto refusal = plan_for(desc, &plan)) throw Error(Status::unsupported, refusal->text);
  const Grid grid = plan.grid(plan.problem.rows());
  // Of a grouped problem at most a visit more for each matrix than it has tiles of rows.
  const double steps = 1.0 * (grid[0] + plan.problem.matrices) * grid[1] * grid[2];
  if (steps > kMostSteps) {
    throw Error(Status::unsupported,
                "ironwood: a schedule of {:.3g} steps; up to {:.3g} are modelled, take larger kernel_blocks", steps,
                kMostSteps);
  }
  return plan;
}

std::string search_text(const GemmDesc& desc) {
  const PlanRequest request = read_options(desc.options);
  Problem problem;
  SearchResult result;
  auto refusal = problem_for(desc, request.machine, &problem);
  if (!refusal && problem.grouped()) {
    refusal = Refusal(backend::Reason::grouping,
                      "a search for the blocks of a grouped problem; a dense one is "
                      "accepted, and gmm_v1 and gmm_v2 choose by their own rules");
  }
  if (!refusal) refusal = search_blocks(problem, request, &result);
  if (refusal) throw Error(Status::unsupported, refusal->text);
  return boost::json::serialize(report_search(result));
}

std::string describe_features() {
  const boost::json::object features = {
      {"model", "Ironwood (TPU7x), one TensorCore; times are modelled, never measured"},
      {"weights", {"e4m3fn", "e5m2", "i8", "e2m1", "f32", "f16", "bf16"}},
      {"activations", {"e4m3fn", "e5m2", "i8", "f32", "f16", "bf16"}},
      {"quantised_in_the_plan_from", {"f32", "f16", "bf16"}},
      {"outputs", {"f32", "f16", "bf16", "e4m3fn", "e5m2", "i8"}},
      {"scale_dtypes", {"f32", "f16", "bf16", "e8m0", "of weights e4m3fn"}},
      {"weight_grids", {"any rows; columns 0 or a multiple of 32, of e2m1 of 16"}},
      {"activation_grids", {"any rows; columns 0 or a multiple of 32"}},
      {"bias", true},
      {"grouped", {"contiguous", "masked"}},
      {"gathered_rows", true},
      {"accuracy_class", "f32"},
  };
  return boost::json::serialize(features);
}

/// The device "ironwood:0".
class ModelDevice final : public backend::Device {
 public:
  explicit ModelDevice(backend::Log* log) : log_(log), workers_(std::make_shared<Workers>()) {}

  backend::DeviceProps props() const override {
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

  backend::Support supports(const GemmDesc& desc) override {
    Plan plan;
    if (auto refusal = plan_for(desc, &plan)) return std::move(*refusal);
    backend::Support support;
    support.estimate_kind = backend::TimeKind::modelled;
    support.estimate_ns = estimate_ns(plan, desc.m);
    return support;
  }

  /// Keys: "features", "options", "machines"; of a problem: "model", "trace" (Chrome JSON), "search"; of a layer of
  /// experts, by its first product: "fused", "fused_trace". All JSON.
  std::string query(std::string_view key, const GemmDesc* desc) override {
    if (key == "features") return describe_features();
    if (key == "options") return describe_options();
    if (key == "machines") return boost::json::serialize(report_machines());
    const auto problem = [&]() -> const GemmDesc& {
      if (desc != nullptr) return *desc;
      throw Error(Status::invalid_argument, "ironwood: the query \"{}\" is about a problem; give one", key);
    };
    if (key == "model") return boost::json::serialize(report_model(plan_to_model(problem())));
    if (key == "trace")
      return boost::json::serialize(trace_of(plan_to_model(problem()), read_options(desc->options).trace_spans));
    if (key == "search") return search_text(problem());
    if (key == "fused" || key == "fused_trace")
      return boost::json::serialize(fused_experts(problem(), read_options(desc->options), key == "fused_trace"));
    throw Error(Status::unimplemented,
                "ironwood: no query \"{}\"; there are: features, options, machines, model, trace, search, fused, "
                "fused_trace",
                key);
  }

  std::shared_ptr<backend::Queue> create_queue() override { return std::make_shared<ModelQueue>(); }

  std::shared_ptr<backend::Buffer> create_buffer(std::uint64_t size) override {
    const std::uint64_t most = props().max_buffer_bytes;
    if (size > most) {
      throw Error(Status::out_of_device_memory,
                  "ironwood: a buffer of {} bytes is larger than the HBM of a TensorCore, {} bytes", size, most);
    }
    return std::make_shared<HostBuffer>(size);
  }

  std::shared_ptr<backend::Buffer> import_buffer(Memory kind, void* handle, std::uint64_t size) override {
    if (kind != Memory::host_pointer) {
      throw Error(Status::unsupported, "ironwood: only host pointers are imported; the modelled HBM is host memory");
    }
    return std::make_shared<HostBuffer>(static_cast<std::byte*>(handle), size);
  }

  std::shared_ptr<backend::Weights> prepare_weights(const backend::WeightsDesc& desc) override {
    backend::refuse_not_yet(backend::DType::none, desc.scale, "b");
    return std::make_shared<PreparedWeights>(desc);
  }

  std::shared_ptr<backend::Gemm> create_gemm(const GemmDesc& desc) override {
    Plan plan;
    if (const auto refusal = plan_for(desc, &plan)) throw Error(Status::unsupported, refusal->text);
    if (log_ != nullptr) {
      log_->write(backend::LogLevel::info,
                  fmt::format("ironwood: plan {}x{}x{} {}", desc.m, desc.n, desc.k, describe(plan)));
    }
    return make_gemm(std::move(plan), workers_);
  }

  std::shared_ptr<backend::Quantize> create_quantize(const backend::QuantizeDesc& desc) override {
    backend::refuse_not_yet(desc.code, desc.scale, "x");
    return make_quantize(desc);
  }

  std::shared_ptr<backend::Route> create_route(const backend::RouteDesc& desc) override { return make_route(desc); }

  std::shared_ptr<backend::Activate> create_activate(const backend::ActivateDesc& desc) override {
    backend::refuse_not_yet(desc);
    return make_activate(desc);
  }

  std::shared_ptr<backend::Combine> create_combine(const backend::CombineDesc& desc) override {
    return make_combine(desc);
  }

 private:
  backend::Log* log_;
  std::shared_ptr<Workers> workers_;
};

class IronwoodBackend final : public backend::Backend {
 public:
  explicit IronwoodBackend(backend::Log* log) : device_(std::make_shared<ModelDevice>(log)) {}

  std::vector<std::shared_ptr<backend::Device>> devices() override { return {device_}; }

 private:
  std::shared_ptr<ModelDevice> device_;
};

}  // namespace

std::unique_ptr<backend::Backend> make_backend(backend::Log* log) { return std::make_unique<IronwoodBackend>(log); }

}  // namespace ironcl::ironwood
