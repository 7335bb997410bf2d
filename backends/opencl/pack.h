// SPDX-License-Identifier: Apache-2.0
// Weights on a device: codes in a kernel's layout, scales as f32 for each column, and the way back bit for bit.
#pragma once

#include <map>
#include <mutex>

#include "backends/opencl/kernels.h"
#include "backends/opencl/objects.h"

namespace ironcl::opencl {

/// Bytes of n x k codes in `layout`.
std::int64_t packed_bytes(const Layout& layout, std::int64_t n, std::int64_t k);
std::int64_t padded_n(const Layout& layout, std::int64_t n);
std::int64_t padded_k(const Layout& layout, std::int64_t k);

/// codes [n, k], rows ld apart, into `packed` (packed_bytes of it); padding becomes zero codes.
void pack_codes(const Layout& layout, std::int64_t n, std::int64_t k, const std::uint8_t* codes, std::int64_t ld,
                std::uint8_t* packed);

/// The way back, tight.
void unpack_codes(const Layout& layout, std::int64_t n, std::int64_t k, const std::uint8_t* packed,
                  std::uint8_t* codes);

/// One packed form of a weight on the device.
struct PackedWeights {
  Layout layout;
  cl::Buffer codes, scales;
  std::int64_t n_pad = 0, k_pad = 0;
};

/// Immutable but for further layouts, which are made when a plan first asks for one that prepare did not make.
class Weights final : public backend::Weights {
 public:
  Weights(ContextPtr context, const backend::WeightsDesc& desc, const Layout& layout);
  std::uint64_t device_bytes() const noexcept override;
  std::string layout() const override { return first_.name(); }
  std::uint64_t data_bytes() const noexcept override { return static_cast<std::uint64_t>(n_ * k_); }
  std::uint64_t scale_bytes() const noexcept override { return original_scales_.size(); }
  void export_to(std::byte* data, std::byte* scales) override;

  /// The weight in `layout`. Slow where it is not there yet: read back, packed again, written.
  const PackedWeights& packed(const Layout& layout);

  backend::DType dtype() const noexcept { return dtype_; }
  std::int64_t n() const noexcept { return n_; }
  std::int64_t k() const noexcept { return k_; }
  const backend::ScaleDesc& scale() const noexcept { return scale_; }
  const ContextPtr& context() const noexcept { return context_; }

 private:
  PackedWeights upload(const Layout& layout, const std::uint8_t* codes, std::int64_t ld) const;
  std::vector<std::uint8_t> read_codes(const PackedWeights& packed) const;

  ContextPtr context_;
  backend::DType dtype_;
  std::int64_t n_, k_;
  backend::ScaleDesc scale_;
  std::vector<std::byte> original_scales_;  ///< Tight, as given.
  Layout first_;
  mutable std::mutex mutex_;
  std::map<std::string, PackedWeights> forms_;
};

}  // namespace ironcl::opencl
