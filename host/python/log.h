// SPDX-License-Identifier: Apache-2.0
// What the library has to tell goes to Python's logging. Next door: module.cpp.
#pragma once

#include <string_view>

namespace ironcl::python {

/// One line for logging.getLogger("ironcl"), from any thread; lost where the interpreter is on its way out.
void log_line(std::string_view line);

}  // namespace ironcl::python
