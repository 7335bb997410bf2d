// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/toolchains/unsaved.h"

namespace ironcl::opencl {
namespace {

class Unsaved final : public Toolchain {
 public:
  std::string name() const override { return "opencl-c-unsaved"; }
  bool is_saved() const override { return false; }
  cl::Program build(const BuildRequest& request) const override { return opencl_c().build(request); }
  cl::Program load(const BuildRequest& request, const std::vector<unsigned char>& binary) const override {
    return opencl_c().load(request, binary);
  }
};

}  // namespace

const Toolchain& opencl_c_unsaved() {
  static const Unsaved toolchain;
  return toolchain;
}

}  // namespace ironcl::opencl
