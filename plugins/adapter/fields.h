// SPDX-License-Identifier: Apache-2.0
// Checks of single fields that several descriptions have: types, sizes, leading dimensions, scales, quantisers. Each
// throws backend::Error as validate.h says; `field` names what was checked. Next door: validate_desc.cpp,
// validate_quantize.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/interface.h"
#include "host/include/ironcl/plugin_ops.h"

namespace ironcl::adapter {

/// The value of an enumeration of plugin.h whose last enumerator is `last`.
std::uint32_t enumerator(std::uint32_t value, std::uint32_t last, std::string_view field);

backend::DType dtype(ironcl_dtype value, std::string_view field);

/// As messages name it; "none" for none.
std::string shown(backend::DType type);

/// A size of `least` to 2^31 - 1.
std::int64_t dimension(std::int64_t value, std::int64_t least, std::string_view field);

/// Elements from a row to the next; 0 is tight.
std::int64_t leading(std::int64_t value, std::int64_t cols, std::string_view field, std::string_view cols_name);

/// A matrix whose last element cannot be addressed is refused before anybody multiplies its sizes.
void check_extent(std::int64_t rows, std::int64_t ld, std::int64_t groups, std::string_view field);

/// The scales of a [rows, cols] operand. `tight`: a leading dimension other than the tight one is refused.
backend::ScaleDesc scale_desc(const ironcl_scale_desc& in, std::int64_t cols, bool tight, std::string_view field);

/// Rows of a type of less than a byte have whole bytes.
void check_nibbles(backend::DType type, std::int64_t cols, std::int64_t ld, std::string_view field);

/// Refuses scales of several rows, `why` saying who needs them one by one. No scales at all are fine.
void check_row_scales(const backend::ScaleDesc& scale, std::string_view field, std::string_view why);

/// matrices of a struct called `name`, with its grouping: 0 where there is none.
std::int64_t check_matrices(backend::Grouping grouping, std::uint32_t count, std::string_view name);

backend::Quantizer quantizer(const ironcl_quantizer_desc& in, std::string_view field);

}  // namespace ironcl::adapter
