// SPDX-License-Identifier: Apache-2.0
// A form of activations that only a test knows: A transposed, and the step that brings it there.
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl::testing {

ActivationFormPtr transposed_form();

}  // namespace ironcl::opencl::testing
