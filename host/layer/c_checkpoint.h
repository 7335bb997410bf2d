// SPDX-License-Identifier: Apache-2.0
// Shared by the C API of checkpoints: the objects behind the handles, and exceptions as statuses.
// Next door: c_api.cpp (single matrices), c_api_experts.cpp (layers of experts).
#pragma once

#include <fmt/format.h>

#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backends/numerics/casts.h"
#include "host/boundary/structs.h"
#include "host/checkpoint/model.h"
#include "host/include/ironcl/checkpoint.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/layer/layer_problem.h"

/// A layer with the copies of its weights that callers use: aligned scales, and codes where the layer lies
/// transposed.
struct ironcl_layer_t {
  explicit ironcl_layer_t(const ironcl::checkpoint::LinearLayer& of)
      : source(&of), problem(of.problem ? of.problem->what() : "") {}

  /// The copies, for one more user.
  const ironcl::layer::LayerWeights& acquire() const {
    const std::lock_guard lock(mutex);
    if (users == 0) copies = ironcl::layer::weights_of(*source);
    ++users;
    return copies;
  }
  /// Frees them after the last.
  void release() const {
    const std::lock_guard lock(mutex);
    if (users != 0 && --users == 0) copies = {};
  }
  /// Aligned, until the checkpoint is closed.
  const std::vector<std::byte>& bias() const {
    std::call_once(once, [this] {
      kept_bias = acquire().bias;
      release();
    });
    return kept_bias;
  }

  const ironcl::checkpoint::LinearLayer* source;
  std::string problem;
  mutable std::mutex mutex;
  mutable std::size_t users = 0;
  mutable ironcl::layer::LayerWeights copies;
  mutable std::once_flag once;
  mutable std::vector<std::byte> kept_bias;
};

struct ironcl_checkpoint_t {
  explicit ironcl_checkpoint_t(ironcl::checkpoint::Checkpoint opened) : checkpoint(std::move(opened)) {
    for (const ironcl::checkpoint::LinearLayer& one : checkpoint.layers()) layers.emplace_back(one);
  }
  ironcl::checkpoint::Checkpoint checkpoint;
  std::deque<ironcl_layer_t> layers;  ///< In the checkpoint's order; they stay where they are.
};

namespace ironcl::layer::c_api {

using boundary::check_out;
using boundary::invalid;
using boundary::read_struct;
using boundary::refuse;
using boundary::require;
using boundary::write_struct;

inline ironcl_status status_of(checkpoint::ErrorKind kind) {
  switch (kind) {
    case checkpoint::ErrorKind::io:
    case checkpoint::ErrorKind::not_found:
      return IRONCL_UNAVAILABLE;
    case checkpoint::ErrorKind::unsupported:
      return IRONCL_UNSUPPORTED;
    default:
      return IRONCL_INVALID_ARGUMENT;
  }
}

/// boundary::guard, with what a checkpoint and the C++ API throw.
template <class Function>
ironcl_status guarded(ironcl_error* error, Function&& function) noexcept {
  return boundary::guard("", error, [&] {
    try {
      function();
    } catch (const checkpoint::Error& thrown) {
      refuse(status_of(thrown.kind()), "{}", thrown.what());
    } catch (const Error& thrown) {
      throw boundary::Refused(thrown.status(), thrown.what(), thrown.native_code());
    } catch (const std::overflow_error& thrown) {
      invalid("{}", thrown.what());
    }
  });
}

/// F32, F16 or BF16; `missing` for NONE.
inline numerics::DType float_type(const char* what, ironcl_dtype given, numerics::DType missing) {
  const auto type = given == IRONCL_DTYPE_NONE ? missing : static_cast<numerics::DType>(given);
  if (!numerics::is_float(type)) invalid("{} is {}; F32 (1), F16 (2) and BF16 (3) are taken", what, given);
  return type;
}

inline numerics::AccuracyClass accuracy_class(std::uint32_t weakest) {
  if (weakest > IRONCL_ACCURACY_TENSOR14) invalid("weakest_accuracy is {}; IRONCL_ACCURACY_* are known", weakest);
  return static_cast<numerics::AccuracyClass>(weakest);
}

}  // namespace ironcl::layer::c_api
