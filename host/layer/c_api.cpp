// SPDX-License-Identifier: Apache-2.0
// The C door of checkpoints (checkpoint.h): checks structs, turns what is thrown into a status. Part of libironcl.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <string>

#include "backends/numerics/casts.h"
#include "backends/numerics/quantize.h"
#include "host/checkpoint/model.h"
#include "host/include/ironcl/checkpoint.h"
#include "host/layer/c_checkpoint.h"
#include "host/layer/layer_problem.h"
#include "host/layer/selection.h"
#include "host/registry/c_boundary.h"

using ironcl::checkpoint::ActivationScheme;
using ironcl::checkpoint::LinearLayer;
using ironcl::numerics::DType;
using ironcl::registry::read_struct;
using ironcl::registry::Result;
using ironcl::registry::write_struct;
namespace layer = ironcl::layer;
using ironcl::layer::c_api::float_type;
using ironcl::layer::c_api::guard;
using ironcl::layer::c_api::invalid;

namespace {

ironcl_scale_desc scale_desc(DType type, ironcl::numerics::ScaleGrid grid) {
  ironcl_scale_desc desc{};
  desc.dtype = static_cast<ironcl_dtype>(type);
  if (type == DType::none) return desc;
  desc.group_rows = static_cast<std::uint32_t>(grid.group_rows);
  desc.group_cols = static_cast<std::uint32_t>(grid.group_cols);
  return desc;
}

std::uint32_t scheme_of(ActivationScheme scheme) {
  return scheme == ActivationScheme::none    ? IRONCL_ACTIVATIONS_NONE
         : scheme == ActivationScheme::fixed ? IRONCL_ACTIVATIONS_STATIC
                                             : IRONCL_ACTIVATIONS_DYNAMIC;
}

}  // namespace

extern "C" {

ironcl_status ironcl_checkpoint_open(const char* path, const ironcl_checkpoint_options* options,
                                     ironcl_checkpoint* out_checkpoint, ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (path == nullptr || out_checkpoint == nullptr) return invalid("path or out_checkpoint is NULL");
    ironcl::checkpoint::OpenOptions open;
    if (options != nullptr) {
      ironcl_checkpoint_options given{};
      if (Result read = read_struct(options, "ironcl_checkpoint_options", sizeof(std::uint32_t), given); !read.ok())
        return read;
      if (given.flags != 0) return {IRONCL_UNIMPLEMENTED, "ironcl_checkpoint_options.flags must be 0"};
      if (given.block_rows != 0 || given.block_cols != 0) open.block = {given.block_rows, given.block_cols};
    }
    *out_checkpoint =
        std::make_unique<ironcl_checkpoint_t>(ironcl::checkpoint::Checkpoint::open(path, open)).release();
    return {};
  });
}

void ironcl_checkpoint_close(ironcl_checkpoint checkpoint) { delete checkpoint; }

uint32_t ironcl_checkpoint_layer_count(ironcl_checkpoint checkpoint) {
  return checkpoint == nullptr ? 0 : static_cast<uint32_t>(checkpoint->layers.size());
}

ironcl_status ironcl_checkpoint_layer(ironcl_checkpoint checkpoint, uint32_t index, ironcl_layer* out_layer,
                                      ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (checkpoint == nullptr || out_layer == nullptr) return invalid("checkpoint or out_layer is NULL");
    if (index >= checkpoint->layers.size())
      return invalid(fmt::format("layer {} does not exist; there are {}", index, checkpoint->layers.size()));
    *out_layer = &checkpoint->layers[index];
    return {};
  });
}

ironcl_status ironcl_checkpoint_find_layer(ironcl_checkpoint checkpoint, const char* name, ironcl_layer* out_layer,
                                           ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (checkpoint == nullptr || name == nullptr || out_layer == nullptr)
      return invalid("checkpoint, name or out_layer is NULL");
    const LinearLayer* found = &layer::find_layer_unchecked(checkpoint->checkpoint, name);
    *out_layer = &checkpoint->layers[static_cast<std::size_t>(found - checkpoint->checkpoint.layers().data())];
    return {};
  });
}

