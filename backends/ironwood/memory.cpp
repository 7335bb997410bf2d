// SPDX-License-Identifier: Apache-2.0
// Buffers and weights in host memory.
#include "backends/ironwood/memory.h"

#include <cstring>

#include "backends/ironwood/problem.h"
#include "backends/numerics/casts.h"

namespace ironcl::ironwood {

using backend::Error;
using backend::Status;
using numerics::DType;

HostBuffer::HostBuffer(std::uint64_t size) : size_(size) {
  try {
    own_ = allocate_aligned(size);
  } catch (const std::bad_alloc&) {
    throw Error(Status::out_of_device_memory, "ironwood: no host memory for a buffer of {} bytes", size);
  }
  data_ = own_.get();
}

std::byte* address_of(const backend::Span& span) {
  return span ? dynamic_cast<const HostBuffer&>(*span.buffer).data() + span.offset : nullptr;
}

PreparedWeights::PreparedWeights(const backend::WeightsDesc& desc) {
  if (const auto refusal = check_weights(desc.dtype, desc.scale, desc.n, desc.k, desc.matrices)) {
    throw Error(Status::unsupported, "ironwood: " + refusal->text);
  }
  /// Rows of `bytes` bytes without what lies between them.
  const auto tight = [](const std::byte* from, std::int64_t rows, std::int64_t bytes, std::int64_t apart) {
    std::vector<std::byte> to(static_cast<std::size_t>(rows * bytes));
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(to.data() + row * bytes, from + row * apart, static_cast<std::size_t>(bytes));
    }
    return to;
  };
  try {
    codes_ = tight(desc.data, desc.matrices * desc.n, numerics::bytes_of(desc.dtype, desc.k),
                   numerics::bytes_of(desc.dtype, desc.ld));
    if (desc.dtype == DType::e2m1) {
      given_halves_ = std::move(codes_);
      codes_.resize(given_halves_.size() * 2);
      for (std::size_t i = 0; i < codes_.size(); ++i) {
        const auto code = std::to_integer<std::uint8_t>(given_halves_[i / 2] >> (i % 2 * 4));
        codes_[i] = static_cast<std::byte>(numerics::encode_e4m3fn(numerics::decode_e2m1(code)));
      }
    }
    if (desc.scale.dtype == DType::none) return;
    const numerics::ScaleGrid& grid = desc.scale.grid;
    const std::int64_t rows = grid.scale_rows(desc.n), cols = grid.scale_cols(desc.k);
    const std::int64_t scale = numerics::size_of(desc.scale.dtype),
                       scale_ld = desc.scale.ld != 0 ? desc.scale.ld : cols;
    given_scales_ = tight(desc.scales, desc.matrices * rows, cols * scale, scale_ld * scale);
    std::vector<float> given(static_cast<std::size_t>(desc.matrices * rows * cols));
    numerics::decode(desc.scale.dtype, given_scales_.data(), given);
    // As the kernels read them (plan.h, ScaleLayout): transposed where there is one scale per row.
    const std::int64_t row_step = grid.group_rows == 1 ? 1 : cols, col_step = grid.group_rows == 1 ? rows : 1;
    scales_.resize(given.size());
    auto next = given.begin();
    for (std::int64_t g = 0; g < desc.matrices; ++g) {
      const float global = desc.global_scales != nullptr ? desc.global_scales[g] : 1.0f;
      float* const to = scales_.data() + g * rows * cols;
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < cols; ++j) to[i * row_step + j * col_step] = *next++ * global;
    }
  } catch (const std::bad_alloc&) {
    throw Error(Status::out_of_device_memory, "ironwood: no host memory for {} weights of {}x{}", desc.matrices,
                desc.n, desc.k);
  }
}

void PreparedWeights::export_to(std::byte* data, std::byte* scales) {
  const std::vector<std::byte>& given = given_halves_.empty() ? codes_ : given_halves_;
  if (!given.empty()) std::memcpy(data, given.data(), given.size());
  if (!given_scales_.empty()) std::memcpy(scales, given_scales_.data(), given_scales_.size());
}

}  // namespace ironcl::ironwood
