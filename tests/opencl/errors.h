// SPDX-License-Identifier: Apache-2.0
// An error that a call of the backend must end with. Next door: harness.h (a problem through a device, and its
// verdict).
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "backends/interface.h"

namespace ironcl::opencl::testing {

/// Expects that `call` throws an error of `status` whose text has `text` in it.
template <class F>
void expect_error(backend::Status status, const std::string& text, F&& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; expected: " << text;
  } catch (const backend::Error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

}  // namespace ironcl::opencl::testing
