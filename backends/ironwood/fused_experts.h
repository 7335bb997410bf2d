// SPDX-License-Identifier: Apache-2.0
// A whole layer of experts as one kernel, its time: the schedule of fused_moe v1 of tpu-inference
// (kernels/fused_moe/v1/kernel.py) on one core, where no token travels to another device. Tokens come row by row into
// their expert's slot; gate, up and down follow tile by tile; rows go back to HBM and come in again, k for each
// token, to be summed. Everything has two slots and semaphores that count bytes. Activations stay bf16.
//
// What the schedule shows: the weights of every expert are fetched for every tile of tokens, whether it has rows or
// not; an expert's first weights are asked for only when its turn has come; there is a barrier after each expert. A
// layer on the device runs as its steps do (operations.h).
#pragma once

#include <boost/json/object.hpp>

#include "backends/ironwood/plan.h"

namespace ironcl::ironwood {

/// Runs the schedule of the layer that a description of its first product means: m = T * k rows gathered from a_rows
/// = T tokens, n = 2 I, k = H, weights of gate above those of up; ids from the request, else spread evenly. Its
/// blocks are the kernel's own rule, hidden blocks cut to divisors of H (the rule gives others, which the kernel
/// refuses) and tokens halved until the buffers fit (it asks for 100 MiB of a VMEM of 64). Returns its report, with
/// the keys of report_model where they mean the same; or with `trace` its Chrome trace. Throws Error(unsupported)
/// where that is no such layer, Error(internal) where the schedule breaks the engine's rules.
boost::json::object fused_experts(const backend::GemmDesc& desc, const PlanRequest& request, bool trace);

}  // namespace ironcl::ironwood
