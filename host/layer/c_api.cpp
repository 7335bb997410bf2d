// SPDX-License-Identifier: Apache-2.0
// The C door of checkpoints (checkpoint.h): checks structs, turns what is thrown into a status. Part of libironcl.

#include "host/layer/c_checkpoint.h"
#include "host/layer/experts.h"
#include "host/registry/complete_table.h"

using ironcl::checkpoint::ActivationScheme;
using ironcl::checkpoint::ExpertsLayer;
using ironcl::checkpoint::LinearLayer;
using ironcl::numerics::DType;
using namespace ironcl::boundary;
namespace layer = ironcl::layer;

struct ironcl_experts_t {
  ironcl_experts_t(const ironcl_plugin& api, ironcl_device handle, const layer::ExpertsSource& source,
                   const layer::ExpertsChoices& choices)
      : table(ironcl::registry::complete_table(api).table),
        device(&table, handle, table.name),
        runner(layer::experts_on(device, source, choices)) {}
  ironcl_experts_t(const ironcl_experts_t&) = delete;
  ironcl_experts_t& operator=(const ironcl_experts_t&) = delete;
  /// The caller's may be a plugin's own: shorter, or with slots that are NULL.
  ironcl_plugin table;
  ironcl::Device device;
  layer::Runner runner;
};

namespace {

static_assert(static_cast<int>(ActivationScheme::fixed) == IRONCL_ACTIVATIONS_STATIC);

ironcl_status status_of(ironcl::checkpoint::ErrorKind kind) {
  using ironcl::checkpoint::ErrorKind;
  if (kind == ErrorKind::io || kind == ErrorKind::not_found) return IRONCL_UNAVAILABLE;
  return kind == ErrorKind::unsupported ? IRONCL_UNSUPPORTED : IRONCL_INVALID_ARGUMENT;
}

/// ironcl::boundary::guard, with what a checkpoint and the C++ API throw.
template <class Function>
ironcl_status guarded(ironcl_error* error, Function&& function) noexcept {
  return ironcl::boundary::guard("", error, [&] {
    try {
      function();
    } catch (const ironcl::checkpoint::Error& thrown) {
      refuse(status_of(thrown.kind()), "{}", thrown.what());
    } catch (const ironcl::Error& thrown) {
      throw ironcl::boundary::Refused(thrown.status(), thrown.what(), thrown.native_code());
    } catch (const std::overflow_error& thrown) {
      invalid("{}", thrown.what());
    }
  });
}

/// F32, F16 or BF16; `missing` for NONE.
DType float_type(const char* what, ironcl_dtype given, DType missing) {
  const auto type = given == IRONCL_DTYPE_NONE ? missing : static_cast<DType>(given);
  if (!ironcl::numerics::is_float(type)) invalid("{} is {}; F32 (1), F16 (2) and BF16 (3) are taken", what, given);
  return type;
}

ironcl::numerics::AccuracyClass accuracy_class(std::uint32_t weakest) {
  if (weakest > IRONCL_ACCURACY_TENSOR14) invalid("weakest_accuracy is {}; IRONCL_ACCURACY_* are known", weakest);
  return static_cast<ironcl::numerics::AccuracyClass>(weakest);
}

/// Throws unless a table says enough of itself to be copied.
void check_table(const ironcl_plugin& api) {
  if (api.struct_size < offsetof(ironcl_plugin, extensions) || api.name == nullptr)
    invalid("api is not a plugin's table: its struct_size is too small, or it has no name");
  if (api.abi_major != IRONCL_ABI_MAJOR)
    refuse(IRONCL_INCOMPATIBLE, "api is a table of ABI {}, this library has ABI {}", api.abi_major, IRONCL_ABI_MAJOR);
}

/// A queue that stays the caller's.
class BorrowedQueue : public ironcl::Queue {
 public:
  BorrowedQueue(const ironcl::Device& device, ironcl_queue queue) {
    owner_ = device.owner();
    api_ = &device.api();
    handle_ = queue;
  }
  BorrowedQueue(const BorrowedQueue&) = delete;
  BorrowedQueue& operator=(const BorrowedQueue&) = delete;
  ~BorrowedQueue() { release(); }
};

ironcl_experts_args read_args(const ironcl_experts_args* args) {
  const auto given = read_struct(args, "ironcl_experts_args");
  if (given.routed > IRONCL_ROUTED_BY_CALLER) invalid("routed is {}; IRONCL_ROUTED_BY_* are known", given.routed);
  if (given.wait_count != 0 && given.wait == nullptr) invalid("wait is NULL, but wait_count is not 0");
  return given;
}

}  // namespace

