// SPDX-License-Identifier: Apache-2.0
// Checks of single fields that several descriptions have: types, sizes, leading dimensions, scales, quantisers. Each
// throws as validate.h says. Next door: descs.cpp, descs_experts.cpp.
#pragma once

#include "backends/interface.h"
#include "host/boundary/structs.h"

namespace ironcl::adapter {

/// As messages name it; "none" for none.
std::string shown(backend::DType type);

/// The fields of one struct: `field` names the one that is checked, after the struct's own name.
class Fields {
 public:
  explicit constexpr Fields(std::string_view of) : of_(of) {}

  /// Throws invalid_argument: the struct's name, a dot, and the text.
  template <class... Args>
  [[noreturn]] void invalid(fmt::format_string<Args...> text, Args&&... args) const {
    boundary::invalid("{}.{}", of_, fmt::format(text, std::forward<Args>(args)...));
  }

  /// The value of an enumeration of plugin.h whose last enumerator is `last`.
  template <class Enum>
  Enum enumerator(std::uint32_t value, std::uint32_t last, std::string_view field) const {
    if (value > last)
      boundary::unimplemented("{}.{} is {}; this plugin knows 0 to {} (ABI {}.{})", of_, field, value, last,
                              IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
    return static_cast<Enum>(value);
  }

  backend::DType dtype(ironcl_dtype value, std::string_view field) const;
  /// f32, f16 or bf16.
  backend::DType float_type(ironcl_dtype value, std::string_view field, bool or_none = false) const;
  /// A type that operands have: a float or a quantised one.
  backend::DType operand_type(ironcl_dtype value, std::string_view field) const;
  /// A size of `least` to 2^31 - 1.
  std::int64_t dimension(std::int64_t value, std::int64_t least, std::string_view field) const;
  /// A value of least to most.
  std::int64_t within(std::int64_t value, std::int64_t least, std::int64_t most, std::string_view field) const;
  /// Elements from a row to the next; 0 is tight.
  std::int64_t leading(std::int64_t value, std::int64_t cols, std::string_view field,
                       std::string_view cols_name = "cols") const;
  /// The scales of a [rows, cols] operand. `tight`: a leading dimension other than the tight one is refused.
  backend::ScaleDesc scale(const ironcl_scale_desc& in, std::int64_t cols, bool tight,
                           std::string_view field = "scale") const;
  backend::Quantizer quantizer(const ironcl_quantizer_desc& in, std::string_view field = "quantizer") const;
  /// `matrices`, with the grouping: 0 where there is none.
  std::int64_t matrices(backend::Grouping grouping, std::uint32_t count) const;
  /// What an activation clamps to: finite, not negative; 0 is none.
  float limit(float value, std::string_view field) const;
  /// Refuses scales of several rows, `why` saying who needs them one by one. No scales at all are fine.
  void check_row_scales(const backend::ScaleDesc& scale, std::string_view field, std::string_view why) const;
  /// Checks that codes have the scales that a quantiser makes: f32, unless they are given.
  void check_made_scales(const backend::ScaleDesc& scale, const backend::Quantizer& quantizer) const;
  /// A matrix whose last element cannot be addressed is refused before anybody multiplies its sizes.
  void check_extent(std::int64_t rows, std::int64_t ld, std::int64_t matrices, std::string_view what) const;
  /// Rows of a type of less than a byte have whole bytes.
  void check_nibbles(backend::DType type, std::int64_t cols, std::int64_t ld, std::string_view what) const;

 private:
  /// The place of an operand's first row or column within its block.
  std::int64_t origin(std::uint32_t value, std::uint32_t group, std::string_view field, std::string_view axis) const;

  std::string_view of_;
};

}  // namespace ironcl::adapter
