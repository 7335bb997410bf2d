// SPDX-License-Identifier: Apache-2.0
// ironcl.hpp, part: quantisers, and one call of one. Next door: queue.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "device.hpp"

namespace ironcl {

/// A matrix to quantise; every field as in ironcl_quantize_desc. The default is bf16 to e4m3fn in token groups of
/// 128.
struct QuantizeDesc {
  std::int64_t rows = 0, cols = 0;
  std::int64_t x_ld = 0, code_ld = 0;
  ironcl_dtype x = IRONCL_BF16;
  ironcl_dtype code = IRONCL_F8_E4M3FN;
  Scale scale{IRONCL_F32, 1, 128};
  ironcl_quantizer_desc quantizer{};
};

/// A quantiser: everything that is compiled or looked up for one. One thread at a time.
class Quantize : public detail::Ref<ironcl_op, &ironcl_plugin::op_destroy> {
 public:
  Quantize() = default;
  Quantize(const Device& device, const QuantizeDesc& desc) : Ref(device.owner(), &device.api(), nullptr) {
    auto c = detail::sized<ironcl_quantize_desc>();
    c.rows = desc.rows;
    c.cols = desc.cols;
    c.x_ld = desc.x_ld;
    c.code_ld = desc.code_ld;
    c.x_dtype = desc.x;
    c.code_dtype = desc.code;
    c.scale = desc.scale;
    c.quantizer = desc.quantizer;
    detail::check(api_->op_create, device.handle(), &c, &handle_);
  }
};

/// One call of a quantiser; every field as in ironcl_quantize_args. Buffers and events convert.
struct QuantizeArgs {
  std::int64_t rows = 0;
  ironcl_span x{}, codes{}, scales{}, global{};
  std::vector<ironcl_event> wait{};
};

}  // namespace ironcl
