// SPDX-License-Identifier: Apache-2.0
// The list of devices: one.
#include "backends/ironwood/backend.h"

#include <vector>

#include "backends/ironwood/device.h"

namespace ironcl::ironwood {
namespace {

class IronwoodBackend final : public backend::Backend {
 public:
  explicit IronwoodBackend(backend::Log* log) : device_(std::make_shared<ModelDevice>(log)) {}

  std::vector<std::shared_ptr<backend::Device>> devices() override { return {device_}; }

 private:
  std::shared_ptr<ModelDevice> device_;
};

}  // namespace

std::unique_ptr<backend::Backend> make_backend(backend::Log* log) { return std::make_unique<IronwoodBackend>(log); }

}  // namespace ironcl::ironwood
