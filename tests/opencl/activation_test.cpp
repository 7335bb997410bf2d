// SPDX-License-Identifier: Apache-2.0
// Activations and combinations on the device against backends/numerics/experts.h: within the bound where exp is, else
// bit for bit; rows that nobody has are NaN, and are neither read nor written.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/numerics/experts.h"
#include "backends/numerics/experts_oracle.h"
#include "backends/numerics/quantize.h"
#include "tests/opencl/experts.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;
using backend::Grouping;

class OpenClActivation : public ::testing::Test {
 protected:
  void SetUp() override {
    if (devices().empty()) GTEST_SKIP() << why_no_devices();
  }
};

/// gate and up with everything in them, and what activate leaves of `rows` rows.
struct Activated {
  std::vector<std::uint8_t> y, scales;
};

Activated activate(backend::Device& device, const backend::ActivateDesc& d, std::int64_t rows,
                   const std::vector<std::uint8_t>& gate, const std::vector<std::uint8_t>& up,
                   const std::vector<std::int32_t>& counts) {
  Bench bench(device);
  backend::ActivateArgs args;
  args.rows = rows;
  args.gate = bench.put(gate);
  args.up = bench.put(up);
  const std::int64_t all = d.grouping == Grouping::masked ? rows * d.matrices : rows;
  args.y = bench.canaries<std::uint8_t>(static_cast<std::size_t>(all * d.y_ld) * numerics::size_of(d.y));
  if (d.scale.dtype != DType::none) args.scales = bench.canaries<float>(static_cast<std::size_t>(all * d.scale.ld));
  if (!counts.empty()) args.matrix_rows = bench.put(counts);
  const auto step = device.create_activate(d);
  args.wants_event = false;
  EXPECT_EQ(step->enqueue(bench.queue(), args), nullptr);
  bench.queue()->finish();
  args.wants_event = true;
  EXPECT_EQ(step->enqueue(bench.queue(), args)->wait(std::chrono::nanoseconds::max()), backend::Status::ok);
  return {bench.get<std::uint8_t>(args.y),
          d.scale.dtype != DType::none ? bench.get<std::uint8_t>(args.scales) : std::vector<std::uint8_t>()};
}

backend::ActivateDesc activate_desc(std::int64_t rows, std::int64_t cols, DType x, DType y) {
  backend::ActivateDesc d;
  d.rows = rows;
  d.cols = d.gate_ld = d.up_ld = d.y_ld = cols;
  d.x = x;
  d.y = y;
  return d;
}

std::vector<float> floats(std::size_t count, std::uint32_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& x : values) x = (random.uniform() - 0.5f) * (random.next() % 16 == 0 ? 60.0f : 8.0f);
  return values;
}

TEST_F(OpenClActivation, ActivationsAreWithinTheBound) {
  for (const auto activation : {numerics::Activation::silu, numerics::Activation::swiglu_oai}) {
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      backend::ActivateDesc d = activate_desc(11, 197, type, type);
      d.activation = activation;
      d.limit = activation == numerics::Activation::swiglu_oai ? 7.0f : 0.0f;
      d.gate_ld = 200;
      d.y_ld = 201;
      std::vector<float> gate = floats(11 * 200, 3), up = floats(11 * 197, 4);
      const auto gate_bytes = typed(type, gate), up_bytes = typed(type, up);
      numerics::decode(type, gate_bytes.data(), gate);
      numerics::decode(type, up_bytes.data(), up);
      for (const auto& device : devices()) {
        const Activated got = activate(*device, d, 11, gate_bytes, up_bytes, {});
        for (std::int64_t row = 0; row < 11; ++row) {
          for (std::int64_t col = 0; col < 197; ++col) {
            const auto want = numerics::activation_oracle(
                activation, static_cast<double>(gate[static_cast<std::size_t>(row * 200 + col)]),
                static_cast<double>(up[static_cast<std::size_t>(row * 197 + col)]), static_cast<double>(d.limit));
            const double bound = numerics::element_bound(numerics::activation_terms(type), want.value,
                                                         {numerics::activation_magnitude(want)});
            const double y = numerics::load_as_f64(type, got.y.data(), row * 201 + col);
            EXPECT_LE(std::fabs(y - want.value), bound) << row << ", " << col << " on " << device->props().name;
          }
        }
      }
    }
  }
}

