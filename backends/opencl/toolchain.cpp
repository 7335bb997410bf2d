// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/toolchain.h"

#include <stdexcept>

namespace ironcl::opencl {
namespace {

class OpenClC final : public Toolchain {
 public:
  explicit OpenClC(bool is_saved) : is_saved_(is_saved) {}

  std::string name() const override { return is_saved_ ? "opencl-c" : "opencl-c-unsaved"; }
  bool is_saved() const override { return is_saved_; }

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

 private:
  bool is_saved_;
};

}  // namespace

const Toolchain& opencl_c() {
  static const OpenClC toolchain(true);
  return toolchain;
}

const Toolchain& opencl_c_unsaved() {
  static const OpenClC toolchain(false);
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

namespace {

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

const Toolchain& ptx_sm_90a() {
  static const TwoStep toolchain("ptx-sm_90a-1", rewrite_to_sm_90a, " -cl-nv-verbose");
  return toolchain;
}

const Toolchain& ptx_at_once() {
  static const TwoStep toolchain("ptx-at-once-1", rewrite_at_once, " -cl-nv-verbose");
  return toolchain;
}

}  // namespace ironcl::opencl
