// SPDX-License-Identifier: Apache-2.0
// run_checkpoint: what an inference engine does with an fp8 checkpoint. Opens a folder, plans and prepares every
// layer that can be used, then runs them one after another on bf16 activations, static scales too. Usage:
// run_checkpoint FOLDER [URI] [TOKENS]. Exit status 0: every layer ran; 1: one failed, or gave something that is not
// finite; 3: the checkpoint cannot be read; 4: no device. Whether results are right is what `ironcl compare` says.
// Next door: stream_layer.cpp (one layer, double-buffered).
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
    queue.run(gemm, {.m = desc.m, .weights = weights, .a = x, .a_scale = x_scale, .d = y, .bias = bias});
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

// The largest magnitude of a result; NaN where an element is not finite.
float largest(const std::vector<std::uint16_t>& y) {
  float most = 0;
  for (const std::uint16_t bits : y) {
    const float value = std::fabs(of_bf16(bits));
    if (!(value <= most)) most = std::isfinite(value) ? value : NAN;
  }
  return most;
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
  bool finite = true;
  for (Ready& ready : model) {
    ready.run(*queue, activations(tokens, ready.desc.k));
    const float most = largest(ready.out);
    finite = finite && most > 0;
    std::printf("  %-48s %s%s, %lld x %lld: up to %g\n", ready.layer.name().c_str(),
                ready.layer.is_static() ? "static" : "dynamic", ready.layer.bias().empty() ? "" : ", bias",
                static_cast<long long>(ready.desc.n), static_cast<long long>(ready.desc.k),
                static_cast<double>(most));
  }
  return finite ? 0 : 1;
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
