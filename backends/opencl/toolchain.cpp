// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/toolchain.h"

namespace ironcl::opencl {
namespace {

/// Builds `program`. Throws cl::Error where that fails. (The bindings' own build() asks for the log after a success
/// too, and answers with the code of that question.)
void compile(const cl::Program& program, const cl::Device& device, const std::string& options) {
  const cl_device_id id = device();
  const cl_int code = clBuildProgram(program(), 1, &id, options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) throw cl::Error(code, "clBuildProgram");
}

/// The same, with the driver's log in a BuildFailure.
void compile_or_say_why(const cl::Program& program, const cl::Device& device, const std::string& options) {
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

/// Tells each kernel with a required work-group size how many of those a multiprocessor holds.
void hold_at_once(std::string& ptx, std::string_view work_groups) {
  constexpr std::string_view kRequired = ".reqntid ";
  for (std::size_t at = 0; (at = ptx.find(kRequired, at)) != std::string::npos;) {
    at = ptx.find('\n', at);
    if (at == std::string::npos) break;
    ptx.insert(at, "\n.minnctapersm " + std::string(work_groups));
  }
}

}  // namespace

cl::Program Toolchain::build(const BuildRequest& request) const {
  cl::Program program(request.context, request.source);
  compile_or_say_why(program, request.device, rewrite != nullptr ? request.options : request.options + options);
  if (rewrite == nullptr) return program;
  const std::vector<unsigned char> binary = binary_of(program);
  if (binary.empty()) throw BuildFailure{CL_INVALID_BINARY, "the driver gives no binary of a program that it built"};
  std::string text;
  try {
    text = rewrite({binary.begin(), binary.end()});
  } catch (const std::invalid_argument& error) {
    throw BuildFailure{CL_INVALID_BINARY, error.what()};
  }
  cl::Program second(request.context, {request.device},
                     cl::Program::Binaries{std::vector<unsigned char>(text.begin(), text.end())});
  compile_or_say_why(second, request.device, options);
  return second;
}

cl::Program Toolchain::load(const BuildRequest& request, const std::vector<unsigned char>& binary) const {
  cl::Program program(request.context, {request.device}, cl::Program::Binaries{binary});
  compile(program, request.device, rewrite != nullptr ? options : request.options + options);
  return program;
}

std::vector<unsigned char> binary_of(const cl::Program& program) {
  for (std::vector<unsigned char>& binary : program.getInfo<CL_PROGRAM_BINARIES>())
    if (!binary.empty()) return std::move(binary);
  return {};
}

// An OpenCL compiler that targets sm_90 refuses wgmma and setmaxnreg, which belong to sm_90a; the same driver's
// assembler takes them. Operands are substituted in comments as well, so register allocation has already seen them.
std::string rewrite_to_sm_90a(const std::string& binary) {
  constexpr std::string_view kTarget = ".target sm_90", kMarker = "//sm_90a ";
  std::string ptx = binary.substr(0, binary.find('\0'));  // The driver's text ends in zeros.
  const std::size_t target = ptx.find(kTarget);
  if (target == std::string::npos)
    throw std::invalid_argument("the driver's binary is not PTX for sm_90: there is no line \".target sm_90\"");
  const std::size_t behind = target + kTarget.size();
  if (behind >= ptx.size() || (ptx[behind] != 'a' && (ptx[behind] < '0' || ptx[behind] > '9')))
    ptx.insert(behind, "a");
  if (ptx.compare(target, kTarget.size() + 1, ".target sm_90a") != 0)
    throw std::invalid_argument("the driver's PTX is not for sm_90 but for a later one");
  for (std::size_t at = 0; (at = ptx.find(kMarker, at)) != std::string::npos;) ptx.erase(at, kMarker.size());
  hold_at_once(ptx, "1");
  return ptx + '\0';
}

std::string rewrite_at_once(const std::string& binary) {
  constexpr std::string_view kMarker = "//at_once ";
  const std::size_t at = binary.find(kMarker);
  if (at == std::string::npos) return binary;
  std::string ptx = binary.substr(0, binary.find('\0'));
  hold_at_once(ptx, binary.substr(at + kMarker.size(), 1));
  return ptx + '\0';
}

}  // namespace ironcl::opencl
