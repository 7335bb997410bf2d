// SPDX-License-Identifier: Apache-2.0
// stream_layer: prepares one fp8 layer on a device and streams batches through it, double-buffered: while one batch
// is computed, the next is copied and the last is checked. Usage: stream_layer [URI] [BATCHES], such as stream_layer
// opencl:gpu 100. Without a URI, or with "auto", the registry chooses. Exit status 0: right; 1: wrong or failed; 4:
// no device. Next door: one_plugin.c (no registry, plain C).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ironcl/ironcl.hpp>
#include <random>

namespace {

constexpr std::int64_t kM = 64, kN = 512, kK = 1024, kGroup = 128, kGroups = kK / kGroup;
constexpr unsigned kSeed = 2024;

double decode_e4m3(std::uint8_t code) {
  const int exponent = (code >> 3) & 15, fraction = code & 7;
  const double size = exponent ? std::ldexp(8 + fraction, exponent - 10) : std::ldexp(fraction, -9);
  return code & 0x80 ? -size : size;
}

// An operand of `rows` x K codes, with a power of two for each group of scale_rows x 128.
struct Operand {
  std::int64_t scale_rows;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;

  Operand(std::int64_t rows, std::int64_t scale_rows_of)
      : scale_rows(scale_rows_of), codes(rows * kK), scales(rows / scale_rows * kGroups) {}
  void fill(std::mt19937& random) {
    for (auto& code : codes) code = static_cast<std::uint8_t>(random() & 0xf7);  // no NaN
    for (auto& scale : scales) scale = std::ldexp(1.0f, static_cast<int>(random() % 8) - 8);
  }
  double at(std::int64_t row, std::int64_t k) const {
    return decode_e4m3(codes[row * kK + k]) * scales[row / scale_rows * kGroups + k / kGroup];
  }
};

// The largest error of a row of D over what each of its elements may have (docs/numerics.md).
double error_over_bound(const Operand& a, const Operand& b, const std::vector<float>& d, std::int64_t row,
                        double length) {
  double worst = 0;
  for (std::int64_t n = 0; n < kN; ++n) {
    double want = 0, magnitude = 0;
    for (std::int64_t k = 0; k < kK; ++k) {
      const double product = a.at(row, k) * b.at(n, k);
      want += product;
      magnitude += std::abs(product);
    }
    const double unit = std::ldexp(1.0, -24), terms = length + std::ceil(kK / length) + 3;
    const double ratio = std::abs(d[row * kN + n] - want) / (unit * std::abs(want) + terms * unit * magnitude);
    if (!(ratio <= worst)) worst = ratio;  // so that NaN is worst, too
  }
  return worst;
}

// What one batch needs while it is on its way. Each slot has its own queue and plan, so that slots overlap.
struct Slot {
  Operand a{kM, 1};
  std::vector<float> d = std::vector<float>(kM * kN);
  ironcl::Gemm gemm;
  ironcl::Queue queue;
  ironcl::Buffer a_buffer, a_scale_buffer, d_buffer;
  ironcl::Event done;  // empty: the slot is free

  Slot(const ironcl::Device& device, const ironcl::GemmDesc& desc)
      : gemm(device, desc),
        queue(device),
        a_buffer(device, a.codes.size()),
        a_scale_buffer(device, a.scales.size() * sizeof(float)),
        d_buffer(device, d.size() * sizeof(float)) {}

  void submit(const ironcl::Weights& weights) {
    queue.write(a_buffer, std::span(a.codes), IRONCL_HOST_STABLE_UNTIL_EVENT);
    queue.write(a_scale_buffer, std::span(a.scales), IRONCL_HOST_STABLE_UNTIL_EVENT);
    queue.run(gemm, {.m = kM, .weights = weights, .a = a_buffer, .a_scale = a_scale_buffer, .d = d_buffer});
    done = queue.read(d_buffer, std::span(d));
  }
};

int stream(const std::string& uri, int batches) {
  const ironcl::Registry registry = ironcl::Registry::discover();
  const ironcl::GemmDesc desc{.m = kM, .n = kN, .k = kK};  // e4m3fn, 1x128 and 128x128 scales, f32 out
  const ironcl::Device device = registry.select(desc, uri);

  std::mt19937 random(kSeed);
  Operand b(kN, kGroup);
  b.fill(random);
  Slot slots[2] = {Slot(device, desc), Slot(device, desc)};
  const ironcl::WeightsDesc layer{
      .n = kN, .k = kK, .data = ironcl::bytes_of(b.codes), .scales = ironcl::bytes_of(b.scales)};
  const ironcl::Weights weights(device, layer, &slots[0].gemm);
  const double length = static_cast<double>(slots[0].gemm.info().accumulation_length);

  double worst = 0, seconds = 0;
  int checked = 0;
  const auto finish = [&](Slot& slot) {
    if (!slot.done) return;
    slot.done.wait();  // throws what became of the batch, whichever of its commands failed
    slot.done.reset();
    const double ratio = error_over_bound(slot.a, b, slot.d, checked++ % kM, length);
    if (!(ratio <= worst)) worst = ratio;
  };
  const auto start = std::chrono::steady_clock::now();
  for (int batch = 0; batch < batches; ++batch) {
    Slot& slot = slots[batch % 2];
    finish(slot);
    slot.a.fill(random);
    slot.submit(weights);
  }
  for (int batch = batches; batch < batches + 2; ++batch) finish(slots[batch % 2]);
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  std::printf(
      "%s (%s), %s: %d batches of %dx%d:%dx%d in %.1f ms of host time, %.2f GFLOP/s with copies and checks; "
      "a row of each checked, largest error %.3f of the bound\n",
      device.uri().c_str(), device.name().c_str(), slots[0].gemm.info().variant, batches, int{kM}, int{kK}, int{kK},
      int{kN}, seconds * 1e3, 2e-9 * kM * kN * kK * batches / seconds, worst);
  return worst <= 1 && checked == batches ? 0 : 1;
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
