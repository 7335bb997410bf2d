// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/device.h"

#include <algorithm>
#include <boost/json.hpp>

#include "backends/not_yet.h"
#include "backends/opencl/ceilings.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/gemm.h"
#include "backends/opencl/matrix_unit.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/trial.h"
#include "backends/opencl/weights.h"

namespace ironcl::opencl {

using backend::Error;
using backend::Status;

Device::Device(const cl::Platform& platform, const cl::Device& device, const Config& config, backend::Log* log,
               std::shared_ptr<const tuned::Tables> tables, const cl::Context& imported)
    : context_(std::make_shared<Context>()), imported_(imported() != nullptr) {
  context_->platform = platform;
  context_->device = device;
  context_->config = config;
  context_->tuned = std::move(tables);
  context_->variants.assign(variants().begin(), variants().end());
  for (const auto maker : config.more_variants) context_->variants.push_back(maker());
  context_->trials = make_trials(*context_, log);
  context_->usual = std::make_unique<UsualForms>(context_->selection());
  guarded("opening an OpenCL device", [&] {
    context_->features = query_features(platform, device);
    limit_ptx(context_->features, config.ptx);
    const bool is_cpu = context_->features.type == backend::DeviceType::cpu;
    context_->features.amx_why_not = !is_cpu       ? "the device is no processor"
                                     : !config.amx ? "tiles (AMX) are switched off"
                                                   : why_no_tiles();
    context_->features.dot_products_why_not =
        !is_cpu               ? "the device is no processor"
        : !config.avx512_bf16 ? "dot products of bf16 and bytes (AVX512-BF16, VNNI) are switched off"
                              : why_no_dot_products();
    if (context_->features.dot_products_why_not.empty()) {
      const DotProductRates rates = dot_product_rates();
      context_->features.dot_products_of_bf16 = rates.bf16;
      context_->features.dot_products_of_bytes = rates.bytes;
    }
    context_->context = imported_ ? imported : cl::Context(device);
    context_->builder = std::make_unique<ProgramBuilder>(config, log, context_->context, device);
  });
}

const ContextPtr& Device::context() {
  std::call_once(probed_, [&] {
    context_->null_buffer = make_null_buffer(*context_);
    run_probes(context_->context, context_->device, *context_->builder, context_->features);
  });
  return context_;
}

backend::DeviceProps Device::props() const {
  const Features& f = context_->features;
  backend::DeviceProps p;
  p.type = f.type;
  p.vendor_id = f.vendor_id;
  p.import_host_pointer = f.unified_memory;
  p.import_cl_mem = imported_;
  p.event_profiling = context_->config.profiling;
  p.bitwise_repeatable = true;
  p.memory_bytes = f.global_bytes;
  p.max_buffer_bytes = f.max_buffer_bytes;
  p.buffer_alignment = f.alignment;
  p.name = f.name;
  p.driver = f.platform + ", " + f.device_version + ", " + f.driver;
  return p;
}

backend::Support Device::supports(const backend::GemmDesc& desc) {
  Choice choice;
  return supports(desc, choice);
}

backend::Support Device::supports(const backend::GemmDesc& desc, Choice& choice) {
  backend::Support support = choose(context()->selection(), desc, &choice, context_->tuned.get());
  if (support.reason != backend::Reason::none) return support;
  try {
    support.workspace_bytes = route_of(choice, context_->features).booking.bytes();
  } catch (const std::overflow_error&) {
    return Refusal(backend::Reason::device_memory, "the workspace takes more than 2^63 bytes; plan for fewer rows");
  }
  if (support.workspace_bytes > context_->features.max_buffer_bytes) {
    return Refusal(backend::Reason::device_memory,
                   "the workspace takes {} bytes, a buffer of {} has at most {}; plan for fewer rows",
                   support.workspace_bytes, context_->features.name, context_->features.max_buffer_bytes);
  }
  return support;
}

/// The features, and what the trials of this device's variants found: asked now where they were not yet.
static std::string features_json(const Context& context) {
  boost::json::object object = to_json(context.features).as_object();
  boost::json::object trials;
  for (const Variant& variant : context.variants) {
    if (!must_be_tried(variant, context.features)) continue;
    const auto unmet =
        variant.needs != nullptr ? variant.needs(context.features, trial_problem(variant)) : std::nullopt;
    const std::string why = unmet ? unmet->text : context.trials->why_not(variant);
    trials[variant.name] = why.empty() ? "right" : why;
  }
  object["trials"] = trials;
  return boost::json::serialize(object);
}

std::string Device::query(std::string_view key, const backend::GemmDesc* desc) {
  if (key == "features") return features_json(*context());
  if (key == "options") return options_json(context()->variants);
  if (key == "variants") return variants_json(context_->variants);
  using boost::json::serialize;
  if (key == "ceilings") {
    const double flops = measure_fma_flops(*context()), bytes = measure_copy_rate(*context());
    return serialize(boost::json::object{{"fma_flops", flops}, {"copy_bytes_per_s", bytes}});
  }
  if (key == "fma_flops") return serialize(boost::json::value(measure_fma_flops(*context(), 0.015)));
  if (key == "copy_bytes_per_s") return serialize(boost::json::value(measure_copy_rate(*context(), 0.05)));
  if (key == "launches") return std::to_string(context_->launches);
  if (key == "choice" && desc != nullptr) {
    Choice choice;
    const backend::Support support = choose(context()->selection(), *desc, &choice, context_->tuned.get());
    if (support.reason != backend::Reason::none) throw Error(Status::unsupported, support.text);
    boost::json::array passed_over;
    for (const PassedOver& other : choice.passed_over)
      passed_over.push_back(boost::json::object{{"variant", other.variant}, {"why", other.refusal.text}});
    return boost::json::serialize(boost::json::object{{"variant", choice.variant->name},
                                                      {"group", choice.problem.k_group},
                                                      {"tuning", boost::json::value_from(choice.tuning)},
                                                      {"source", choice.source},
                                                      {"passed_over", passed_over}});
  }
  if (key == "candidates" && desc != nullptr) return candidates_json(context()->selection(), *desc);
  throw Error(Status::unimplemented,
              "query \"{}\" is not known; known are features, options, variants, ceilings, fma_flops, "
              "copy_bytes_per_s, launches, and with a problem choice and candidates",
              key);
}

std::shared_ptr<backend::Queue> Device::create_queue() { return std::make_shared<Queue>(context_); }

std::shared_ptr<backend::Buffer> Device::create_buffer(std::uint64_t size) {
  return std::make_shared<Buffer>(context_, size);
}

std::shared_ptr<backend::Buffer> Device::import_buffer(Memory kind, void* handle, std::uint64_t size) {
  if (kind == Memory::cl_mem) {
    if (!imported_) {
      throw Error(Status::unsupported,
                  "the context of {} is this plugin's own: no cl_mem of an application's is in it; hand the "
                  "application's context over with device_import",
                  context_->features.name);
    }
    return std::make_shared<Buffer>(context_, static_cast<cl_mem>(handle), size);
  }
  if (kind == Memory::pinned_host) return std::make_shared<PinnedHost>(context_, size, *static_cast<void**>(handle));
  if (!context_->features.unified_memory) {
    throw Error(Status::unsupported, "{} does not share the host's memory; create a buffer and write to it",
                context_->features.name);
  }
  return std::make_shared<Buffer>(context_, handle, size);
}

std::shared_ptr<backend::Weights> Device::prepare_weights(const backend::WeightsDesc& desc) {
  backend::refuse_not_yet(backend::DType::none, desc.scale, "b");
  WeightFormPtr form = desc.plan != nullptr ? static_cast<const Gemm&>(*desc.plan).weight_form()
                                            : context()->usual->of(backend::AccuracyClass::f32, desc.dtype);
  return std::make_shared<Weights>(context_, desc, std::move(form));
}

std::shared_ptr<backend::Gemm> Device::create_gemm(const backend::GemmDesc& desc) {
  Choice choice;
  const backend::Support support = supports(desc, choice);
  if (support.reason != backend::Reason::none) throw Error(Status::unsupported, support.text);
  if (context_->config.print_config) {
    context_->builder->say(
        backend::LogLevel::info,
        fmt::format("opencl: m={} n={} k={} on {}: {} {} ({})", desc.m, desc.n, desc.k, context_->features.name,
                    choice.variant->name, to_string(choice.tuning), choice.source));
  }
  return std::make_shared<Gemm>(context_, std::move(choice));
}

std::shared_ptr<backend::Sequence> Device::create_sequence(std::vector<backend::RecordedCall> calls) {
  std::string variant;
  try {
    variant = fuse_experts(context(), calls);
    if (const std::string products = fuse_products(context(), calls); !products.empty())
      variant += (variant.empty() ? "" : ", ") + products;
  } catch (const Error& error) {  // Of what was not built: its calls are launches of their own.
    context_->builder->say(backend::LogLevel::warn, "calls do not become one launch: " + std::string(error.what()));
  }
  return std::make_shared<backend::Sequence>(std::move(calls), std::move(variant));
}

}  // namespace ironcl::opencl