ironcl_status ironcl_layer_get_info(ironcl_layer layer, ironcl_layer_info* out_info, ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (layer == nullptr || out_info == nullptr) return invalid("layer or out_info is NULL");
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
      info.weight_scale = scale_desc(source.scale.dtype, source.weight_grid);
      const layer::ActivationRule rule = layer::activation_rule(source, DType::bf16);
      info.activation_scale = scale_desc(rule.scale.dtype, rule.scale.grid);
      info.input_scale = rule.fixed_scale.value_or(0);
      if (source.activations == ActivationScheme::dynamic)
        info.activation_limit = static_cast<float>(source.activation_limit.value_or(0));
      if (source.bias) {
        info.bias_dtype = static_cast<ironcl_dtype>(source.bias->dtype);
        info.bias = layer->bias().data();
        info.bias_bytes = layer->bias().size();
      }
    }
    return write_struct(info, "ironcl_layer_info", out_info);
  });
}

ironcl_status ironcl_layer_problem(ironcl_layer layer, const ironcl_layer_choices* choices,
                                   ironcl_gemm_desc* out_desc, ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (layer == nullptr || choices == nullptr || out_desc == nullptr)
      return invalid("layer, choices or out_desc is NULL");
    ironcl_layer_choices given{};
    if (Result read = read_struct(choices, "ironcl_layer_choices", sizeof(std::uint32_t), given); !read.ok())
      return read;
    layer->source->check();
    layer::ProblemChoices chosen;
    if (Result read = float_type("x_dtype", given.x_dtype, DType::bf16, chosen.x); !read.ok()) return read;
    if (Result read = float_type("d_dtype", given.d_dtype, DType::bf16, chosen.out); !read.ok()) return read;
    if (given.m < 0) return invalid(fmt::format("m is {}; it must not be negative", given.m));
    if (given.weakest_accuracy > IRONCL_ACCURACY_TENSOR14)
      return invalid(fmt::format("weakest_accuracy is {}; IRONCL_ACCURACY_* are known", given.weakest_accuracy));
    chosen.m = given.m;
    chosen.weakest_accuracy = static_cast<ironcl::numerics::AccuracyClass>(given.weakest_accuracy);
    return write_struct(ironcl::report::to_desc(layer::describe(*layer->source, chosen)), "ironcl_gemm_desc",
                        out_desc);
  });
}

ironcl_status ironcl_layer_weights(ironcl_layer layer, ironcl_weights_desc* out_desc, ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (layer == nullptr || out_desc == nullptr) return invalid("layer or out_desc is NULL");
    const LinearLayer& source = *layer->source;
    source.check();
    const layer::LayerWeights& weights = layer->acquire();
    ironcl_weights_desc desc{};
    desc.dtype = static_cast<ironcl_dtype>(source.multiplied());
    desc.n = source.n;
    desc.k = source.k;
    desc.scale = scale_desc(source.scale.dtype, source.weight_grid);
    desc.data = weights.codes.data();
    desc.scales = weights.scales.data();
    desc.data_bytes = weights.codes.size();
    desc.scale_bytes = weights.scales.size();
    Result written = write_struct(desc, "ironcl_weights_desc", out_desc);
    if (!written.ok()) layer->release();
    return written;
  });
}

void ironcl_layer_release_weights(ironcl_layer layer) {
  if (layer != nullptr) layer->release();
}

ironcl_status ironcl_layer_quantize(ironcl_layer layer, ironcl_dtype x_dtype, const void* x, int64_t m, void* codes,
                                    uint64_t code_bytes, ironcl_error* error) {
  return guard(error, [&]() -> Result {
    if (layer == nullptr) return invalid("layer is NULL");
    const LinearLayer& source = *layer->source;
    source.check();
    DType type = DType::none;
    if (Result read = float_type("x_dtype", x_dtype, DType::none, type); !read.ok()) return read;
    const layer::ActivationRule rule = layer::activation_rule(source, type);
    if (!rule.fixed_scale)
      return invalid(fmt::format("layer {} has no static scale: its plan quantises activations itself", source.name));
    if (m < 0) return invalid(fmt::format("m is {}; it must not be negative", m));
    const std::size_t bytes = layer::bytes_of_matrix(rule.dtype, m, source.k);
    if (code_bytes < bytes)
      return invalid(fmt::format("codes have room for {} bytes, [{}, {}] needs {}", code_bytes, m, source.k, bytes));
    if (bytes != 0 && (x == nullptr || codes == nullptr)) return invalid("x or codes is NULL");
    layer::quantize_fixed(type, static_cast<const std::byte*>(x), *rule.fixed_scale, rule.dtype,
                          {static_cast<std::byte*>(codes), bytes});
    return {};
  });
}

}  // extern "C"
