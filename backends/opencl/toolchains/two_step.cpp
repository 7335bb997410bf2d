// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/toolchains/two_step.h"

#include <stdexcept>

namespace ironcl::opencl {

cl::Program TwoStep::build(const BuildRequest& request) const {
  cl::Program first(request.context, request.source);
  build_or_throw(first, request.device, request.options);
  const std::vector<unsigned char> binary = binary_of(first);
  if (binary.empty()) throw BuildFailure{CL_INVALID_BINARY, "the driver gives no binary of a program that it built"};
  std::string text;
  try {
    text = rewrite_({binary.begin(), binary.end()});
  } catch (const std::invalid_argument& error) {
    throw BuildFailure{CL_INVALID_BINARY, error.what()};
  }
  cl::Program second(request.context, {request.device},
                     cl::Program::Binaries{std::vector<unsigned char>(text.begin(), text.end())});
  build_or_throw(second, request.device, options_);
  return second;
}

cl::Program TwoStep::load(const BuildRequest& request, const std::vector<unsigned char>& binary) const {
  cl::Program program(request.context, {request.device}, cl::Program::Binaries{binary});
  compile(program, request.device, options_);
  return program;
}

}  // namespace ironcl::opencl
