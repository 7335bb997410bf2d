// SPDX-License-Identifier: Apache-2.0
// What the schedule of a layer of experts in one kernel computes, against the layer in f64. Next door: fused_test.cpp
// (what it costs).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "backends/ironwood/fused_experts.h"
#include "backends/numerics/casts.h"
#include "tests/errors.h"

namespace ironcl::ironwood::testing {
namespace {

using numerics::DType;

double bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

/// A layer with its operands and, in f64, what it comes to.
class Numbers {
 public:
  Numbers(const FusedLayer& layer, std::uint32_t seed) : layer_(layer), random_(seed) {
    x_.resize(static_cast<std::size_t>(layer.tokens * layer.hidden));
    for (std::uint16_t& value : x_) value = bits(normal());
    weights_.resize(static_cast<std::size_t>(layer.tokens * layer.top_k));
    for (float& weight : weights_) weight = std::fabs(normal());
    gate_ = make(layer.intermediate, layer.hidden);
    up_ = make(layer.intermediate, layer.hidden);
    down_ = make(layer.hidden, layer.intermediate);
    y_.assign(x_.size(), 0xffff);
  }

  FusedTotals run() {
    const FusedNumbers numbers{bytes(x_), weights_.data(), of(gate_), of(up_), of(down_), bytes(y_)};
    return run_fused_experts(layer_, nullptr, &numbers);
  }
  const std::vector<std::uint16_t>& y() const { return y_; }
  std::vector<std::uint16_t>& x() { return x_; }
  std::vector<float>& weights() { return weights_; }

  struct Row {
    std::vector<double> value, error;
  };
  /// One expert's row of one token, and how far the kernel's may be from it: for each tile of I a value cut to bf16
  /// (a whole unit in its last place, 2^-7 at most), the sums of those rounded to it, and f32 before.
  Row row(std::int64_t token, std::int64_t expert) const {
    const std::int64_t width = layer_.intermediate, hidden = layer_.hidden;
    std::vector<double> h(static_cast<std::size_t>(width));
    for (std::int64_t i = 0; i < width; ++i) {
      double gate = 0, up = 0;
      for (std::int64_t k = 0; k < hidden; ++k) {
        const double x = bf16(x_[static_cast<std::size_t>(token * hidden + k)]);
        gate += x * at(gate_, expert, i, k);
        up += x * at(up_, expert, i, k);
      }
      h[static_cast<std::size_t>(i)] = gate / (1 + std::exp(-gate)) * up;
    }
    Row row;
    for (std::int64_t n = 0; n < hidden; ++n) {
      double sum = 0, error = 0, sums = 0;
      for (std::int64_t first = 0; first < width; first += layer_.blocks.bf) {
        double part = 0, magnitude = 0;
        for (std::int64_t i = first; i < first + layer_.blocks.bf; ++i) {
          const double product = h[static_cast<std::size_t>(i)] * at(down_, expert, n, i);
          part += product;
          magnitude += std::fabs(product);
        }
        sum += part;
        sums += std::fabs(part);
        error += 0x1p-7 * std::fabs(part) + 0x1p-13 * magnitude + (first == 0 ? 0 : 0x1p-8 * sums);
      }
      row.value.push_back(sum);
      row.error.push_back(error);
    }
    return row;
  }

  void expect_right() const {
    for (std::int64_t t = 0; t < layer_.tokens; ++t) {
      Row sum{std::vector<double>(static_cast<std::size_t>(layer_.hidden)),
              std::vector<double>(static_cast<std::size_t>(layer_.hidden))};
      for (std::int64_t j = 0; j < layer_.top_k; ++j) {
        const auto slot = static_cast<std::size_t>(t * layer_.top_k + j);
        const std::int32_t id = layer_.ids[slot];
        if (id < 0 || id >= layer_.experts) continue;
        const Row one = row(t, id);
        for (std::size_t n = 0; n < sum.value.size(); ++n) {
          sum.value[n] += static_cast<double>(weights_[slot]) * one.value[n];
          sum.error[n] += static_cast<double>(weights_[slot]) * (one.error[n] * (1 + 0x1p-20) + 0x1p-20);
        }
      }
      for (std::size_t n = 0; n < sum.value.size(); ++n) {
        const double got = bf16(y_[static_cast<std::size_t>(t * layer_.hidden) + n]);
        ASSERT_LE(std::fabs(got - sum.value[n]), sum.error[n] + 0x1p-8 * (std::fabs(sum.value[n]) + sum.error[n]))
            << "token " << t << ", column " << n << " is " << got << ", expected " << sum.value[n];
      }
    }
  }

 private:
  struct Matrices {
    std::int64_t n = 0, k = 0, groups = 1;
    std::vector<std::byte> codes;
    std::vector<float> scales;
  };

  float normal() { return std::normal_distribution<float>()(random_); }
  static std::uint16_t bits(float value) {
    std::uint16_t to = 0;
    numerics::encode(DType::bf16, {&value, 1}, &to, numerics::Overflow::plain);
    return to;
  }
  template <class T>
  static std::byte* bytes(std::vector<T>& values) {
    return reinterpret_cast<std::byte*>(values.data());
  }
  static FusedNumbers::Matrices of(Matrices& m) { return {m.codes.data(), m.scales.data()}; }

