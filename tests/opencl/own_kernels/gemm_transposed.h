// SPDX-License-Identifier: Apache-2.0
// A variant that only a test knows, made as any other is: a declaration, a .cl file, a form, a toolchain.
#pragma once

#include <atomic>

#include "backends/opencl/toolchain.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl::testing {

Variant gemm_transposed();
Variant gemm_transposed_wrong();    ///< Its kernel is wrong in one element: its trial finds that.
Variant gemm_transposed_weak();     ///< Of class tensor14.
Variant gemm_transposed_failing();  ///< Its second launch fails where m is 2.

/// How often its toolchain has rewritten a program.
std::atomic<int>& rewritings();

}  // namespace ironcl::opencl::testing
