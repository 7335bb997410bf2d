// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"

namespace ironcl::opencl {
namespace {

using numerics::ceil_div;
using numerics::checked_mul;

bool is_nan_code(backend::DType type, std::uint8_t code) {
  if (type == backend::DType::e4m3fn) return (code & 0x7f) == 0x7f;
  if (type == backend::DType::e5m2) return (code & 0x7f) > 0x7c;
  return false;
}

}  // namespace

std::int64_t padded_n(const Layout& layout, std::int64_t n) {
  return layout.n_block == 0 ? n : checked_mul(ceil_div(n, layout.n_block), layout.n_block);
}

std::int64_t padded_k(const Layout& layout, std::int64_t k) {
  const std::int64_t multiple = std::max(layout.k_pad, layout.k_run);
  return checked_mul(ceil_div(k, multiple), multiple);
}

std::int64_t packed_bytes(const Layout& layout, std::int64_t n, std::int64_t k) {
  return checked_mul(padded_n(layout, n), padded_k(layout, k));
}

void pack_codes(const Layout& layout, std::int64_t n, std::int64_t k, const std::uint8_t* codes, std::int64_t ld,
                std::uint8_t* packed) {
  const std::int64_t block = layout.n_block == 0 ? n : layout.n_block, run = layout.k_run;
  const std::int64_t n_pad = padded_n(layout, n), k_pad = padded_k(layout, k);
  constexpr std::int64_t kStep = 64;  // Codes of a column taken at a time: one cache line.
  for (std::int64_t first = 0; first < n_pad; first += block) {
    std::uint8_t* const out = packed + first * k_pad;
    for (std::int64_t k0 = 0; k0 < k_pad; k0 += kStep) {
      const std::int64_t k1 = std::min(k0 + kStep, k_pad);
      for (std::int64_t j = 0; j < block; ++j) {
        const bool inside = first + j < n;
        const std::uint8_t* const row = codes + (first + j) * ld;
        if (run == 1) {
          for (std::int64_t c = k0; c < k1; ++c) out[c * block + j] = inside && c < k ? row[c] : 0;
        } else {
          for (std::int64_t c = k0; c < k1; c += run) {
            std::uint8_t* const to = out + (c / run * block + j) * run;
            const std::int64_t count = inside ? std::clamp<std::int64_t>(k - c, 0, run) : 0;
            if (count > 0) std::memcpy(to, row + c, static_cast<std::size_t>(count));
            if (count < run) std::memset(to + count, 0, static_cast<std::size_t>(run - count));
          }
        }
      }
    }
  }
}

void unpack_codes(const Layout& layout, std::int64_t n, std::int64_t k, const std::uint8_t* packed,
                  std::uint8_t* codes) {
  const std::int64_t block = layout.n_block == 0 ? n : layout.n_block, run = layout.k_run;
  const std::int64_t k_pad = padded_k(layout, k);
  for (std::int64_t row = 0; row < n; ++row) {
    const std::uint8_t* const from = packed + row / block * block * k_pad;
    for (std::int64_t c = 0; c < k; ++c) codes[row * k + c] = from[(c / run * block + row % block) * run + c % run];
  }
}

Weights::Weights(ContextPtr context, const backend::WeightsDesc& desc, const Layout& layout)
    : context_(std::move(context)), dtype_(desc.dtype), n_(desc.n), k_(desc.k), scale_(desc.scale), first_(layout) {
  if (desc.scale.dtype != backend::DType::none) {
    const std::int64_t rows = scale_.grid.scale_rows(n_), cols = scale_.grid.scale_cols(k_);
    const auto width = static_cast<std::size_t>(cols) * numerics::size_of(scale_.dtype);
    original_scales_.resize(static_cast<std::size_t>(rows) * width);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(original_scales_.data() + static_cast<std::size_t>(row) * width,
                  desc.scales + row * scale_.ld * numerics::size_of(scale_.dtype), width);
    }
    scale_.ld = cols;
  }
  forms_.emplace(layout.name(), upload(layout, reinterpret_cast<const std::uint8_t*>(desc.data), desc.ld));
}

