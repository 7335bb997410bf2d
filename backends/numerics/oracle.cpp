// SPDX-License-Identifier: Apache-2.0
// The f64 oracle: blocks of D, each a sum over stretches of k in which no scale changes. Inner loop: oracle_tile.h.
#include "backends/numerics/oracle.h"

#include <atomic>
#include <cmath>
#include <future>
#include <string>
#include <thread>

#include "backends/numerics/casts.h"
#include "backends/numerics/oracle_tile.h"

namespace ironcl::numerics {
namespace {

using detail::kTileCols;
using detail::kTileRows;

// A block of D and the longest stretch of k are what the second-level cache holds in f64, twice (values, magnitudes).
constexpr std::int64_t kBlockRows = 16 * kTileRows;
constexpr std::int64_t kBlockCols = 16 * kTileCols;
constexpr std::int64_t kLongestStretch = 128;
constexpr std::int64_t kShortestGroup = 32;  // That a kernel takes.

void check_operand(const char* name, const Operand& operand) {
  const auto fail = [name](const std::string& what) {
    throw std::invalid_argument("oracle: operand " + std::string(name) + ": " + what);
  };
  if (operand.rows < 0 || operand.cols < 0) {
    fail(std::to_string(operand.rows) + " x " + std::to_string(operand.cols) + " elements");
  }
  if (operand.rows == 0 || operand.cols == 0) return;
  if (size_of(operand.dtype) == 0) fail("it has no element type");
  if (operand.data == nullptr) fail("it has no data");
  if (operand.ld < operand.cols) {
    fail("the leading dimension is " + std::to_string(operand.ld) + ", a row has " + std::to_string(operand.cols));
  }
  checked_mul(checked_mul(operand.rows, operand.ld), size_of(operand.dtype));
  if (operand.scale_dtype == DType::none) return;
  if (operand.scales == nullptr) fail("it has a scale type but no scales");
  if (operand.grid.group_rows < 0 || operand.grid.group_cols < 0) fail("a negative scale group");
  const std::int64_t scale_cols = operand.grid.scale_cols(operand.cols);
  if (operand.scale_ld < scale_cols) {
    fail("the leading dimension of the scales is " + std::to_string(operand.scale_ld) + ", a row has " +
         std::to_string(scale_cols));
  }
  checked_mul(checked_mul(operand.grid.scale_rows(operand.rows), operand.scale_ld), size_of(operand.scale_dtype));
}

// Where stretches of constant scale end, in order; the last is k. None is longer than what a kernel adds up before it
// promotes: 128, or 64 or 32 where no more divides both operands' groups.
std::vector<std::int64_t> stretch_ends(const Operand& a, const Operand& b, std::int64_t k) {
  std::vector<std::int64_t> ends;
  const auto group_of = [](const Operand& operand) {
    return operand.scale_dtype == DType::none ? 0 : operand.grid.group_cols;
  };
  const std::int64_t common = common_group(group_of(a), group_of(b), k);
  const std::int64_t promoted = common < k ? std::gcd(common, kLongestStretch) : kLongestStretch;
  const std::int64_t longest = promoted >= kShortestGroup ? promoted : kLongestStretch;
  const auto next_change = [k, group_of](const Operand& operand, std::int64_t at) {
    const std::int64_t group = group_of(operand);
    return group == 0 || k - at <= group - at % group ? k : at + group - at % group;
  };
  for (std::int64_t at = 0; at < k;) {
    at = std::min({next_change(a, at), next_change(b, at), k - at <= longest ? k : at + longest});
    ends.push_back(at);
  }
  return ends;
}

double scale_at(const Operand& operand, std::int64_t row, std::int64_t col) noexcept {
  if (operand.scale_dtype == DType::none) return 1;
  return load_as_f64(operand.scale_dtype, operand.scales,
                     operand.grid.row_of(row) * operand.scale_ld + operand.grid.col_of(col));
}

// Rows [first, first + count) and columns [begin, end) of an operand, decoded and packed by strips of `width` rows as
// [strip][k][row in strip]; rows beyond the operand are 0 and their results are dropped.
class Packed {
 public:
  explicit Packed(std::int64_t width)
      : width_(width),
        values_(static_cast<std::size_t>(std::max(kBlockRows, kBlockCols) * kLongestStretch)),
        magnitudes_(values_.size()),
        raised_(values_.size()),
        row_(static_cast<std::size_t>(kLongestStretch)) {}

