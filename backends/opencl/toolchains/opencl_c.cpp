// SPDX-License-Identifier: Apache-2.0
// OpenCL C through the driver's compiler.
#include "backends/opencl/toolchain.h"

namespace ironcl::opencl {
namespace {

class OpenClC final : public Toolchain {
 public:
  std::string name() const override { return "opencl-c"; }

  cl::Program build(const BuildRequest& request) const override {
    cl::Program program(request.context, request.source);
    build_or_throw(program, request.device, request.options);
    return program;
  }

  cl::Program load(const BuildRequest& request, const std::vector<unsigned char>& binary) const override {
    cl::Program program(request.context, {request.device}, cl::Program::Binaries{binary});
    compile(program, request.device, request.options);
    return program;
  }
};

}  // namespace

const Toolchain& opencl_c() {
  static const OpenClC toolchain;
  return toolchain;
}

void compile(const cl::Program& program, const cl::Device& device, const std::string& options) {
  const cl_device_id id = device();
  const cl_int code = clBuildProgram(program(), 1, &id, options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) throw cl::Error(code, "clBuildProgram");
}

void build_or_throw(const cl::Program& program, const cl::Device& device, const std::string& options) {
  try {
    compile(program, device, options);
  } catch (const cl::Error& error) {
    std::string log;
    try {
      log = program.getBuildInfo<CL_PROGRAM_BUILD_LOG>(device);
    } catch (const cl::Error&) {
      log = "(the driver gives no build log)";
    }
    throw BuildFailure{error.err(), log};
  }
}

std::vector<unsigned char> binary_of(const cl::Program& program) {
  for (std::vector<unsigned char>& binary : program.getInfo<CL_PROGRAM_BINARIES>())
    if (!binary.empty()) return std::move(binary);
  return {};
}

}  // namespace ironcl::opencl
