// SPDX-License-Identifier: Apache-2.0
// A plugin with one right device and several that are wrong in one way each, for the tests of the command. It
// computes in host memory, through the adapter; ../compare_test.cpp has what the command must say of each device.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/interface.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "plugins/adapter/plugin_definition.h"
#include "tests/plugins/host_memory.h"

namespace {

using namespace ironcl::backend;
using ironcl::test::address_of;
using ironcl::test::DoneEvent;
using ironcl::test::HostWeights;
namespace numerics = ironcl::numerics;

enum class Fault {
  none,            // toy:0
  one_scale_off,   // toy:1: the last scale of B is doubled
  one_code_off,    // toy:2: code [0, 5] of the quantised activations is another one
  fails_to_run,    // toy:3: the call fails
  refuses,         // toy:4: supports nothing
  writes_nothing,  // toy:5: D stays as it was
  gives_nan,       // toy:6: the last element of D is NaN
  in_14_bits,      // toy:7: right; where class tensor14 is allowed, as far off as that class may be and f32 may not
};
constexpr std::pair<Fault, const char*> kDevices[] = {
    {Fault::none, "right"},
    {Fault::one_scale_off, "doubles one scale"},
    {Fault::one_code_off, "quantises one element otherwise"},
    {Fault::fails_to_run, "fails to run"},
    {Fault::refuses, "refuses everything"},
    {Fault::writes_nothing, "writes nothing"},
    {Fault::gives_nan, "gives one NaN"},
    {Fault::in_14_bits, "may add in 14 bits"},
};

/// Multiplies a scale by two: one more in the exponent.
void double_scale(DType type, std::byte* scale) {
  if (type == DType::bf16) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, scale, sizeof bits);
    bits = static_cast<std::uint16_t>(bits + (1u << 7));
    std::memcpy(scale, &bits, sizeof bits);
  } else {
    float value = 0;
    std::memcpy(&value, scale, sizeof value);
    value *= 2;
    std::memcpy(scale, &value, sizeof value);
  }
}

/// A line for each matrix quantised, in the file that the environment names, if it does.
void note_quantisation() {
  if (const char* path = std::getenv("TOY_QUANTISATIONS")) std::ofstream(path, std::ios::app) << "a matrix\n";
}

class ToyGemm final : public Gemm {
 public:
  ToyGemm(const GemmDesc& desc, Fault fault) : desc_(desc), fault_(fault) {}
  GemmInfo info() const override {
    return {weaker() ? desc_.weakest_accuracy : numerics::AccuracyClass::f32, 128, 0, "toy",
            "fault=" + std::to_string(int(fault_))};
  }

  std::shared_ptr<Event> enqueue(const std::shared_ptr<Queue>&, const GemmArgs& args) override {
    if (fault_ == Fault::fails_to_run) throw Error(Status::device_lost, "the toy fell off the table; put it back");
    const auto& weights = static_cast<const HostWeights&>(*args.weights);
    std::vector<std::byte> b_scales = weights.scales;
    if (fault_ == Fault::one_scale_off) {
      double_scale(desc_.b_scale.dtype, b_scales.data() + b_scales.size() - numerics::size_of(desc_.b_scale.dtype));
    }
    numerics::Operand a = ironcl::test::a_of(desc_, args);
    std::vector<std::uint8_t> codes;
    std::vector<float> scales;
    if (desc_.a_source != DType::none) {
      codes.resize(static_cast<std::size_t>(args.m * desc_.k));
      const auto grid = desc_.a_scale.grid;
      scales.resize(static_cast<std::size_t>(grid.scale_rows(args.m) * grid.scale_cols(desc_.k)));
      if (desc_.a_quantizer.given)
        numerics::decode(desc_.a_scale.dtype, static_cast<const std::byte*>(a.scales), std::span<float>(scales));
      numerics::quantize(desc_.a_source, a.data, args.m, desc_.k, desc_.lda, desc_.a, grid, desc_.a_quantizer, codes,
                         scales);
      note_quantisation();
      if (fault_ == Fault::one_code_off && codes.size() > 5) codes[5] ^= 1;
      a.data = codes.data();
      a.ld = desc_.k;
      a.scales = scales.data();
      a.scale_ld = grid.scale_cols(desc_.k);
      if (args.a_quantized && !codes.empty()) {
        note_quantisation();  // Backends make those that are shown beside those that are multiplied.
        std::memcpy(address_of(args.a_quantized), codes.data(), codes.size());
        std::memcpy(address_of(args.a_quantized_scale), scales.data(), scales.size() * sizeof(float));
      }
    }
    const auto result =
        numerics::oracle(a, ironcl::test::b_of(desc_, weights, b_scales), desc_.bias, address_of(args.bias));
    std::vector<float> d(result.value.begin(), result.value.end());
    if (fault_ == Fault::gives_nan && !d.empty()) d.back() = std::numeric_limits<float>::quiet_NaN();
    if (weaker())
      for (std::size_t i = 0; i < d.size(); ++i) d[i] += static_cast<float>(result.magnitude[i] * 0x1p-13);
    if (fault_ != Fault::writes_nothing && !d.empty()) numerics::encode(desc_.d, d, address_of(args.d));
    return std::make_shared<DoneEvent>(1000, 3500);
  }

 private:
  bool weaker() const {
    return fault_ == Fault::in_14_bits && desc_.weakest_accuracy != numerics::AccuracyClass::f32;
  }

  GemmDesc desc_;
  Fault fault_;
};

class ToyDevice final : public ironcl::test::HostDevice {
 public:
  ToyDevice(Fault fault, const char* name) : HostDevice(std::string("toy that ") + name, "none"), fault_(fault) {}
  Support supports(const GemmDesc&) override {
    Support support;
    if (fault_ == Fault::refuses) {
      support.reason = Reason::shape;
      support.text = "this toy multiplies nothing; ask another one";
    }
    return support;
  }
  /// What a bench sets times against, the same on any machine: toy:0's alone, so that others show rows without it.
  /// TOY_ANSWER: what every query answers.
  std::string query(std::string_view key, const GemmDesc*) override {
    if (const char* answer = std::getenv("TOY_ANSWER"); answer != nullptr) return answer;
    if (fault_ == Fault::none && key == "ceilings") return R"({"fma_flops": 1e11, "copy_bytes_per_s": 1e10})";
    if (fault_ == Fault::none && key == "fma_flops") return "5e10";
    throw Error(Status::unimplemented, "the toy has no facts");
  }
  std::shared_ptr<Gemm> create_gemm(const GemmDesc& desc) override {
    if (const Support support = supports(desc); support.reason != Reason::none)
      throw Error(Status::unsupported, support.text);
    return std::make_shared<ToyGemm>(desc, fault_);
  }

 private:
  Fault fault_;
};

class ToyBackend final : public Backend {
 public:
  std::vector<std::shared_ptr<Device>> devices() override {
    std::vector<std::shared_ptr<Device>> all;
    for (const auto& [fault, name] : kDevices) all.push_back(std::make_shared<ToyDevice>(fault, name));
    return all;
  }
};

std::unique_ptr<Backend> make_backend(const Options& options, Log*) {
  ironcl::adapter::check_option_names(options, {});
  return std::make_unique<ToyBackend>();
}

}  // namespace

IRONCL_DEFINE_PLUGIN("toy", make_backend);
