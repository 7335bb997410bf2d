// SPDX-License-Identifier: Apache-2.0
// Checks of spans and wait lists. Next door: spans.h.
#include "plugins/adapter/spans.h"

#include <fmt/format.h>

#include <algorithm>

#include "plugins/adapter/structs.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

backend::Span span_in_buffer(const ironcl_span& in, std::string_view name, const DeviceState& device) {
  if (in.buffer == nullptr) {
    if (in.offset != 0 || in.size != 0) {
      invalid(fmt::format("{}.buffer is NULL, but offset is {} and size {}; an absent span is all zero", name,
                          in.offset, in.size));
    }
    return {};
  }
  if (in.buffer->device.get() != &device) {
    invalid(fmt::format("{}.buffer is of another device; copy the bytes to a buffer of this one", name));
  }
  const std::uint64_t held = in.buffer->buffer->size();
  if (in.offset > held || in.size > held - in.offset) {
    invalid(
        fmt::format("{} is {} bytes from offset {}, beyond the buffer's {} bytes", name, in.size, in.offset, held));
  }
  return {in.buffer->buffer, in.offset, in.size};
}

std::uint64_t bytes_of(std::int64_t rows, std::int64_t ld, std::int64_t cols, backend::DType type) {
  return rows <= 0 ? 0 : static_cast<std::uint64_t>((rows - 1) * ld + cols) * size_of(type);
}

void check_room(const backend::Span& span, std::string_view name, std::uint64_t bytes, std::uint64_t element,
                const std::string& rows, const DeviceState& device) {
  if (span.size < bytes)
    invalid(fmt::format("{} is {} bytes, expected at least {} for {}", name, span.size, bytes, rows));
  const std::uint64_t alignment = std::max<std::uint64_t>(device.buffer_alignment, 1);
  if (span.offset % alignment != 0) {
    invalid(fmt::format("{}.offset is {}, expected a multiple of the device's buffer_alignment {}", name, span.offset,
                        alignment));
  }
  if (element != 0 && span.offset % element != 0) {
    invalid(fmt::format("{}.offset is {}, expected a multiple of the element size {}", name, span.offset, element));
  }
}

void check_overlaps(std::initializer_list<NamedSpan> spans) {
  for (const NamedSpan& out : spans) {
    if (!out.written || !out.span) continue;
    for (const NamedSpan& other : spans) {
      if (&other == &out || !other.span || other.span.buffer != out.span.buffer) continue;
      const bool apart = out.span.offset + out.span.size <= other.span.offset ||
                         other.span.offset + other.span.size <= out.span.offset;
      if (!apart && out.span.size != 0 && other.span.size != 0) {
        invalid(
            fmt::format("{} (written) overlaps {} in the same buffer: bytes {} to {} and {} to {}; give each its own",
                        out.name, other.name, out.span.offset, out.span.offset + out.span.size, other.span.offset,
                        other.span.offset + other.span.size));
      }
    }
  }
}

std::vector<std::shared_ptr<backend::Event>> wait_list(const ironcl_event* wait, std::uint32_t count,
                                                       std::string_view name) {
  std::vector<std::shared_ptr<backend::Event>> out;
  if (count != 0) require(wait, fmt::format("{}.wait", name));
  out.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    require(wait[i], fmt::format("{}.wait[{}]", name, i));
    out.push_back(wait[i]->event);
  }
  return out;
}

backend::Span transfer_span(const ironcl_span& in, std::string_view name, const DeviceState& device) {
  require(in.buffer, fmt::format("{}.buffer", name));
  if (in.size == 0) invalid(fmt::format("{}.size is 0, expected at least 1 byte; leave the call out", name));
  return span_in_buffer(in, name, device);
}

}  // namespace ironcl::adapter