extern "C" {

ironcl_status ironcl_checkpoint_open(const char* path, const ironcl_checkpoint_options* options,
                                     ironcl_checkpoint* out_checkpoint, ironcl_error* error) {
  return guarded(error, [&] {
    require("path or out_checkpoint", path, out_checkpoint);
    ironcl::checkpoint::OpenOptions open;
    if (options != nullptr) {
      const auto given = read_struct(options, "ironcl_checkpoint_options");
      if (given.block_rows != 0 || given.block_cols != 0) open.block = {given.block_rows, given.block_cols};
    }
    *out_checkpoint = new ironcl_checkpoint_t(ironcl::checkpoint::Checkpoint::open(path, open));
  });
}

void ironcl_checkpoint_close(ironcl_checkpoint checkpoint) { delete checkpoint; }

uint32_t ironcl_checkpoint_layer_count(ironcl_checkpoint checkpoint) {
  return checkpoint == nullptr ? 0 : static_cast<uint32_t>(checkpoint->layers.size());
}

ironcl_status ironcl_checkpoint_layer(ironcl_checkpoint checkpoint, uint32_t index, ironcl_layer* out_layer,
                                      ironcl_error* error) {
  return guarded(error, [&] {
    require("checkpoint or out_layer", checkpoint, out_layer);
    if (index >= checkpoint->layers.size())
      invalid("layer {} does not exist; there are {}", index, checkpoint->layers.size());
    *out_layer = &checkpoint->layers[index];
  });
}

ironcl_status ironcl_checkpoint_find_layer(ironcl_checkpoint checkpoint, const char* name, ironcl_layer* out_layer,
                                           ironcl_error* error) {
  return guarded(error, [&] {
    require("checkpoint, name or out_layer", checkpoint, name, out_layer);
    const LinearLayer* found = &checkpoint->checkpoint.layer_named(name);
    *out_layer = &checkpoint->layers[static_cast<std::size_t>(found - checkpoint->checkpoint.layers().data())];
  });
}

ironcl_status ironcl_layer_get_info(ironcl_layer layer, ironcl_layer_info* out_info, ironcl_error* error) {
  return guarded(error, [&] {
    require("layer or out_info", layer, out_info);
    const LinearLayer& source = *layer->source;
    ironcl_layer_info info{};
    info.n = source.n;
    info.k = source.k;
    info.name = source.name.c_str();
    info.problem = source.problem ? source.problem->what() : "";
    info.weight_dtype = static_cast<ironcl_dtype>(source.multiplied());
    info.bytes = source.bytes;
    if (!source.problem) {
      info.activations = static_cast<std::uint32_t>(source.activations);
      info.weight_scale = ironcl::report::to_desc(source.scales());
      const ironcl::report::Problem problem = layer::describe(source, {});
      info.activation_scale = ironcl::report::to_desc(problem.a_scale);
      if (problem.a_quantizer.given) info.input_scale = static_cast<float>(source.input_scale->number(0));
      if (source.activations == ActivationScheme::dynamic)
        info.activation_limit = static_cast<float>(source.activation_limit.value_or(0));
      if (source.bias) {
        info.bias_dtype = static_cast<ironcl_dtype>(source.bias->dtype);
        info.bias = layer->bias.data();
        info.bias_bytes = layer->bias.size();
      }
    }
    check_out(out_info, "ironcl_layer_info");
    write_struct(out_info, info);
  });
}

ironcl_status ironcl_layer_problem(ironcl_layer layer, const ironcl_layer_choices* choices,
                                   ironcl_gemm_desc* out_desc, ironcl_error* error) {
  return guarded(error, [&] {
    require("layer, choices or out_desc", layer, choices, out_desc);
    const auto given = read_struct(choices, "ironcl_layer_choices");
    layer->source->check();
    if (given.m < 0) invalid("m is {}; it must not be negative", given.m);
    const layer::ProblemChoices chosen{.m = given.m,
                                       .x = float_type("x_dtype", given.x_dtype, DType::bf16),
                                       .out = float_type("d_dtype", given.d_dtype, DType::bf16),
                                       .weakest_accuracy = accuracy_class(given.weakest_accuracy)};
    check_out(out_desc, "ironcl_gemm_desc");
    write_struct(out_desc, ironcl::report::to_desc(layer::describe(*layer->source, chosen)));
  });
}

ironcl_status ironcl_layer_weights(ironcl_layer layer, ironcl_weights_desc* out_desc, ironcl_error* error) {
  return guarded(error, [&] {
    require("layer or out_desc", layer, out_desc);
    const LinearLayer& source = *layer->source;
    source.check();
    check_out(out_desc, "ironcl_weights_desc");  // nothing is kept for a call that fails
    const layer::LayerWeights& weights = layer->acquire();
    ironcl_weights_desc desc{};
    desc.dtype = static_cast<ironcl_dtype>(source.multiplied());
    desc.n = source.n;
    desc.k = source.k;
    desc.scale = ironcl::report::to_desc(source.scales());
    desc.data = weights.codes.data();
    desc.scales = weights.scales.data();
    desc.data_bytes = weights.codes.size();
    desc.scale_bytes = weights.scales.size();
    if (!weights.global.empty()) desc.global_scales = weights.global.data();
    write_struct(out_desc, desc);
  });
}

void ironcl_layer_release_weights(ironcl_layer layer) {
  if (layer != nullptr) layer->release();
}

// --- Layers of experts

uint32_t ironcl_checkpoint_experts_count(ironcl_checkpoint checkpoint) {
  return checkpoint == nullptr ? 0 : static_cast<uint32_t>(checkpoint->checkpoint.experts().size());
}

ironcl_status ironcl_checkpoint_experts_info(ironcl_checkpoint checkpoint, uint32_t index,
                                             ironcl_experts_info* out_info, ironcl_error* error) {
  return guarded(error, [&] {
    require("checkpoint or out_info", checkpoint, out_info);
    const auto& all = checkpoint->checkpoint.experts();
    if (index >= all.size()) invalid("layer of experts {} does not exist; there are {}", index, all.size());
    const ExpertsLayer& one = all[index];
    ironcl_experts_info info{};
    info.top_k = static_cast<std::uint32_t>(one.routing.top_k);
    info.experts = static_cast<std::uint32_t>(one.routing.experts);
    info.shared = one.shared ? 1 : 0;
    info.hidden = one.hidden;
    info.width = one.width;
    info.name = one.name.c_str();
    info.problem = one.problem ? one.problem->what() : "";
    info.bytes = one.bytes;
    check_out(out_info, "ironcl_experts_info");
    write_struct(out_info, info);
  });
}

ironcl_status ironcl_experts_create(ironcl_checkpoint checkpoint, const char* name, const ironcl_plugin* api,
                                    ironcl_device device, const ironcl_experts_choices* choices,
                                    ironcl_experts* out_experts, ironcl_error* error) {
  return guarded(error, [&] {
    require("checkpoint, name, api, device, choices or out_experts", checkpoint, name, api, device, choices,
            out_experts);
    const auto given = read_struct(choices, "ironcl_experts_choices", IRONCL_EXPERTS_WEIGHT_ONLY);
    check_table(*api);
    const layer::ExpertsChoices chosen{.tokens = given.tokens,
                                       .x = float_type("x_dtype", given.x_dtype, DType::bf16),
                                       .out = float_type("y_dtype", given.y_dtype, DType::bf16),
                                       .weakest_accuracy = accuracy_class(given.weakest_accuracy)};
    const ExpertsLayer& found = checkpoint->checkpoint.experts_named(name);
    const auto source =
        layer::source_of(checkpoint->checkpoint, found, (given.flags & IRONCL_EXPERTS_WEIGHT_ONLY) == 0);
    const std::int64_t experts = source->form().routing.experts, first = given.first_expert;
    if (first + given.local_experts > experts || (given.local_experts == 0 && first != 0))
      invalid("{} experts from {} on are asked for, of {}", given.local_experts, first, experts);
    const layer::LocalExperts local(*source, first, given.local_experts == 0 ? experts : given.local_experts,
                                    first == 0);
    *out_experts = new ironcl_experts_t(*api, device, local, chosen);
  });
}

void ironcl_experts_destroy(ironcl_experts experts) { delete experts; }

ironcl_status ironcl_experts_enqueue(ironcl_experts experts, ironcl_queue queue, const ironcl_experts_args* args,
                                     ironcl_event* out_event, ironcl_error* error) {
  return guarded(error, [&] {
    require("experts, queue or args", experts, queue, args);
    const auto given = read_args(args);
    BorrowedQueue borrowed(experts->device, queue);
    ironcl::Event event = experts->runner.enqueue(borrowed, layer::call_of(experts->runner, given));
    if (out_event != nullptr) *out_event = event.release();
  });
}

ironcl_status ironcl_experts_record(ironcl_experts experts, const ironcl_experts_args* args, ironcl_op* out_op,
                                    ironcl_error* error) {
  return guarded(error, [&] {
    require("experts, args or out_op", experts, args, out_op);
    const auto given = read_args(args);
    if (given.wait_count != 0) invalid("wait_count is {}; let the call of what is recorded wait", given.wait_count);
    if (given.tokens == 0) invalid("tokens is 0, which records nothing");
    ironcl::SequenceDesc calls;
    experts->runner.record(layer::call_of(experts->runner, given), calls);
    *out_op = ironcl::Sequence(experts->device, calls).release();
  });
}

}  // extern "C"
