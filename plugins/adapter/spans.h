// SPDX-License-Identifier: Apache-2.0
// Checks of what a call brings: spans inside their buffers, large enough, aligned, apart; wait lists. Each throws
// backend::Error as validate.h says; `name` names the field. Next door: validate_args.cpp, validate_quantize.cpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/interface.h"
#include "host/include/ironcl/plugin_ops.h"
#include "plugins/adapter/handles.h"

namespace ironcl::adapter {

/// A span that lies in its buffer, on `device`; empty where it is absent (all zero).
backend::Span span_in_buffer(const ironcl_span& in, std::string_view name, const DeviceState& device);

/// Bytes of a matrix of `rows` rows; 0 where there are none. The description's own check has shown that this does not
/// overflow.
std::uint64_t bytes_of(std::int64_t rows, std::int64_t ld, std::int64_t cols, backend::DType type);

/// That a span has `bytes` and starts on the device's alignment and the element's (0: bytes). `rows` says for what
/// the bytes are needed: "m = 4".
void check_room(const backend::Span& span, std::string_view name, std::uint64_t bytes, std::uint64_t element,
                const std::string& rows, const DeviceState& device);

/// A span with its name, as the overlap check needs it.
struct NamedSpan {
  std::string_view name;
  const backend::Span& span;
  bool written;
};

/// That no written span overlaps another one.
void check_overlaps(std::initializer_list<NamedSpan> spans);

std::vector<std::shared_ptr<backend::Event>> wait_list(const ironcl_event* wait, std::uint32_t count,
                                                       std::string_view name);

}  // namespace ironcl::adapter
