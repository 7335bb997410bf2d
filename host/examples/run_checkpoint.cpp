// SPDX-License-Identifier: Apache-2.0
// run_checkpoint: what an inference engine does with an fp8 checkpoint. Opens a folder, plans and prepares every
// layer that can be used, then runs them one after another on bf16 activations, static scales too, and checks a row
// of each. Usage: run_checkpoint FOLDER [URI] [TOKENS]. Exit status 0: right; 1: wrong or failed; 3: the checkpoint
// cannot be read; 4: no device. Next door: stream_layer.cpp (one layer, double-buffered).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ironcl/checkpoint.hpp>
#include <optional>

namespace {

// A layer, ready to be called: what an engine keeps of it.
struct Ready {
  ironcl::Layer layer;
  ironcl::GemmDesc desc;
  ironcl::Gemm gemm;
  ironcl::Weights weights;
  ironcl::Buffer x, x_scale, bias, y;
  std::vector<std::uint16_t> out;

  Ready(const ironcl::Device& device, ironcl::Queue& queue, const ironcl::Layer& of, const ironcl::GemmDesc& problem)
      : layer(of),
        desc(problem),
        gemm(device, problem),
        weights(layer.prepare(device, &gemm)),
        x(device, static_cast<std::uint64_t>(desc.m * desc.k) * 2),
        y(device, static_cast<std::uint64_t>(desc.m * desc.n) * 2),
        out(static_cast<std::size_t>(desc.m * desc.n)) {
    if (layer.is_static()) {
      x_scale = ironcl::Buffer(device, sizeof(float));
      queue.write(x_scale, std::span(&layer.info().input_scale, 1));
    }
    if (layer.bias().empty()) return;
    bias = ironcl::Buffer(device, layer.bias().size());
    queue.write(bias, layer.bias());
  }

  void run(ironcl::Queue& queue, const std::vector<std::uint16_t>& values) {
    queue.write(x, std::span(values));
    ironcl::GemmArgs args{.m = desc.m, .weights = weights, .a = x, .d = y};
    if (x_scale) args.a_scale = x_scale;
    if (bias) args.bias = bias;
    queue.run(gemm, args);
    queue.read(y, std::span(out)).wait();
  }
};

float of_bf16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

std::vector<std::uint16_t> activations(std::int64_t m, std::int64_t k) {
  std::vector<std::uint16_t> x(static_cast<std::size_t>(m * k));
  std::uint32_t state = 2024;
  for (auto& bits : x) {
    state = state * 1664525u + 1013904223u;  // -1, -0.5, 0.5 or 1: bf16 0xbf80, 0xbf00, 0x3f00, 0x3f80
    bits = static_cast<std::uint16_t>((state >> 31 << 15) | (state >> 30 & 1 ? 0x3f80u : 0x3f00u));
  }
  return x;
}

float decode(ironcl_dtype type, std::uint8_t code) {
  if (type == IRONCL_I8) return static_cast<float>(static_cast<std::int8_t>(code));
  const int fraction_bits = type == IRONCL_F8_E5M2 ? 2 : 3, bias = type == IRONCL_F8_E5M2 ? 15 : 7;
  const int exponent = (code & 0x7f) >> fraction_bits, fraction = code & ((1 << fraction_bits) - 1);
  const int one = 1 << fraction_bits;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), 1 - bias - fraction_bits)
                                   : std::ldexp(static_cast<float>(one + fraction), exponent - bias - fraction_bits);
  return code & 0x80 ? -size : size;
}

float scale_at(const ironcl_weights_desc& w, std::int64_t row, std::int64_t col) {
  const std::int64_t cols = w.scale.group_cols == 0 ? 1 : (w.k + w.scale.group_cols - 1) / w.scale.group_cols;
  const std::int64_t at = (w.scale.group_rows == 0 ? 0 : row / w.scale.group_rows) * cols +
                          (w.scale.group_cols == 0 ? 0 : col / w.scale.group_cols);
  if (w.scale.dtype == IRONCL_F32) return static_cast<const float*>(w.scales)[at];
  if (w.scale.dtype == IRONCL_BF16) return of_bf16(static_cast<const std::uint16_t*>(w.scales)[at]);
  return NAN;  // f16 and e8m0 are left to the library's own tests
}

