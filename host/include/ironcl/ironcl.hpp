// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp: the C API of ironcl.h and a plugin's table of plugin.h as C++20: RAII handles, exceptions, spans.
// Header-only, over the two C headers and the standard library; link ironcl::ironcl. It includes its parts, a noun
// each, which need no including of their own. Next door: docs/host-api.md.
//
//   ironcl::Registry registry = ironcl::Registry::discover();
//   const ironcl::GemmDesc desc{.m = 2, .n = 128, .k = 128};  // e4m3fn, 1x128 and 128x128 scales, f32 out
//   const ironcl::Device device = registry.select(desc);
//   const std::vector<std::uint8_t> a(2 * 128, 0x38), b(128 * 128, 0x38);  // 1.0 in e4m3fn
//   const std::vector<float> a_scales{1.0f, 2.0f}, b_scales{0.5f};
//   std::vector<float> d(2 * 128);
//
//   const ironcl::Gemm gemm(device, desc);
//   const ironcl::WeightsDesc layer{
//       .n = 128, .k = 128, .data = ironcl::bytes_of(b), .scales = ironcl::bytes_of(b_scales)};
//   const ironcl::Weights weights(device, layer, &gemm);
//   const ironcl::Buffer a_buffer(device, 256), a_scale_buffer(device, 8), d_buffer(device, 1024);
//   ironcl::Queue queue(device);
//   queue.write(a_buffer, std::span(a));
//   queue.write(a_scale_buffer, std::span(a_scales));
//   queue.run(gemm, {.m = 2, .weights = weights, .a = a_buffer, .a_scale = a_scale_buffer, .d = d_buffer});
//   queue.read(d_buffer, std::span(d)).wait();  // row 0 is 64, row 1 is 128
//
// Errors: every failing call throws ironcl::Error. Threads: as plugin.h says of each object. Ownership: objects are
// move-only, release in their destructors and keep their registry alive; a Device is a copyable reference.
#pragma once

#include "device.hpp"
#include "handles.hpp"
#include "operations.hpp"
#include "problem.hpp"
#include "queue.hpp"
#include "registry.hpp"
