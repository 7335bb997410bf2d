// SPDX-License-Identifier: Apache-2.0
// Buffers and weights in host memory.
#include "backends/ironwood/memory.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "backends/ironwood/problem.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"

namespace ironcl::ironwood {

using backend::Error;
using backend::Status;
using numerics::DType;

HostBuffer::HostBuffer(std::uint64_t size) : size_(size) {
  try {
    own_ = allocate_aligned(size);
  } catch (const std::bad_alloc&) {
    throw Error(Status::out_of_device_memory, fmt::format("ironwood: no host memory for a buffer of {} bytes", size));
  }
  data_ = own_.get();
}

std::byte* address_of(const backend::Span& span) {
  return dynamic_cast<const HostBuffer&>(*span.buffer).data() + span.offset;
}

std::vector<float> lay_out_scales(DType type, const std::byte* scales, numerics::ScaleGrid grid, std::int64_t rows,
                                  std::int64_t cols, std::int64_t ld) {
  const std::int64_t row_groups = grid.scale_rows(rows), col_groups = grid.scale_cols(cols);
  const auto element = static_cast<std::int64_t>(numerics::size_of(type));
  std::vector<float> laid_out(static_cast<std::size_t>(numerics::checked_mul(row_groups, col_groups)));
  std::vector<float> row(static_cast<std::size_t>(col_groups));
  const bool transposed = grid.group_rows == 1;
  const std::int64_t row_step = transposed ? 1 : col_groups, col_step = transposed ? row_groups : 1;
  for (std::int64_t i = 0; i < row_groups; ++i) {
    numerics::decode(type, scales + i * ld * element, std::span<float>(row));
    for (std::int64_t j = 0; j < col_groups; ++j) {
      laid_out[static_cast<std::size_t>(i * row_step + j * col_step)] = row[static_cast<std::size_t>(j)];
    }
  }
  return laid_out;
}

PreparedWeights::PreparedWeights(const backend::WeightsDesc& desc)
    : n_(desc.n),
      k_(desc.k),
      matrices_(desc.matrices),
      dtype_(desc.dtype),
      scale_dtype_(desc.scale.dtype),
      grid_(desc.scale.grid) {
  if (const auto refusal = check_weights(desc.dtype, desc.scale, desc.n, desc.k, desc.matrices)) {
    throw Error(Status::unsupported, "ironwood: " + refusal->text);
  }
  const std::int64_t ld = desc.ld != 0 ? desc.ld : k_;
  const std::int64_t element = numerics::size_of(dtype_);
  try {
    codes_.resize(static_cast<std::size_t>(matrices_ * n_ * k_ * element));
    for (std::int64_t row = 0; row < matrices_ * n_; ++row) {
      std::memcpy(codes_.data() + row * k_ * element, desc.data + row * ld * element,
                  static_cast<std::size_t>(k_ * element));
    }
    if (scale_dtype_ == DType::none) return;
    const std::int64_t rows = grid_.scale_rows(n_), cols = grid_.scale_cols(k_);
    const std::int64_t scale_ld = desc.scale.ld != 0 ? desc.scale.ld : cols;
    const auto scale_element = static_cast<std::int64_t>(numerics::size_of(scale_dtype_));
    given_scales_.resize(static_cast<std::size_t>(matrices_ * rows * cols * scale_element));
    for (std::int64_t row = 0; row < matrices_ * rows; ++row) {
      std::memcpy(given_scales_.data() + row * cols * scale_element, desc.scales + row * scale_ld * scale_element,
                  static_cast<std::size_t>(cols * scale_element));
    }
    for (std::int64_t g = 0; g < matrices_; ++g) {
      const auto laid_out =
          lay_out_scales(scale_dtype_, given_scales_.data() + g * rows * cols * scale_element, grid_, n_, k_, cols);
      scales_.insert(scales_.end(), laid_out.begin(), laid_out.end());
    }
  } catch (const std::bad_alloc&) {
    throw Error(Status::out_of_device_memory,
                fmt::format("ironwood: no host memory for {} weights of {}x{}", matrices_, n_, k_));
  }
}

void PreparedWeights::export_to(std::byte* data, std::byte* scales) {
  if (!codes_.empty()) std::memcpy(data, codes_.data(), codes_.size());
  if (!given_scales_.empty()) std::memcpy(scales, given_scales_.data(), given_scales_.size());
}

}  // namespace ironcl::ironwood
