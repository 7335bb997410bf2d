// SPDX-License-Identifier: Apache-2.0
// The C door of checkpoints (checkpoint.h): checks structs, turns what is thrown into a status. Part of libironcl.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "backends/numerics/casts.h"
#include "backends/numerics/quantize.h"
#include "host/checkpoint/model.h"
#include "host/layer/c_checkpoint.h"
#include "host/layer/layer_problem.h"
#include "host/layer/selection.h"

using ironcl::checkpoint::ActivationScheme;
using ironcl::checkpoint::LinearLayer;
using ironcl::numerics::DType;
namespace layer = ironcl::layer;
using namespace ironcl::layer::c_api;

namespace {

std::uint32_t scheme_of(ActivationScheme scheme) {
  return scheme == ActivationScheme::none    ? IRONCL_ACTIVATIONS_NONE
         : scheme == ActivationScheme::fixed ? IRONCL_ACTIVATIONS_STATIC
                                             : IRONCL_ACTIVATIONS_DYNAMIC;
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
    *out_checkpoint =
        std::make_unique<ironcl_checkpoint_t>(ironcl::checkpoint::Checkpoint::open(path, open)).release();
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
    const LinearLayer* found = &layer::find_layer(checkpoint->checkpoint, name);
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
    info.problem = layer->problem.c_str();
    info.weight_dtype = static_cast<ironcl_dtype>(source.multiplied());
    info.bytes = source.bytes;
    if (!source.problem) {
      info.activations = scheme_of(source.activations);
      info.weight_scale = ironcl::report::to_desc(source.scales());
      const layer::ActivationRule rule = layer::activation_rule(source, DType::bf16);
      info.activation_scale = ironcl::report::to_desc(rule.scale);
      info.input_scale = rule.fixed_scale.value_or(0);
      if (source.activations == ActivationScheme::dynamic)
        info.activation_limit = static_cast<float>(source.activation_limit.value_or(0));
      if (source.bias) {
        info.bias_dtype = static_cast<ironcl_dtype>(source.bias->dtype);
        info.bias = layer->bias().data();
        info.bias_bytes = layer->bias().size();
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

}  // extern "C"
