// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: a problem and whether a device runs it. Next door: operations.hpp (plans for it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fields.h"
#include "handles.hpp"

namespace ironcl {

struct GemmArgs;
namespace detail {
class CGemmDesc;
}

/// The bytes of a contiguous range of trivially copyable values, borrowed.
template <class Range>
std::span<const std::byte> bytes_of(const Range& values) {
  return std::as_bytes(std::span(values));
}

/// Scales of an operand: one per block of rows x cols; 0 spans the dimension. As ironcl_scale_desc.
struct Scale {
  ironcl_dtype dtype = IRONCL_DTYPE_NONE;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::int64_t ld = 0;
  std::uint32_t row_origin = 0, col_origin = 0;   ///< Place of the operand's first row and column in its block.
  ironcl_dtype global_dtype = IRONCL_DTYPE_NONE;  ///< IRONCL_F32: one more factor for the whole operand.

  Scale() = default;
  Scale(ironcl_dtype type, std::uint32_t block_rows, std::uint32_t block_cols, std::int64_t leading = 0)
      : dtype(type), rows(block_rows), cols(block_cols), ld(leading) {}
  Scale(const ironcl_scale_desc& c)  // NOLINT: the same thing in C
      : dtype(c.dtype),
        rows(c.group_rows),
        cols(c.group_cols),
        ld(c.ld),
        row_origin(c.row_origin),
        col_origin(c.col_origin),
        global_dtype(c.global_dtype) {}
  operator ironcl_scale_desc() const { return {dtype, rows, cols, global_dtype, ld, row_origin, col_origin}; }
};

/// A problem; every field as in ironcl_gemm_desc. The default is a DeepSeek-style layer: e4m3fn operands given with
/// their scales, token groups of 128 and blocks of 128 x 128, f32 out.
struct GemmDesc {
  using Args = GemmArgs;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldd = 0;
  ironcl_dtype a_source = IRONCL_DTYPE_NONE;
  ironcl_dtype a = IRONCL_F8_E4M3FN;
  ironcl_dtype b = IRONCL_F8_E4M3FN;
  ironcl_dtype d = IRONCL_F32;
  ironcl_dtype bias = IRONCL_DTYPE_NONE;
  std::uint32_t flags = 0;
  std::uint32_t weakest_accuracy = IRONCL_ACCURACY_F32;
  std::uint32_t grouping = IRONCL_GROUPING_NONE;
  std::uint32_t matrices = 0;
  Scale a_scale{IRONCL_F32, 1, 128};
  Scale b_scale{IRONCL_F32, 128, 128};
  Scale d_scale{};
  ironcl_quantizer_desc a_quantizer{};
  ironcl_quantizer_desc d_quantizer{};
  std::uint32_t activation = 0;  ///< With one, B has 2 n rows.
  float activation_limit = 0;
  std::int64_t a_rows = 0;                                     ///< the most rows of a gathered A; 0: none is gathered
  std::vector<std::pair<std::string, std::string>> options{};  ///< a backend's own, such as {"variant", "gemm_tiled"}

  /// The problem of a description; options of its chain are left out.
  static GemmDesc from_c(const ironcl_gemm_desc& c) {
    GemmDesc desc;
    desc.flags = c.flags;
#define IRONCL_CONVERT(in_c, here) desc.here = c.in_c;
    IRONCL_PROBLEM_FIELDS(IRONCL_CONVERT)
#undef IRONCL_CONVERT
    return desc;
  }
  /// Borrows this.
  detail::CGemmDesc to_c() const;
};

namespace detail {

/// The C form of a GemmDesc, which it borrows from: keep the GemmDesc alive.
class CGemmDesc {
 public:
  explicit CGemmDesc(const GemmDesc& desc) : desc_(sized<ironcl_gemm_desc>()) {
    desc_.flags = desc.flags;
#define IRONCL_CONVERT(in_c, here) desc_.in_c = desc.here;
    IRONCL_PROBLEM_FIELDS(IRONCL_CONVERT)
#undef IRONCL_CONVERT
    if (desc.options.empty()) return;
    for (const auto& [key, value] : desc.options) items_.push_back({key.c_str(), value.c_str()});
    options_.chain.struct_size = sizeof options_;
    options_.chain.type = IRONCL_CHAIN_OPTIONS;
    options_.count = static_cast<std::uint32_t>(items_.size());
    options_.items = items_.data();
    desc_.next = &options_.chain;
  }
  CGemmDesc(const CGemmDesc&) = delete;
  CGemmDesc& operator=(const CGemmDesc&) = delete;
  const ironcl_gemm_desc* get() const { return &desc_; }

 private:
  ironcl_gemm_desc desc_;
  ironcl_options options_{};
  std::vector<ironcl_key_value> items_;
};

/// A description in C, whatever holds it.
template <class Struct>
const Struct* pointer_to(const Struct& desc) {
  return &desc;
}
inline const ironcl_gemm_desc* pointer_to(const CGemmDesc& desc) { return desc.get(); }

}  // namespace detail

inline detail::CGemmDesc GemmDesc::to_c() const { return detail::CGemmDesc(*this); }

/// The answer of supports(); true where the device will run the problem.
struct Support {
  std::uint32_t reason = IRONCL_REASON_NONE;
  std::uint32_t accuracy_class = IRONCL_ACCURACY_F32;
  std::uint32_t estimate_kind = IRONCL_TIME_NONE;
  double estimate_ns = 0;
  std::uint64_t workspace_bytes = 0;
  std::string text;
  explicit operator bool() const { return reason == IRONCL_REASON_NONE; }
};

}  // namespace ironcl
