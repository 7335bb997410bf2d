// SPDX-License-Identifier: Apache-2.0
// What calls that must fail throw. E is the error's class, which a test includes.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace ironcl {

/// The text of the E that `call` throws; empty where it returns.
template <class E = std::exception, class F>
std::string error_of(F&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return {};
}

/// Expects that `call` throws an E of `status` whose text has `text` in it. `file`, `line`: the caller's, as
/// std::source_location has them, which clang 14 lacks.
template <class E, class Status, class F>
void expect_error(Status status, const std::string& text, F&& call, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  const ::testing::ScopedTrace trace(file, line, text);
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; expected: " << text;
  } catch (const E& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

}  // namespace ironcl
