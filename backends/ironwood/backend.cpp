// SPDX-License-Identifier: Apache-2.0
// The list of devices: one.
#include "backends/ironwood/backend.h"

#include <vector>

namespace ironcl::ironwood {
namespace {

class IronwoodBackend final : public backend::Backend {
 public:
  std::vector<std::shared_ptr<backend::Device>> devices() override { return {}; }
};

}  // namespace

std::unique_ptr<backend::Backend> make_backend(backend::Log* log) {
  (void)log;
  return std::make_unique<IronwoodBackend>();
}

}  // namespace ironcl::ironwood
