// SPDX-License-Identifier: Apache-2.0
// stream_layer: prepares one fp8 layer on a device and streams batches through it, double-buffered: while one batch
// is computed, the next is copied and the last is checked. Usage: stream_layer [URI] [BATCHES], such as stream_layer
// opencl:gpu 100. Without a URI, or with "auto", the registry chooses. Exit status 0: right; 1: wrong or failed; 4:
// no device. Next door: one_plugin.c (no registry, plain C).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ironcl/ironcl.hpp>

namespace {

constexpr std::int64_t kM = 64, kN = 512, kK = 1024, kGroup = 128, kGroups = kK / kGroup;

// Codes of e4m3fn that are all 1, with a scale for each row of A and one for all of B: D[m, n] is K times both.
constexpr std::uint8_t kOne = 0x38;
constexpr float kScaleOfB = 0.25f;

// What one batch needs while it is on its way. Each slot has its own queue and plan, so that slots overlap.
struct Slot {
  std::vector<std::uint8_t> a = std::vector<std::uint8_t>(kM * kK, kOne);
  std::vector<float> a_scale = std::vector<float>(kM * kGroups), d = std::vector<float>(kM * kN);
  ironcl::Gemm gemm;
  ironcl::Queue queue;
  ironcl::Buffer a_buffer, a_scale_buffer, d_buffer;
  ironcl::Event done;  // empty: the slot is free

  Slot(const ironcl::Device& device, const ironcl::GemmDesc& desc)
      : gemm(device, desc),
        queue(device),
        a_buffer(device, a.size()),
        a_scale_buffer(device, a_scale.size() * sizeof(float)),
        d_buffer(device, d.size() * sizeof(float)) {}

  void submit(const ironcl::Weights& weights) {
    queue.write(a_buffer, std::span(a), IRONCL_HOST_STABLE_UNTIL_EVENT);
    queue.write(a_scale_buffer, std::span(a_scale), IRONCL_HOST_STABLE_UNTIL_EVENT);
    queue.run(gemm, {.m = kM, .weights = weights, .a = a_buffer, .a_scale = a_scale_buffer, .d = d_buffer});
    done = queue.read(d_buffer, std::span(d));
  }

  void fill(int batch) {
    for (std::size_t i = 0; i < a_scale.size(); ++i)
      a_scale[i] = static_cast<float>(batch + static_cast<int>(i / kGroups));
  }
  bool right() const {
    for (std::size_t i = 0; i < d.size(); ++i)
      if (d[i] != kK * a_scale[i / kN * kGroups] * kScaleOfB) return false;
    return true;
  }
};

int stream(const std::string& uri, int batches) {
  const ironcl::Registry registry = ironcl::Registry::discover();
  const ironcl::GemmDesc desc{.m = kM, .n = kN, .k = kK};  // e4m3fn, 1x128 and 128x128 scales, f32 out
  const ironcl::Device device = registry.select(desc, uri);

  const std::vector<std::uint8_t> b(kN * kK, kOne);
  const std::vector<float> b_scale(kN / kGroup * kGroups, kScaleOfB);
  Slot slots[2] = {Slot(device, desc), Slot(device, desc)};
  const ironcl::WeightsDesc layer{.n = kN, .k = kK, .data = ironcl::bytes_of(b), .scales = ironcl::bytes_of(b_scale)};
  const ironcl::Weights weights(device, layer, &slots[0].gemm);

  int right = 0;
  const auto finish = [&](Slot& slot) {
    if (!slot.done) return;
    slot.done.wait();  // throws what became of the batch, whichever of its commands failed
    slot.done.reset();
    right += slot.right() ? 1 : 0;
  };
  const auto start = std::chrono::steady_clock::now();
  for (int batch = 0; batch < batches; ++batch) {
    Slot& slot = slots[batch % 2];
    finish(slot);
    slot.fill(batch + 1);
    slot.submit(weights);
  }
  for (int batch = batches; batch < batches + 2; ++batch) finish(slots[batch % 2]);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  std::printf(
      "%s (%s), %s: %d of %d batches of %dx%d:%dx%d right, in %.1f ms of host time, %.2f GFLOP/s with copies and "
      "checks\n",
      device.uri().c_str(), device.name().c_str(), slots[0].gemm.info().variant, right, batches, int{kM}, int{kK},
      int{kK}, int{kN}, seconds * 1e3, 2e-9 * kM * kN * kK * batches / seconds);
  return right == batches ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return stream(count > 1 ? arguments[1] : "auto", count > 2 ? std::max(1, std::atoi(arguments[2])) : 16);
  } catch (const ironcl::Error& error) {
    std::fprintf(stderr, "stream_layer: %s\n", error.what());
    return error.status() == IRONCL_UNAVAILABLE ? 4 : 1;
  }
}