PackedWeights Weights::upload(const Layout& layout, const std::uint8_t* codes, std::int64_t ld) const {
  PackedWeights form;
  form.layout = layout;
  form.n_pad = padded_n(layout, n_);
  form.k_pad = padded_k(layout, k_);
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(packed_bytes(layout, n_, k_)));
  pack_codes(layout, n_, k_, codes, ld, packed.data());

  // One f32 scale a column and scale group of k, next to one another by column; 1 without scales.
  const bool scaled = scale_.dtype != backend::DType::none;
  const numerics::ScaleGrid grid = scaled ? scale_.grid.resolved(n_, k_) : numerics::ScaleGrid{n_, k_};
  const std::int64_t groups = ceil_div(k_, grid.group_cols);
  std::vector<float> scales(static_cast<std::size_t>(checked_mul(groups, form.n_pad)), 0.0f);
  for (std::int64_t row = 0; row < n_; ++row) {
    for (std::int64_t group = 0; group < groups; ++group) {
      float scale = 1.0f;
      if (scaled) {
        scale = static_cast<float>(
            numerics::load_as_f64(scale_.dtype, original_scales_.data(), row / grid.group_rows * scale_.ld + group));
      }
      // A NaN code makes its whole column of D NaN: said once here, so that kernels need not look for it.
      const std::uint8_t* const first = codes + row * ld + group * grid.group_cols;
      const std::int64_t count = std::min(grid.group_cols, k_ - group * grid.group_cols);
      bool nan = false;
      for (std::int64_t c = 0; c < count; ++c) nan |= is_nan_code(dtype_, first[c]);
      if (nan) scale = std::numeric_limits<float>::quiet_NaN();
      scales[static_cast<std::size_t>(group * form.n_pad + row)] = scale;
    }
  }
  const auto make = [&](const void* data, std::size_t bytes) {
    if (bytes > context_->features.max_buffer_bytes) {
      throw backend::Error(backend::Status::out_of_device_memory,
                           "weights of " + std::to_string(bytes) + " bytes: " + context_->features.name +
                               " takes at most " + std::to_string(context_->features.max_buffer_bytes) +
                               " in one buffer");
    }
    return guarded("weights of " + std::to_string(bytes) + " bytes", [&] {
      return cl::Buffer(context_->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes, const_cast<void*>(data));
    });
  };
  form.codes = make(packed.data(), packed.size());
  form.scales = make(scales.data(), scales.size() * sizeof(float));
  return form;
}

std::vector<std::uint8_t> Weights::read_codes(const PackedWeights& form) const {
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(form.n_pad * form.k_pad));
  guarded("reading weights", [&] {
    const cl::CommandQueue queue(context_->context, context_->device);
    queue.enqueueReadBuffer(form.codes, CL_TRUE, 0, packed.size(), packed.data());
  });
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(n_ * k_));
  unpack_codes(form.layout, n_, k_, packed.data(), codes.data());
  return codes;
}

const PackedWeights& Weights::packed(const Layout& layout) {
  const std::lock_guard lock(mutex_);
  if (const auto found = forms_.find(layout.name()); found != forms_.end()) return found->second;
  const std::vector<std::uint8_t> codes = read_codes(forms_.at(first_.name()));
  return forms_.emplace(layout.name(), upload(layout, codes.data(), k_)).first->second;
}

std::uint64_t Weights::device_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  const std::int64_t groups = scale_.dtype == backend::DType::none ? 1 : scale_.grid.scale_cols(k_);
  for (const auto& [name, form] : forms_) {
    bytes += static_cast<std::uint64_t>(form.n_pad * form.k_pad + groups * form.n_pad * 4);
  }
  return bytes;
}

void Weights::export_to(std::byte* data, std::byte* scales) {
  const std::lock_guard lock(mutex_);
  const std::vector<std::uint8_t> codes = read_codes(forms_.at(first_.name()));
  std::memcpy(data, codes.data(), codes.size());
  if (!original_scales_.empty()) std::memcpy(scales, original_scales_.data(), original_scales_.size());
}

}  // namespace ironcl::opencl