  /// Every expert, column and K group has a scale of its own, a power of two apart from its neighbours'.
  Matrices make(std::int64_t n, std::int64_t k) {
    Matrices m{n, k, layer_.group == 0 ? 1 : k / layer_.group, {}, {}};
    m.codes.resize(static_cast<std::size_t>(layer_.experts * n * k));
    for (std::byte& code : m.codes) {
      const float value = normal() * 16;
      numerics::encode(DType::e4m3fn, {&value, 1}, &code, numerics::Overflow::plain);
    }
    for (std::int64_t e = 0; e < layer_.experts; ++e)
      for (std::int64_t g = 0; g < m.groups; ++g)
        for (std::int64_t i = 0; i < n; ++i)
          m.scales.push_back(
              std::ldexp(1 / std::sqrt(static_cast<float>(k)), static_cast<int>(e % 3 + g % 2 + i % 3) - 6));
    return m;
  }
  double at(const Matrices& m, std::int64_t e, std::int64_t n, std::int64_t k) const {
    double value = 0;
    numerics::decode(DType::e4m3fn, m.codes.data(), (e * m.n + n) * m.k + k, std::span<double>(&value, 1));
    const std::int64_t group = layer_.group == 0 ? 0 : k / layer_.group;
    return value * static_cast<double>(m.scales[static_cast<std::size_t>((e * m.groups + group) * m.n + n)]);
  }

  const FusedLayer& layer_;
  std::mt19937 random_;
  std::vector<std::uint16_t> x_, y_;
  std::vector<float> weights_;
  Matrices gate_, up_, down_;
};

/// Four tiles of tokens, the last with one; two tiles of everything else.
FusedLayer small() {
  FusedLayer layer;
  layer.tokens = 13, layer.experts = 5, layer.top_k = 3;
  layer.hidden = 512, layer.intermediate = 512;
  layer.group = 256;
  layer.vmem_limit = layer.machine.tpu->vmem_bytes;
  layer.blocks = {.bt = 4, .btc = 4, .bf = 256, .bd1 = 256, .bd2 = 256};
  for (std::int64_t slot = 0; slot < 39; ++slot)
    layer.ids.push_back(static_cast<std::int32_t>((slot * 7 + slot / 3) % 5));
  return layer;
}

TEST(IronwoodFusedNumbers, AreTheLayers) {
  FusedLayer layer = small();
  Numbers numbers(layer, 1);
  numbers.run();
  numbers.expect_right();
  // Ids that are nobody's, an expert named twice, one that has everything.
  layer.ids[0] = -1, layer.ids[5] = 5, layer.ids[7] = layer.ids[6] = 2;
  for (std::size_t slot = 9; slot < 21; slot += 3)
    layer.ids[slot] = 4, layer.ids[slot + 1] = layer.ids[slot + 2] = -1;
  numbers.run();
  numbers.expect_right();
}

TEST(IronwoodFusedNumbers, AreRightForEveryGroupAndTile) {
  for (const std::int64_t group : {0, 128, 256, 512}) {
    for (const FusedBlocks& blocks : {FusedBlocks{13, 13, 512, 512, 512}, FusedBlocks{7, 7, 128, 256, 128}}) {
      FusedLayer layer = small();
      layer.group = group;
      layer.blocks = blocks;
      Numbers numbers(layer, 2);
      numbers.run();
      numbers.expect_right();
    }
  }
}

TEST(IronwoodFusedNumbers, TakeTheTimeThatIsModelledWithoutThem) {
  const FusedLayer layer = small();
  Numbers numbers(layer, 3);
  const FusedTotals with = numbers.run(), without = run_fused_experts(layer, nullptr);
  EXPECT_EQ(with.time_ns, without.time_ns);
  EXPECT_EQ(with.core.bytes_in, without.core.bytes_in);
  EXPECT_EQ(with.steps, without.steps);
}

/// An expert's row is cut to bf16, not rounded: one token, one expert of weight 1, one tile of I.
TEST(IronwoodFusedNumbers, RowsAreCutToBf16) {
  FusedLayer layer = small();
  layer.tokens = 1, layer.top_k = 1, layer.ids = {3};
  layer.blocks = {.bt = 1, .btc = 1, .bf = 512, .bd1 = 512, .bd2 = 512};
  Numbers numbers(layer, 4);
  numbers.weights() = {1};
  numbers.run();
  const auto row = numbers.row(0, 3);
  std::size_t sure = 0;
  for (std::size_t n = 0; n < row.value.size(); ++n) {
    const auto cut = [&](double off) {
      return std::bit_cast<std::uint32_t>(static_cast<float>(row.value[n] * (1 + off))) >> 16;
    };
    if (cut(0x1p-13) != cut(-0x1p-13)) continue;  // f32's own error decides
    ++sure;
    EXPECT_EQ(numbers.y()[n], cut(0)) << n;
  }
  EXPECT_GT(sure, row.value.size() / 2);
}

TEST(IronwoodFusedNumbers, OfNobodysIdsAreZero) {
  FusedLayer layer = small();
  std::fill(layer.ids.begin(), layer.ids.end(), -1);
  Numbers numbers(layer, 5);
  numbers.run();
  EXPECT_TRUE(std::all_of(numbers.y().begin(), numbers.y().end(), [](std::uint16_t bits) { return bits == 0; }));
}

/// What an expert has no rows for does not reach anybody: a NaN stays with its token.
TEST(IronwoodFusedNumbers, ANaNStaysWithItsToken) {
  const FusedLayer layer = small();
  Numbers numbers(layer, 6);
  numbers.x()[5 * 512 + 17] = 0x7fc0;
  numbers.run();
  for (std::size_t i = 0; i < numbers.y().size(); ++i) EXPECT_EQ(std::isnan(bf16(numbers.y()[i])), i / 512 == 5) << i;
}

TEST(IronwoodFusedNumbers, ScalesThatTilesCutAreRefused) {
  FusedLayer layer = small();
  layer.group = 384;
  Numbers numbers(layer, 7);
  expect_error<backend::Error>(backend::Status::invalid_argument, "tiles of 256 of k and scales for 384",
                               [&] { numbers.run(); });
}

}  // namespace
}  // namespace ironcl::ironwood::testing