  void fill(const Operand& operand, std::int64_t first, std::int64_t count, std::int64_t begin, std::int64_t end) {
    depth_ = end - begin;
    const bool is_fp8 = operand.dtype == DType::e4m3fn || operand.dtype == DType::e5m2;
    const double smallest_normal =
        is_fp8 ? smallest_subnormal(operand.dtype) / (2 * unit_roundoff(operand.dtype)) : 0;
    const std::span<double> row(row_.data(), static_cast<std::size_t>(depth_));
    for (std::int64_t r = 0; r < round_up(count, width_); ++r) {
      if (r < count) {
        decode(operand.dtype, operand.data, (first + r) * operand.ld + begin, row);
      } else {
        std::fill(row.begin(), row.end(), 0.0);
      }
      const std::int64_t base = r / width_ * width_ * depth_ + r % width_;
      for (std::int64_t k = 0; k < depth_; ++k) {
        const double value = row[static_cast<std::size_t>(k)];
        const auto at = static_cast<std::size_t>(base + k * width_);
        values_[at] = value;
        magnitudes_[at] = std::fabs(value);
        raised_[at] = value == 0 ? 0 : std::max(std::fabs(value), smallest_normal);
      }
    }
  }

  const double* values(std::int64_t row) const { return values_.data() + row * depth_; }
  const double* magnitudes(std::int64_t row) const { return magnitudes_.data() + row * depth_; }
  const double* raised(std::int64_t row) const { return raised_.data() + row * depth_; }

 private:
  std::int64_t width_;
  std::int64_t depth_ = 0;
  std::vector<double> values_, magnitudes_, raised_, row_;
};

// What a thread needs besides the problem.
struct Workspace {
  Packed a{kTileRows}, b{kTileCols};
  std::vector<double> scale_a = std::vector<double>(static_cast<std::size_t>(kBlockRows));
  std::vector<double> scale_b = std::vector<double>(static_cast<std::size_t>(kBlockCols));
};

class Product {
 public:
  Product(const Operand& a, const Operand& b, OracleResult& result)
      : a_(a), b_(b), result_(result), ends_(stretch_ends(a, b, a.cols)) {}

  std::int64_t block_cols() const { return ceil_div(b_.rows, kBlockCols); }
  std::int64_t blocks() const { return checked_mul(ceil_div(a_.rows, kBlockRows), block_cols()); }

  void run_block(std::int64_t block, Workspace& work) const {
    const std::int64_t row0 = block / block_cols() * kBlockRows;
    const std::int64_t col0 = block % block_cols() * kBlockCols;
    const std::int64_t rows = std::min(kBlockRows, a_.rows - row0);
    const std::int64_t cols = std::min(kBlockCols, b_.rows - col0);
    std::int64_t begin = 0;
    for (const std::int64_t end : ends_) {
      work.a.fill(a_, row0, rows, begin, end);
      work.b.fill(b_, col0, cols, begin, end);
      for (std::int64_t i = 0; i < rows; ++i)
        work.scale_a[static_cast<std::size_t>(i)] = scale_at(a_, row0 + i, begin);
      for (std::int64_t j = 0; j < cols; ++j)
        work.scale_b[static_cast<std::size_t>(j)] = scale_at(b_, col0 + j, begin);
      for (std::int64_t j = 0; j < cols; j += kTileCols) {
        for (std::int64_t i = 0; i < rows; i += kTileRows) {
          add_tile(work, row0, col0, i, j, std::min(kTileRows, rows - i), std::min(kTileCols, cols - j), end - begin);
        }
      }
      begin = end;
    }
  }

