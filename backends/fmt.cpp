// SPDX-License-Identifier: Apache-2.0
// The one translation unit that compiles fmt 9, of which nothing is linked: a plugin needs no library of it. Its
// headers leave these templates to whoever compiles it.
#include <fmt/format-inl.h>

namespace fmt::detail {

template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
template auto dragonbox::to_decimal<float>(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal<double>(double) noexcept -> dragonbox::decimal_fp<double>;

}  // namespace fmt::detail
