// SPDX-License-Identifier: Apache-2.0
// Checks of spans and wait lists. Next door: spans.h.
#include "plugins/adapter/spans.h"

#include "backends/spans.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter {

namespace {

/// Put together where a message needs it.
struct Name {
  std::string_view of, member;
};
auto format_as(const Name& name) { return fmt::format("{}{}{}", name.of, name.of.empty() ? "" : ".", name.member); }

/// A span that lies in its buffer, on `device`; empty where it is absent (all zero).
backend::Span span_in_buffer(const ironcl_span& in, const Name& name, const DeviceState& device) {
  if (in.buffer == nullptr) {
    if (in.offset != 0 || in.size != 0)
      invalid("{}.buffer is NULL, but offset is {} and size {}; an absent span is all zero", format_as(name),
              in.offset, in.size);
    return {};
  }
  if (in.buffer->device.get() != &device)
    invalid("{}.buffer is of another device; copy the bytes to a buffer of this one", format_as(name));
  const std::uint64_t held = in.buffer->object->size();
  if (in.offset > held || in.size > held - in.offset)
    invalid("{} is {} bytes from offset {}, beyond the buffer's {} bytes", format_as(name), in.size, in.offset, held);
  return {in.buffer->object, in.offset, in.size};
}

void check_room(const Operand& operand, const Name& name, const Brings& brings, const DeviceState& device) {
  const backend::Span& span = operand.span;
  if (span.size < operand.room.bytes)
    invalid("{} is {} bytes, expected at least {} for {} = {}{}", format_as(name), span.size, operand.room.bytes,
            brings.name, brings.count, brings.a_rows == 0 ? "" : fmt::format(", a_rows = {}", brings.a_rows));
  if (span.offset % device.buffer_alignment != 0)
    invalid("{}.offset is {}, expected a multiple of the device's buffer_alignment {}", format_as(name), span.offset,
            device.buffer_alignment);
  if (operand.room.type == backend::DType::none) return;
  if (const std::uint64_t element = size_of(operand.room.type); element != 0 && span.offset % element != 0)
    invalid("{}.offset is {}, expected a multiple of the element size {}", format_as(name), span.offset, element);
}

}  // namespace

std::uint64_t bytes_of(std::int64_t rows, std::int64_t ld, std::int64_t cols, backend::DType type) {
  return rows <= 0 ? 0 : numerics::bytes_of(type, static_cast<std::uint64_t>((rows - 1) * ld + cols));
}

void take_operands(std::string_view args, const DeviceState& device, const Brings& brings,
                   std::initializer_list<Operand> operands) {
  for (const Operand& one : operands) {
    const Name name{args, one.name};
    one.span = span_in_buffer(one.given, name, device);
    one.span.written = one.written;
    const bool needed =
        one.presence == Presence::always || (one.presence == Presence::with_rows && brings.count != 0);
    if (one.absent != nullptr) {
      if (one.span) invalid("{} is given, but {}; leave it zero", format_as(name), one.absent);
    } else if (one.span) {
      check_room(one, name, brings, device);
    } else if (needed) {
      invalid("{} is absent; give a span of at least {} bytes", format_as(name), one.room.bytes);
    }
  }
  for (const Operand& out : operands) {
    for (const Operand& other : operands) {
      if (!out.written || &other == &out || !backend::overlap(out.span, other.span)) continue;
      invalid(
          "{0}.{1} (written) overlaps {0}.{2} in the same memory: bytes {3} to {4} and {5} to {6}; give each its own",
          args, out.name, other.name, out.span.offset, out.span.offset + out.span.size, other.span.offset,
          other.span.offset + other.span.size);
    }
  }
  // From here on a span is what the call reads or writes.
  for (const Operand& one : operands)
    if (one.span) one.span.size = one.room.bytes;
}

std::vector<std::shared_ptr<backend::Event>> wait_list(const ironcl_event* wait, std::uint32_t count,
                                                       std::string_view name) {
  std::vector<std::shared_ptr<backend::Event>> out;
  if (count != 0 && wait == nullptr) invalid("{}.wait is NULL", name);
  out.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (wait[i] == nullptr) invalid("{}.wait[{}] is NULL", name, i);
    out.push_back(wait[i]->object);
  }
  return out;
}

backend::Span transfer_span(const ironcl_span& in, std::string_view name, const DeviceState& device) {
  if (in.buffer == nullptr) invalid("{}.buffer is NULL", name);
  if (in.size == 0) invalid("{}.size is 0, expected at least 1 byte; leave the call out", name);
  return span_in_buffer(in, {{}, name}, device);
}

}  // namespace ironcl::adapter
