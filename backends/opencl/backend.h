// SPDX-License-Identifier: Apache-2.0
// Creates the OpenCL backend, for a plugin or a test. Next door: ../interface.h (what a backend does).
#pragma once

#include <memory>
#include <vector>

#include "backends/interface.h"
#include "backends/opencl/config.h"

namespace ironcl::opencl {

/// The tables of cl/tuned/opencl, built in.
std::vector<TunedTable> embedded_tables();

/// The backend over every OpenCL platform of the machine. Opens no driver before devices() is called.
/// `log` may be null, is borrowed, and outlives the backend and all its objects.
std::unique_ptr<backend::Backend> make_backend(const Config& config, backend::Log* log);

}  // namespace ironcl::opencl