// How far the first row is from the same layer without quantised activations, relative: a few percent is fp8.
double error_of_a_row(const Ready& ready, const std::vector<std::uint16_t>& x) {
  auto w = ironcl::detail::sized<ironcl_weights_desc>();
  ironcl::detail::check(ironcl_layer_weights, ready.layer.handle(), &w);
  double wrong = 0, size = 0;
  for (std::int64_t n = 0; n < w.n; ++n) {
    double want = 0;
    for (std::int64_t k = 0; k < w.k; ++k)
      want += double{of_bf16(x[static_cast<std::size_t>(k)])} *
              decode(w.dtype, static_cast<const std::uint8_t*>(w.data)[n * w.k + k]) * scale_at(w, n, k);
    if (ready.desc.bias == IRONCL_BF16)
      want += of_bf16(reinterpret_cast<const std::uint16_t*>(ready.layer.bias().data())[n]);
    else if (ready.desc.bias == IRONCL_F32)
      want += reinterpret_cast<const float*>(ready.layer.bias().data())[n];
    const double got = of_bf16(ready.out[static_cast<std::size_t>(n)]);
    wrong += (got - want) * (got - want);
    size += want * want;
  }
  return std::sqrt(wrong / size);
}

int run(const char* folder, const std::string& uri, std::int64_t tokens) {
  std::optional<ironcl::Checkpoint> opened;
  try {
    opened.emplace(folder);
  } catch (const ironcl::Error& error) {
    std::fprintf(stderr, "run_checkpoint: %s\n", error.what());
    return 3;
  }
  const ironcl::Registry registry = ironcl::Registry::discover();
  std::optional<ironcl::Device> device;
  std::optional<ironcl::Queue> queue;
  std::vector<Ready> model;
  std::uint64_t in_file = 0, on_device = 0;
  for (const ironcl::Layer& layer : opened->layers()) {
    if (!layer.usable()) {
      std::fprintf(stderr, "left out: %s\n", layer.problem_text().c_str());
      continue;
    }
    const ironcl::GemmDesc desc = layer.problem({.m = tokens});
    if (!device) {
      device = registry.select(desc, uri);
      queue.emplace(*device);
    }
    const Ready& ready = model.emplace_back(*device, *queue, layer, desc);
    in_file += layer.info().bytes;
    on_device += ready.weights.info().device_bytes;
  }
  if (model.empty()) {
    std::fprintf(stderr, "run_checkpoint: %s: no layer can be used\n", folder);
    return 3;
  }
  std::printf("%zu layers on %s (%s): %.2f MB in the file, %.2f MB prepared\n", model.size(), device->uri().c_str(),
              device->name().c_str(), static_cast<double>(in_file) / 1e6, static_cast<double>(on_device) / 1e6);
  double worst = 0;
  for (Ready& ready : model) {
    const std::vector<std::uint16_t> x = activations(tokens, ready.desc.k);
    ready.run(*queue, x);
    const double error = error_of_a_row(ready, x);
    if (!(error <= worst)) worst = error;  // so that NaN is worst, too
    std::printf("  %-48s %s%s, %lld x %lld: %.4f from unquantised activations\n", ready.layer.name().c_str(),
                ready.layer.is_static() ? "static" : "dynamic", ready.layer.bias().empty() ? "" : ", bias",
                static_cast<long long>(ready.desc.n), static_cast<long long>(ready.desc.k), error);
  }
  std::printf("every layer ran; the worst row is off by %.4f\n", worst);
  return worst <= 0.05 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: run_checkpoint FOLDER [URI] [TOKENS]\n");
    return 2;
  }
  try {
    return run(arguments[1], count > 2 ? arguments[2] : "auto",
               count > 3 ? std::max(1, std::atoi(arguments[3])) : 16);
  } catch (const ironcl::Error& error) {
    std::fprintf(stderr, "run_checkpoint: %s\n", error.what());
    return error.status() == IRONCL_UNAVAILABLE || error.status() == IRONCL_UNSUPPORTED ? 4 : 1;
  }
}
