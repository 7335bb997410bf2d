// SPDX-License-Identifier: Apache-2.0
// One GEMM problem with seeded operands, run on the model through the backend interface and checked against the
// oracle.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/interface.h"
#include "backends/numerics/bounds.h"
#include "backends/numerics/oracle.h"

namespace ironcl::ironwood::testing {

using numerics::DType;
using numerics::ScaleGrid;

/// The model's device; one for all tests.
backend::Device& device();

/// A problem in a line. x: a quantised type (given), or f32, f16, bf16; `quantize` quantises those to `code` in the
/// plan.
struct Case {
  std::int64_t m = 0, n = 0, k = 0;
  DType x = DType::e4m3fn;
  bool quantize = false;
  DType code = DType::e4m3fn, w = DType::e4m3fn;
  ScaleGrid x_grid{1, 128}, w_grid{128, 128};
  DType x_scale = DType::f32, w_scale = DType::f32;
  DType d = DType::f32;
  DType bias = DType::none;
  backend::Options options = {};
  std::uint64_t seed = 1;
};

std::string print(const Case& c);
backend::GemmDesc desc_of(const Case& c);

/// Operand bytes of a case.
struct Data {
  std::vector<std::byte> x, w, x_scales, w_scales, bias;
};

/// Normal values times a scale that differs by powers of two up to 2^20 between groups; fixed by c.seed.
Data make_data(const Case& c);

/// Memory of the host, lent to the device.
template <class T>
backend::Span lend(std::vector<T>& values) {
  const auto size = values.size() * sizeof(T);
  return {device().import_buffer(backend::Device::Memory::host_pointer, values.data(), size), 0, size};
}

/// The weights of a case; `grid`: their scales' in other words.
std::shared_ptr<backend::Weights> prepare(const Case& c, const Data& data, std::optional<ScaleGrid> grid = {});

/// What D is filled with before a call.
inline constexpr std::byte kCanary{0xa5};

/// Runs the case and returns D as bytes, [m, n] tight. Throws what the backend throws.
std::vector<std::byte> run(const Case& c, const Data& data);
/// The same of a description, grouped or not: D has `rows`.
std::vector<std::byte> run(const backend::GemmDesc& desc, const Data& data, std::int64_t rows,
                           const std::vector<std::int32_t>& counts = {},
                           const std::vector<std::int32_t>& a_index = {});

/// The oracle on the operands as multiplied (quantised by numerics::quantize where the case says so).
numerics::OracleResult want(const Case& c, const Data& data);

std::vector<double> as_f64(DType type, const std::vector<std::byte>& bytes);

/// Runs the case and compares; the terms of the bound are the plan's own.
numerics::Comparison check(const Case& c, const Data& data);
numerics::Comparison check(const Case& c);

}  // namespace ironcl::ironwood::testing