TEST_F(OpenClActivation, QuantisedActivationsAreTheQuantisersCodesOfTheFloats) {
  std::uint32_t seed = 70;
  for (const DType code : {DType::e4m3fn, DType::e5m2, DType::i8}) {
    for (const std::int64_t group : {std::int64_t{32}, std::int64_t{128}, std::int64_t{40}, std::int64_t{0}}) {
      for (const std::int64_t cols : {std::int64_t{300}, std::int64_t{1300}}) {
        backend::ActivateDesc d = activate_desc(5, cols, DType::bf16, DType::f32);
        const auto gate = typed(DType::bf16, floats(static_cast<std::size_t>(5 * cols), ++seed));
        const auto up = typed(DType::bf16, floats(static_cast<std::size_t>(5 * cols), ++seed));
        backend::ActivateDesc quantised = d;
        quantised.y = code;
        quantised.scale = {DType::f32, {1, group}, numerics::ScaleGrid{1, group}.scale_cols(cols)};
        for (const auto& device : devices()) {
          const Activated values = activate(*device, d, 5, gate, up, {});
          const Activated got = activate(*device, quantised, 5, gate, up, {});
          std::vector<std::uint8_t> codes(static_cast<std::size_t>(5 * cols));
          std::vector<float> scales(static_cast<std::size_t>(5 * quantised.scale.ld));
          numerics::quantize(DType::f32, values.y.data(), 5, cols, cols, code, quantised.scale.grid, {}, codes,
                             scales);
          EXPECT_TRUE(got.y == codes) << numerics::name_of(code) << " group " << group << " cols " << cols;
          EXPECT_EQ(std::memcmp(got.scales.data(), scales.data(), got.scales.size()), 0);
        }
      }
    }
  }
}

TEST_F(OpenClActivation, OnlyRowsThatAnExpertHasAreActivated) {
  for (const bool masked : {false, true}) {
    for (const std::vector<std::int32_t>& counts :
         {std::vector<std::int32_t>{3, 0, -4, 2}, {0, 0, 0, 0}, {9, 9, 9, 9}}) {
      const std::int64_t rows = masked ? 6 : 13, all = masked ? 24 : 13, cols = 96;
      backend::ActivateDesc d = activate_desc(rows, cols, DType::f32, DType::e4m3fn);
      d.grouping = masked ? Grouping::masked : Grouping::contiguous;
      d.matrices = 4;
      d.scale = {DType::f32, {1, 32}, 3};
      std::vector<std::int64_t> begin(4), used(4);
      numerics::clamp_counts(counts, rows, masked, begin, used);
      std::vector<bool> has(static_cast<std::size_t>(all));
      for (std::size_t g = 0; g < 4; ++g)
        for (std::int64_t i = 0; i < used[g]; ++i) has[static_cast<std::size_t>(begin[g] + i)] = true;
      std::vector<float> gate = floats(static_cast<std::size_t>(all * cols), 5);
      for (std::int64_t row = 0; row < all; ++row)
        if (!has[static_cast<std::size_t>(row)])
          std::fill_n(gate.begin() + row * cols, cols, std::numeric_limits<float>::quiet_NaN());
      const auto bytes = typed(DType::f32, gate);
      for (const auto& device : devices()) {
        const Activated got = activate(*device, d, rows, bytes, bytes, counts);
        for (std::int64_t row = 0; row < all; ++row) {
          const auto canaries =
              std::count(got.scales.begin() + row * 12, got.scales.begin() + (row + 1) * 12, kCanary);
          EXPECT_EQ(canaries == 12, !has[static_cast<std::size_t>(row)]) << row << (masked ? " masked" : "");
          const bool touched = std::any_of(got.y.begin() + row * cols, got.y.begin() + (row + 1) * cols,
                                           [](std::uint8_t code) { return code != kCanary; });
          EXPECT_EQ(touched, has[static_cast<std::size_t>(row)]) << row;
        }
      }
    }
  }
}

