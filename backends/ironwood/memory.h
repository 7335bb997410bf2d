// SPDX-License-Identifier: Apache-2.0
// The device's HBM as the host holds it: buffers and prepared weights.
#pragma once

#include "backends/interface.h"
#include "backends/ironwood/core.h"

namespace ironcl::ironwood {

/// Bytes of the host that stand for HBM: own, or lent by import_buffer.
class HostBuffer final : public backend::Buffer {
 public:
  /// Throws Error(out_of_device_memory).
  explicit HostBuffer(std::uint64_t size);
  /// Borrows `data`.
  HostBuffer(std::byte* data, std::uint64_t size) : data_(data), size_(size) {}

  std::uint64_t size() const noexcept override { return size_; }
  std::byte* data() const noexcept { return data_; }

 private:
  AlignedBytes own_;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

/// Where a span begins, of this backend and as long as it must be, which the adapter has checked; null where absent.
std::byte* address_of(const backend::Span& span);

/// `count` numbers of the device's memory; none where the span is absent.
template <class T>
std::span<T> numbers(const backend::Span& span, std::int64_t count) {
  return {reinterpret_cast<T*>(address_of(span)), static_cast<std::size_t>(span ? count : 0)};
}

/// B, one matrix or several, kept as given: codes tight, scales as given and as the kernels read them, global ones
/// multiplied in. Codes of e2m1 are held as e4m3fn, which has all of their values: the matrix unit has no four bits.
class PreparedWeights final : public backend::Weights {
 public:
  /// Throws Error(unsupported) with the reason of check_weights, Error(out_of_device_memory).
  explicit PreparedWeights(const backend::WeightsDesc& desc);

  std::uint64_t device_bytes() const noexcept override { return codes_.size() + scales_.size() * sizeof(float); }
  std::string form() const override { return "row_major"; }
  std::uint64_t data_bytes() const noexcept override {
    return given_halves_.empty() ? codes_.size() : given_halves_.size();
  }
  std::uint64_t scale_bytes() const noexcept override { return given_scales_.size(); }
  void export_to(std::byte* data, std::byte* scales) override;

  const std::vector<std::byte>& codes() const noexcept { return codes_; }
  /// One matrix's after another's.
  const std::vector<float>& scales() const noexcept { return scales_; }

 private:
  std::vector<std::byte> codes_, given_scales_;
  std::vector<std::byte> given_halves_;  ///< Codes of e2m1, two per byte.
  std::vector<float> scales_;
};

}  // namespace ironcl::ironwood
