// SPDX-License-Identifier: Apache-2.0
#include "tests/opencl/harness.h"

#include <cstdlib>

#include "backends/opencl/device.h"

namespace ironcl::opencl::testing {

namespace {

std::string& reason() {
  static std::string text;
  return text;
}

bool wanted(const backend::DeviceProps& props, std::size_t index) {
  const char* value = std::getenv("IRONCL_OPENCL_TEST_DEVICE");
  if (value == nullptr || *value == '\0') return true;
  const std::string text = value;
  const auto colon = text.find(':');
  if (colon == std::string::npos) return text == std::to_string(index);
  return props.driver.find(text.substr(0, colon)) != std::string::npos &&
         props.name.find(text.substr(colon + 1)) != std::string::npos;
}

}  // namespace

Made make(const Config& config, backend::Log* log) {
  Made made;
  made.backend = make_backend(config, log);
  try {
    auto all = made.backend->devices();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (wanted(all[i]->props(), i)) made.devices.push_back(all[i]);
    }
    if (made.devices.empty()) reason() = "no OpenCL device is selected; see IRONCL_OPENCL_TEST_DEVICE";
  } catch (const backend::Error& error) {
    reason() = error.what();
  }
  return made;
}

const std::vector<std::shared_ptr<backend::Device>>& devices() {
  // Never destroyed: drivers may already be gone when static objects are.
  static const Made* made = [] {
    Config config{.trial_program = IRONCL_TRIAL_PROGRAM};
    return new Made(make(config));
  }();
  return made->devices;
}

std::vector<std::shared_ptr<backend::Device>> tensor_cores() {
  std::vector<std::shared_ptr<backend::Device>> all;
  for (const auto& device : devices())
    if (dynamic_cast<Device&>(*device).context()->features.ptx_sm_90) all.push_back(device);
  return all;
}

std::string why_no_devices() { return reason(); }

void on_every_context(const std::function<void(const Context&)>& expect) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  for (const auto& device : devices()) expect(*dynamic_cast<Device&>(*device).context());
}

void expect_lacks(backend::Device& device, const Case& c, const std::string& says) {
  const backend::Support no = device.supports(c.desc());
  EXPECT_EQ(no.reason, backend::Reason::device_feature) << c.line();
  EXPECT_NE(no.text.find(says), std::string::npos) << no.text;
}

backend::Options quick(const std::string& variant) {
  backend::Options options{{"variant", variant}};
  if (variant == "gemm_tiled")
    options.insert(options.end(), {{"tile_m", "16"}, {"tile_n", "32"}, {"tile_k", "16"}, {"work_m", "2"}});
  if (variant == "gemm_skinny") options.insert(options.end(), {{"tile_m", "2"}, {"lanes", "4"}, {"slices", "2"}});
  return options;
}

}  // namespace ironcl::opencl::testing
