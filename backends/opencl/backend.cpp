// SPDX-License-Identifier: Apache-2.0
// Finds the devices of all platforms. Next door: device.cpp (one device).
#include "backends/opencl/backend.h"

namespace ironcl::opencl {
namespace {

class OpenClBackend final : public backend::Backend {
 public:
  std::vector<std::shared_ptr<backend::Device>> devices() override { return {}; }
};

}  // namespace

std::unique_ptr<backend::Backend> make_backend(const Config&, backend::Log*) {
  return std::make_unique<OpenClBackend>();
}

}  // namespace ironcl::opencl
