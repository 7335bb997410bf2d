// SPDX-License-Identifier: Apache-2.0
#include "tests/tuning/fake_device.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "tests/plugins/host_memory.h"

namespace ironcl::tuning_test {

Script& script() {
  static Script instance;
  return instance;
}

namespace {

using namespace backend;
using test::address_of;
using test::DoneEvent;
using test::HostWeights;

std::string option(const GemmDesc& desc, const std::string& name, const std::string& fallback) {
  for (const auto& [key, value] : desc.options)
    if (key == name) return value;
  return fallback;
}

class FakeGemm final : public Gemm {
 public:
  explicit FakeGemm(const GemmDesc& desc)
      : desc_(desc),
        variant_(option(desc, "variant", "plain")),
        tile_(std::stoi(option(desc, "tile", "1"))),
        unroll_(std::stoi(option(desc, "unroll", "1"))) {
    ++script().plans[variant_ + " " + std::to_string(tile_) + " " + std::to_string(unroll_)];
    script().seconds += script().plan_seconds;
    if (script().sleeps) std::this_thread::sleep_for(std::chrono::duration<double>(script().plan_seconds));
    if (variant_ == "broken") throw Error(Status::build_failed, "the compiler said no");
    if (variant_ == "refused") throw Error(Status::unsupported, "not on this device");
  }
  GemmInfo info() const override {
    return {variant_ == "weak" ? AccuracyClass::tensor14 : AccuracyClass::f32, 128, 0, variant_, ""};
  }

  std::shared_ptr<Event> enqueue(const std::shared_ptr<Queue>&, const GemmArgs& args) override {
    const auto& weights = static_cast<const HostWeights&>(*args.weights);
    const auto result = numerics::oracle(test::a_of(desc_, args), test::b_of(desc_, weights, weights.scales),
                                         DType::none, nullptr, numerics::AccuracyClass::f32, 1);
    std::vector<float> d(result.value.begin(), result.value.end());
    ++calls_;
    if (variant_ == "planted" || (variant_ == "flaky" && calls_ > 3)) d[d.size() / 2] += 1;
    numerics::encode(desc_.d, d, address_of(args.d));
    script().seconds += 1e-9 * time();
    return std::make_shared<DoneEvent>(0, static_cast<std::uint64_t>(time()));
  }

 private:
  double time() const {
    if (variant_ == "planted") return 10;
    if (variant_ == "flaky") return 20;
    if (variant_ == "weak") return 5;
    return 8000.0 / tile_ + 500 * std::abs(std::log2(unroll_) - 1);
  }

  GemmDesc desc_;
  std::string variant_;
  int tile_, unroll_, calls_ = 0;
};

std::string candidate(const std::string& variant, int tile, int unroll, const std::string& accuracy = "f32") {
  std::string options = "\"tile\": \"" + std::to_string(tile) + "\"";
  if (variant == "plain") options += ", \"unroll\": \"" + std::to_string(unroll) + "\"";
  return "{\"variant\": \"" + variant + "\", \"options\": {" + options +
         "}, \"local_memory_bytes\": 0, \"layout\": \"row_major\", \"accuracy_class\": \"" + accuracy + "\"}";
}

class FakeDevice final : public test::HostDevice {
 public:
  FakeDevice() : HostDevice("Fake (to be tuned)", "fake 1.0") {}
  Support supports(const GemmDesc&) override { return {}; }
  std::string query(std::string_view key, const GemmDesc* desc) override {
    if (key != "candidates" || desc == nullptr) throw Error(Status::unimplemented, "known is candidates");
    std::string all;
    for (const int tile : {1, 2, 4, 8})
      for (const int unroll : {1, 2, 4}) all += candidate("plain", tile, unroll) + ", ";
    for (const char* variant : {"planted", "flaky", "broken", "refused"}) all += candidate(variant, 1, 1) + ", ";
    return "{\"candidates\": [" + all + candidate("weak", 1, 1, "tensor14") +
           "], \"dropped\": [{\"why\": \"too large\", \"count\": 7}], \"rule_of_thumb\": " +
           candidate("plain", 1, 1) +
           ", \"devices\": [\"Fake_to_be_tuned\", \"cpu\"], \"dtype\": \"fp8_w8a8\", \"compute_units\": 2}";
  }
  std::shared_ptr<Gemm> create_gemm(const GemmDesc& desc) override { return std::make_shared<FakeGemm>(desc); }
};

class FakeBackend final : public Backend {
 public:
  std::vector<std::shared_ptr<Device>> devices() override { return {std::make_shared<FakeDevice>()}; }
};

}  // namespace

std::unique_ptr<Backend> make_backend(const Options&, Log*) { return std::make_unique<FakeBackend>(); }

}  // namespace ironcl::tuning_test
