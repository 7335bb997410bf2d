// SPDX-License-Identifier: Apache-2.0
// Descriptions and arguments that cross the boundary, checked and turned into those of backends/interface.h. What a
// struct says about itself is checked here and nowhere else; what a device can do is the backend's answer. Each
// function throws Refused: invalid (a rule of plugin.h is broken) or unimplemented (a value that only
// a newer header can have). The text names the field, what it is, what was expected, and what to do.
#pragma once

#include "plugins/adapter/handles.h"

namespace ironcl::adapter {

/// Largest m, n, k and leading dimension of a scale: 2^31 - 1.
inline constexpr std::int64_t kLargestDimension = 0x7fffffff;

/// Most matrices of a grouped problem.
inline constexpr std::uint32_t kMostMatrices = 1u << 20;

/// Zeros that mean a default have become it: leading dimensions are tight, an amax_floor the usual one.
backend::GemmDesc read(const ironcl_gemm_desc* in);
backend::QuantizeDesc read(const ironcl_quantize_desc* in);
backend::RouteDesc read(const ironcl_route_desc* in);
backend::ActivateDesc read(const ironcl_activate_desc* in);
backend::CombineDesc read(const ironcl_combine_desc* in);

/// Also that `plan`, where given, is of `device` and of the same matrix.
backend::WeightsDesc read(const ironcl_weights_desc* in, const DeviceState& device);

/// Throws where `weights` are not the B that `plan` multiplies. `field` opens the message.
void check_same_matrix(const backend::GemmDesc& plan, const backend::WeightsDesc& weights, std::string_view field);

/// Checks a call on a queue of device `on`: devices agree, weights have the plan's form, spans lie inside their
/// buffers, are large enough and aligned, and written spans overlap no other.
backend::GemmArgs read(const ironcl_gemm_args* in, const GemmOp& plan, const DeviceState* on);
backend::QuantizeArgs read(const ironcl_quantize_args* in, const QuantizeOp& quantize, const DeviceState* on);
backend::RouteArgs read(const ironcl_route_args* in, const RouteOp& route, const DeviceState* on);
backend::ActivateArgs read(const ironcl_activate_args* in, const ActivateOp& activate, const DeviceState* on);
backend::CombineArgs read(const ironcl_combine_args* in, const CombineOp& combine, const DeviceState* on);
backend::SequenceArgs read(const ironcl_sequence_args* in, const SequenceOp& sequence, const DeviceState* on);

/// The pairs of an array, which messages call `name`.
backend::Options read(const ironcl_key_value* items, std::uint32_t count, std::string_view name);

/// A span of write or read: inside its buffer, of the queue's device, at least one byte.
backend::Span transfer_span(const ironcl_span& in, std::string_view name, const DeviceState& device);

}  // namespace ironcl::adapter
