// SPDX-License-Identifier: Apache-2.0
// A product on any backend, through backends/interface.h, of one matrix or of many: a problem with its data, a run on
// a D full of canaries, the verdict of the oracle.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/interface.h"
#include "backends/numerics/bounds.h"
#include "backends/numerics/oracle.h"

namespace ironcl::products {

/// A problem. Its data are drawn from `seed`.
struct Case {
  std::int64_t m = 1, n = 1, k = 1;  ///< m: rows of all matrices together; where masked, of each.
  backend::DType a_source = backend::DType::none;
  backend::DType a = backend::DType::e4m3fn, b = backend::DType::e4m3fn, d = backend::DType::f32;
  backend::DType bias = backend::DType::none;
  backend::DType a_scale = backend::DType::f32, b_scale = backend::DType::f32;
  numerics::ScaleGrid a_grid{1, 128}, b_grid{128, 128};
  float b_global = 1;  ///< Of the weights of one matrix; other than 1 for problems without a bias.
  std::int64_t lda = 0, ldd = 0;
  backend::AccuracyClass weakest = backend::AccuracyClass::f32;
  backend::Options options = {};
  std::uint32_t seed = 1;
  std::vector<std::int32_t> counts = {};  ///< As the device gets them, one for each matrix; empty: one matrix has m.
  bool masked = false;
  std::int64_t a_rows = 0;  ///< Not 0: rows are gathered from so many.
  bool repeatable = false;
  numerics::Quantizer a_quantizer = {};
  numerics::Activation activation = numerics::Activation::none;
  float activation_limit = 0;

  std::int64_t b_rows() const { return activation == numerics::Activation::none ? n : 2 * n; }
  std::int64_t matrices() const { return counts.empty() ? 1 : std::ssize(counts); }
  std::int64_t rows() const { return masked ? matrices() * m : m; }  ///< Of D.
  std::int64_t rows_in_memory() const { return a_rows != 0 ? a_rows : rows(); }
  backend::GemmDesc desc() const;
  std::string line() const;  ///< One line that names the case.
  /// The first row and the rows of each matrix, by the rules of plugin.h.
  std::vector<std::pair<std::int64_t, std::int64_t>> spans() const;
};

struct Data {
  std::vector<std::uint8_t> a, a_scales, b, b_scales, bias;  ///< As they go to the device: typed bytes.
  std::vector<std::int32_t> index;                           ///< Of a gathered A.
};
/// Of many matrices each has a magnitude of its own, and rows of A that no matrix has are NaN.
Data make_data(const Case& c);

/// The weights of `c`, which `data` holds on to; for `plan`, or for no plan in particular.
backend::WeightsDesc weights_desc(const Case& c, const Data& data, std::shared_ptr<backend::Gemm> plan = nullptr);

constexpr auto kForEver = std::chrono::nanoseconds::max();

/// A problem with everything on the device, to be enqueued at will; D is poisoned, NaN in every type.
struct Ready {
  Case c;
  Data data;
  std::shared_ptr<backend::Gemm> plan;
  std::shared_ptr<backend::Queue> queue;
  backend::GemmArgs args;

  Ready(backend::Device& device, const Case& problem);
};

/// D as the device left it, and what the oracle says. Of many matrices the rows that one has, in order.
struct Outcome {
  std::vector<double> d;            ///< [rows, n], tight.
  std::vector<std::uint8_t> bytes;  ///< The same as D has them.
  bool canaries = true;             ///< Nothing outside of those rows was written.
  numerics::OracleResult oracle;    ///< Of the last matrix.
  numerics::Comparison comparison;  ///< Of the matrix with the largest error over its bound.
  std::int64_t matrix = 0;          ///< Which that is.
  backend::GemmInfo info;
};

/// Prepares, plans, runs `c` on a poisoned D with `rows` rows (-1: c.m), compares with the oracle.
Outcome run(backend::Device& device, const Case& c, const Data& data, std::int64_t rows = -1,
            bool weights_with_plan = true);

/// What the oracle says of `d`, all of D as a call by anyone left it, of one matrix.
Outcome judged(const Ready& ready, const std::vector<std::uint8_t>& d);

/// Expects the outcome to be right, with a line that reproduces it.
void expect_right(const Outcome& outcome, const Case& c, const std::string& device);

/// A deterministic generator.
class Random {
 public:
  explicit Random(std::uint32_t seed) : state_(seed * 2654435761u + 12345u) {}
  std::uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }
  float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }  ///< [0, 1)

 private:
  std::uint32_t state_;
};

}  // namespace ironcl::products
