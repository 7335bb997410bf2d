// SPDX-License-Identifier: Apache-2.0
// Codes and scales with the arithmetic of numerics::quantize, a band of whole groups at a time.
#include "backends/ironwood/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/ironwood/memory.h"
#include "backends/ironwood/queue.h"
#include "backends/numerics/checked.h"
#include "backends/numerics/quantize.h"

namespace ironcl::ironwood {

using backend::Error;
using backend::QuantizeArgs;
using backend::QuantizeDesc;
using backend::Status;
using numerics::checked_mul;

namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;  // far beyond any HBM; keeps later products in 64 bits

/// Bytes from the first element of a rows x cols matrix to its last; 0 without rows.
std::uint64_t extent(std::int64_t rows, std::int64_t cols, std::int64_t ld, std::uint32_t element) {
  if (rows == 0) return 0;
  return static_cast<std::uint64_t>(checked_mul(numerics::checked_add(checked_mul(rows - 1, ld), cols), element));
}

struct Bound {
  const std::byte* x = nullptr;
  std::byte* codes = nullptr;
  std::byte* scales = nullptr;
};

Bound bind(const QuantizeDesc& d, const QuantizeArgs& args) {
  if (args.rows < 0 || args.rows > d.rows) {
    throw Error(Status::invalid_argument,
                fmt::format("ironwood: rows is {}; the quantiser takes 0 to {}", args.rows, d.rows));
  }
  if (args.rows == 0) return {};
  const std::int64_t scale_rows = d.scale.grid.scale_rows(args.rows), scale_cols = d.scale.grid.scale_cols(d.cols);
  return {address_of(args.x, extent(args.rows, d.cols, d.x_ld, numerics::size_of(d.x)), "X"),
          address_of(args.codes, extent(args.rows, d.cols, d.code_ld, 1), "the codes"),
          address_of(args.scales, extent(scale_rows, scale_cols, d.scale.ld, 4), "the scales")};
}

}  // namespace

MatrixQuantizer::MatrixQuantizer(const QuantizeDesc& desc, const Machine& machine) : desc_(desc), machine_(machine) {
  const std::int64_t widest = std::max({desc.x_ld, desc.code_ld, desc.scale.ld});
  if (desc.rows > 0 && widest > kMostElements / desc.rows) {
    throw Error(Status::unsupported,
                fmt::format("ironwood: {} rows of {} elements; matrices of up to 2^40 elements are accepted",
                            desc.rows, widest));
  }
}

std::shared_ptr<backend::Event> MatrixQuantizer::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                                         const QuantizeArgs& args) {
  auto* model_queue = dynamic_cast<ModelQueue*>(queue.get());
  if (model_queue == nullptr) throw Error(Status::invalid_argument, "ironwood: the queue is of another backend");
  bind(desc_, args);
  return model_queue->run(args.wait, [&] { return run(args); });
}

double MatrixQuantizer::run(const QuantizeArgs& args) const {
  const Bound bound = bind(desc_, args);
  const std::int64_t rows = args.rows, cols = desc_.cols;
  if (rows == 0) return 0;
  const numerics::ScaleGrid& grid = desc_.scale.grid;
  const std::int64_t scale_cols = grid.scale_cols(cols);
  const std::int64_t band = std::min(grid.group_rows == 0 ? rows : std::max<std::int64_t>(grid.group_rows, 1), rows);
  const auto element = static_cast<std::int64_t>(numerics::size_of(desc_.x));
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(checked_mul(band, cols)));
  std::vector<float> scales(static_cast<std::size_t>(scale_cols));
  for (std::int64_t first = 0, group = 0; first < rows; first += band, ++group) {
    const std::int64_t count = std::min(band, rows - first);
    numerics::quantize(desc_.x, bound.x + first * desc_.x_ld * element, count, cols, desc_.x_ld, desc_.code,
                       {0, grid.group_cols}, desc_.quantizer, codes, scales);
    std::memcpy(bound.scales + group * desc_.scale.ld * 4, scales.data(), scales.size() * sizeof(float));
    for (std::int64_t row = 0; row < count; ++row) {
      std::memcpy(bound.codes + (first + row) * desc_.code_ld, codes.data() + row * cols,
                  static_cast<std::size_t>(cols));
    }
  }
  const double elements = static_cast<double>(rows) * static_cast<double>(cols);
  const double bytes = elements * (2 * static_cast<double>(element) + 1) +
                       4 * static_cast<double>(grid.scale_rows(rows)) * static_cast<double>(scale_cols);
  return machine_.assume.launch_ns + bytes / machine_.hbm_bytes_per_ns();
}

}  // namespace ironcl::ironwood