TEST_F(OpenClActivation, CombiningSelectsRowsAndRoundsEachStepBitForBit) {
  std::uint32_t seed = 200;
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool add : {false, true}) {
      for (const bool weigh : {false, true}) {
        const std::int64_t tokens = 7, cols = 77, rows = 30, k = 5;
        backend::CombineDesc d{tokens, cols, rows, k, 80, 78, 79, type, add ? DType::bf16 : DType::none, type};
        Random random(++seed);
        std::vector<float> x = floats(static_cast<std::size_t>(rows * 80), ++seed);
        std::vector<float> added = floats(static_cast<std::size_t>(tokens * 78), ++seed);
        const std::vector<float> weights = floats(static_cast<std::size_t>(tokens * k), ++seed);
        const std::vector<float> add_weights = floats(static_cast<std::size_t>(tokens), ++seed);
        std::vector<std::int32_t> of_slots(static_cast<std::size_t>(tokens * k));
        std::vector<bool> read(static_cast<std::size_t>(rows));
        for (std::int32_t& row : of_slots) {
          row = static_cast<std::int32_t>(random.next() % 34) - 2;  // Some outside of X, on both sides.
          if (row >= 0 && row < rows) read[static_cast<std::size_t>(row)] = true;
        }
        for (std::int64_t row = 0; row < rows; ++row)
          if (!read[static_cast<std::size_t>(row)])
            std::fill_n(x.begin() + row * 80, 80, std::numeric_limits<float>::quiet_NaN());
        const auto x_bytes = typed(type, x), added_bytes = typed(DType::bf16, added);
        numerics::decode(DType::bf16, added_bytes.data(), added);
        for (const auto& device : devices()) {
          Bench bench(*device);
          backend::CombineArgs args;
          args.tokens = tokens;
          args.x = bench.put(x_bytes);
          args.rows = bench.put(of_slots);
          args.weights = bench.put(weights);
          if (add) args.add = bench.put(added_bytes);
          if (add && weigh) args.add_weights = bench.put(add_weights);
          args.y = bench.canaries<std::uint8_t>(static_cast<std::size_t>(tokens * 79) * numerics::size_of(type));
          device->create_combine(d)->enqueue(bench.queue(), args)->wait(std::chrono::nanoseconds::max());
          const auto got = bench.get<std::uint8_t>(args.y);
          std::vector<std::uint8_t> want(got.size(), kCanary);
          for (std::int64_t t = 0; t < tokens; ++t) {
            std::vector<float> y(static_cast<std::size_t>(cols));
            const auto slots = static_cast<std::size_t>(t * k);
            numerics::combine_token(std::span(of_slots).subspan(slots, 5), std::span(weights).subspan(slots, 5), type,
                                    x_bytes.data(), rows, 80, y);
            if (add)
              numerics::add_weighted(weigh ? add_weights[static_cast<std::size_t>(t)] : 1.0f,
                                     std::span(added).subspan(static_cast<std::size_t>(t * 78), y.size()), y);
            numerics::encode(type, y, want.data() + static_cast<std::size_t>(t * 79) * numerics::size_of(type));
          }
          EXPECT_TRUE(got == want) << numerics::name_of(type) << (add ? " added" : "") << (weigh ? " weighed" : "");
        }
      }
    }
  }
}

TEST_F(OpenClActivation, RefusalsSayWhatIsTaken) {
  for (const auto& device : devices()) {
    backend::ActivateDesc d = activate_desc(4, 128, DType::e4m3fn, DType::f32);
    EXPECT_THROW(device->create_activate(d), backend::Error);
    backend::CombineDesc c{4, 8, 8, 2, 8, 8, 8, DType::e4m3fn, DType::none, DType::f32};
    EXPECT_THROW(device->create_combine(c), backend::Error);
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