 private:
  void add_tile(const Workspace& work, std::int64_t row0, std::int64_t col0, std::int64_t i0, std::int64_t j0,
                std::int64_t rows, std::int64_t cols, std::int64_t depth) const {
    double sums[kTileRows * kTileCols];
    double magnitudes[kTileRows * kTileCols];
    double cuts[kTileRows * kTileCols];
    const bool wants_cuts = !result_.cut.empty();
    detail::tile_product(work.a.values(i0), work.b.values(j0), depth, sums);
    detail::tile_product(work.a.magnitudes(i0), work.b.magnitudes(j0), depth, magnitudes);
    if (wants_cuts)
      detail::tile_cut(work.a.values(i0), work.b.values(j0), work.a.raised(i0), work.b.raised(j0), depth, cuts);
    for (std::int64_t i = 0; i < rows; ++i) {
      const double scale_a = work.scale_a[static_cast<std::size_t>(i0 + i)];
      const auto at = static_cast<std::size_t>((row0 + i0 + i) * result_.cols + col0 + j0);
      for (std::int64_t j = 0; j < cols; ++j) {
        const double scale = scale_a * work.scale_b[static_cast<std::size_t>(j0 + j)];
        const auto to = at + static_cast<std::size_t>(j);
        result_.value[to] += scale * sums[i * kTileCols + j];
        result_.magnitude[to] += std::fabs(scale) * magnitudes[i * kTileCols + j];
        if (wants_cuts) result_.cut[to] += std::fabs(scale) * cuts[i * kTileCols + j];
      }
    }
  }

  const Operand& a_;
  const Operand& b_;
  OracleResult& result_;
  std::vector<std::int64_t> ends_;
};

unsigned useful_threads(unsigned asked, std::int64_t blocks, double products) {
  if (products < 0x1p20) return 1;  // Starting a thread costs more.
  const unsigned available = asked != 0 ? asked : std::max(1u, std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::min<std::int64_t>(available, blocks));
}

void run(const Product& product, unsigned threads) {
  const std::int64_t blocks = product.blocks();
  std::atomic<std::int64_t> next{0};
  // Every block is computed by one thread from the operands alone: who takes which does not matter.
  const auto work = [&] {
    Workspace workspace;
    for (std::int64_t block = next++; block < blocks; block = next++) product.run_block(block, workspace);
  };
  std::vector<std::future<void>> helpers;
  while (helpers.size() + 1 < threads) helpers.push_back(std::async(work));  // A thread each, if there are so many.
  work();
  for (std::future<void>& helper : helpers) helper.get();
}

}  // namespace

OracleResult oracle(const Operand& a, const Operand& b, DType bias_dtype, const void* bias, AccuracyClass weakest,
                    unsigned threads) {
  check_operand("a", a);
  check_operand("b", b);
  if (a.cols != b.cols) {
    throw std::invalid_argument("oracle: a has k = " + std::to_string(a.cols) +
                                ", b has k = " + std::to_string(b.cols));
  }
  if (bias_dtype != DType::none && bias == nullptr && b.rows != 0) {
    throw std::invalid_argument("oracle: there is a bias type but no bias");
  }
  OracleResult result;
  result.rows = a.rows;
  result.cols = b.rows;
  const std::int64_t elements = checked_mul(a.rows, b.rows);
  checked_mul(elements, static_cast<std::int64_t>(sizeof(double)));
  result.value.assign(static_cast<std::size_t>(elements), 0.0);
  result.magnitude.assign(static_cast<std::size_t>(elements), 0.0);
  if (weakest != AccuracyClass::f32) result.cut.assign(static_cast<std::size_t>(elements), 0.0);
  if (elements == 0) return result;

  if (a.cols > 0) {
    const Product product(a, b, result);
    const double products = static_cast<double>(elements) * static_cast<double>(a.cols);
    run(product, useful_threads(threads, product.blocks(), products));
  }
  if (bias_dtype != DType::none) {
    for (std::int64_t at = 0; at < elements; ++at) {
      const double add = load_as_f64(bias_dtype, bias, at % b.rows);
      result.value[static_cast<std::size_t>(at)] += add;
      result.magnitude[static_cast<std::size_t>(at)] += std::fabs(add);
    }
  }
  return result;
}

std::vector<double> decode_operand(const Operand& operand) {
  check_operand("to decode", operand);
  std::vector<double> values(static_cast<std::size_t>(checked_mul(operand.rows, operand.cols)));
  for (std::int64_t row = 0; row < operand.rows; ++row) {
    for (std::int64_t col = 0; col < operand.cols; ++col) {
      values[static_cast<std::size_t>(row * operand.cols + col)] =
          load_as_f64(operand.dtype, operand.data, row * operand.ld + col) * scale_at(operand, row, col);
    }
  }
  return values;
}

}  // namespace ironcl::numerics
