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
  return rows <= 0 ? 0 : numerics::bytes_of(type, static_cast<std::uint64_t>((rows - 1) * ld + cols));
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

namespace {

/// Where a span's bytes lie: those of two spans can be the same only where the space is.
struct Place {
  const void* space;
  std::uint64_t start;
};

Place place_of(const backend::Span& span) {
  const backend::Buffer& buffer = *span.buffer;
  if (buffer.imported == nullptr) return {&buffer, span.offset};
  if (buffer.is_host_pointer) return {nullptr, reinterpret_cast<std::uintptr_t>(buffer.imported) + span.offset};
  return {buffer.imported, span.offset};
}

}  // namespace

void check_overlaps(std::initializer_list<NamedSpan> spans) {
  for (const NamedSpan& out : spans) {
    if (!out.written || !out.span) continue;
    for (const NamedSpan& other : spans) {
      if (&other == &out || !other.span) continue;
      const Place here = place_of(out.span), there = place_of(other.span);
      const bool apart = here.space != there.space || here.start + out.span.size <= there.start ||
                         there.start + other.span.size <= here.start;
      if (!apart && out.span.size != 0 && other.span.size != 0) {
        invalid(
            fmt::format("{} (written) overlaps {} in the same memory: bytes {} to {} and {} to {}; give each its own",
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
