// SPDX-License-Identifier: Apache-2.0
// Single objects of a device, made and checked: queues, buffers, plans, weights.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <numeric>

#include "tests/conformance/suite/rig.h"

namespace ironcl::conformance {

Queue make_queue(Context& c) {
  ironcl_queue queue = nullptr;
  Error error;
  require(c.table.queue_create(c.device, 0, &queue, &error), error, "queue_create");
  return {c.table, queue};
}

Buffer make_buffer(Context& c, std::uint64_t size) {
  auto desc = sized<ironcl_buffer_desc>();
  desc.size = size;
  ironcl_buffer buffer = nullptr;
  Error error;
  require(c.table.buffer_create(c.device, &desc, &buffer, &error), error, "buffer_create");
  return {c.table, buffer};
}

void wait(Context& c, ironcl_event event, const char* what) {
  Error error;
  require(c.table.event_wait(event, UINT64_MAX, &error), error, fmt::format("event_wait after {}", what).c_str());
}

void upload(Context& c, ironcl_queue queue, ironcl_buffer buffer, std::uint64_t offset,
            std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  ironcl_event event = nullptr;
  Error error;
  require(c.table.write(queue, {buffer, offset, bytes.size()}, bytes.data(), IRONCL_HOST_COPIED_BEFORE_RETURN, &event,
                        &error),
          error, "write");
  const Event owner(c.table, event);
  wait(c, event, "write");
}

std::vector<std::byte> download(Context& c, ironcl_queue queue, ironcl_buffer buffer, std::uint64_t offset,
                                std::uint64_t size) {
  std::vector<std::byte> bytes(size);
  if (size == 0) return bytes;
  ironcl_event event = nullptr;
  Error error;
  require(c.table.read(queue, {buffer, offset, size}, bytes.data(), &event, &error), error, "read");
  const Event owner(c.table, event);
  wait(c, event, "read");
  return bytes;
}

ironcl_device_props props_of(Context& c) {
  auto props = sized<ironcl_device_props>();
  Error error;
  require(c.table.device_props(c.device, &props, &error), error, "device_props");
  return props;
}

Op make_op(Context& c, const void* desc) {
  auto support = sized<ironcl_support>();
  Error error;
  const ironcl_status asked = c.table.supports(c.device, desc, &support, &error);
  ironcl_op plan = nullptr;
  Error refusal;
  const ironcl_status made = c.table.op_create(c.device, desc, &plan, &refusal);
  Op owner(c.table, made == IRONCL_OK ? plan : nullptr);

  if (asked != IRONCL_OK) {
    if (made != asked) {
      throw Failed(fmt::format("supports() answers {} ({}) but op_create {} ({}): they must agree",
                               status_name(asked), error.message, status_name(made), refusal.message));
    }
    if (asked == IRONCL_UNAVAILABLE) throw Unavailable(error.message);
    if (asked == IRONCL_UNIMPLEMENTED) throw Unsupported(fmt::format("UNIMPLEMENTED: {}", error.message));
    throw Failed(fmt::format("supports: {}: {}", status_name(asked), error.message));
  }
  if (support.reason == IRONCL_REASON_NONE) {
    if (made != IRONCL_OK) {
      throw Failed(
          fmt::format("supports() says yes but op_create refuses: {}: {}", status_name(made), refusal.message));
    }
    return owner;
  }
  const std::string text(support.text, strnlen(support.text, sizeof support.text));
  if (made == IRONCL_OK) throw Failed(fmt::format("supports() refuses ({}) but op_create makes a plan", text));
  if (made != IRONCL_UNSUPPORTED) {
    throw Failed(
        fmt::format("supports() refuses with reason {} ({}), so op_create must answer UNSUPPORTED, not {}: {}",
                    support.reason, text, status_name(made), refusal.message));
  }
  if (text.empty()) throw Failed(fmt::format("supports() refuses with reason {} and no text", support.reason));
  const bool cut = text.size() + 1 >= sizeof support.text;
  if (cut ? std::strncmp(refusal.message, text.c_str(), text.size()) != 0 : text != refusal.message) {
    throw Failed(fmt::format("supports() and op_create refuse with different texts: \"{}\" and \"{}\"", text,
                             refusal.message));
  }
  throw Unsupported(text);
}

void run(Context& c, ironcl_op op, ironcl_queue queue, const void* args) {
  ironcl_event event = nullptr;
  Error error;
  require(c.table.op_enqueue(op, queue, args, &event, &error), error, "op_enqueue");
  const Event owner(c.table, event);
  wait(c, event, "op_enqueue");
}

bool has_word(const std::string& text, const std::string& word) {
  const auto is_letter = [](char ch) { return std::isalnum(static_cast<unsigned char>(ch)) != 0 || ch == '_'; };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

namespace {

void expect_named(ironcl_status got, ironcl_status want, const Error& error, const char* call, const char* word,
                  const char* what) {
  EXPECT_EQ(status_name(got), status_name(want)) << call << ": " << word << ": " << what << ": " << error.message;
  EXPECT_TRUE(got != want || has_word(error.message, word)) << call << ": " << word << ": " << error.message;
}

}  // namespace

void expect_refused(Context& c, const void* desc, ironcl_status want, const char* word, const char* what) {
  auto support = sized<ironcl_support>();
  Error error;
  expect_named(c.table.supports(c.device, desc, &support, &error), want, error, "supports", word, what);
  ironcl_op op = nullptr;
  const ironcl_status status = c.table.op_create(c.device, desc, &op, &error);
  const Op owner(c.table, status == IRONCL_OK ? op : nullptr);
  expect_named(status, want, error, "op_create", word, what);
}

void expect_call_refused(Context& c, ironcl_op op, ironcl_queue queue, const void* args, const char* word,
                         const char* what) {
  ironcl_event event = nullptr;
  Error error;
  const ironcl_status status = c.table.op_enqueue(op, queue, args, &event, &error);
  const Event owner(c.table, status == IRONCL_OK ? event : nullptr);
  expect_named(status, IRONCL_INVALID_ARGUMENT, error, "op_enqueue", word, what);
}

ironcl_op_info info_of(Context& c, ironcl_op plan) {
  auto info = sized<ironcl_op_info>();
  Error error;
  require(c.table.op_info(plan, &info, &error), error, "op_info");
  return info;
}

Weights make_weights(Context& c, const Problem& p, const Operands& o, ironcl_op plan) {
  std::vector<std::byte> data = spread(p.b, o.b, p.n, p.k, p.ldb(), 0);
  const numerics::ScaleGrid grid = p.b_scale.grid();
  std::vector<std::byte> scales =
      spread(p.b_scale.dtype, o.b_scale, grid.scale_rows(p.n), grid.scale_cols(p.k), p.b_scale_ld(), 0);
  auto desc = sized<ironcl_weights_desc>();
  desc.dtype = static_cast<ironcl_dtype>(p.b);
  desc.n = p.n, desc.k = p.k;
  desc.ld = p.b_pad != 0 ? p.ldb() : 0;
  desc.scale = p.desc().b_scale;
  desc.scale.ld = p.b_scale.pad != 0 ? p.b_scale_ld() : 0;
  desc.data = data.data(), desc.data_bytes = data.size();
  desc.scales = scales.empty() ? nullptr : scales.data(), desc.scale_bytes = scales.size();
  desc.plan = plan;
  float global = p.b_global;
  if (global != 0) desc.global_scales = &global;
  ironcl_weights weights = nullptr;
  Error error;
  require(c.table.weights_prepare(c.device, &desc, &weights, &error), error, "weights_prepare");
  Weights owner(c.table, weights);
  // The bytes are the caller's again: a plugin that still reads them gets nonsense.
  std::fill(data.begin(), data.end(), std::byte{0x77});
  std::fill(scales.begin(), scales.end(), std::byte{0x77});
  global = 7;
  return owner;
}

numerics::BoundTerms bound_terms(const Problem& p, const ironcl_op_info& info) {
  if (info.accumulation_length < 1) {
    throw Failed(fmt::format("op_info.accumulation_length is {}, expected at least 1", info.accumulation_length));
  }
  const std::int64_t group = std::gcd(p.a_scale.dtype == DType::none ? 0 : p.a_scale.cols, p.b_scale.cols);
  if (group != 0 && info.accumulation_length > group) {
    throw Failed(
        fmt::format("op_info.accumulation_length is {}, but scales change every {} of k: a K tile straddles "
                    "a scale group",
                    info.accumulation_length, group));
  }
  return {p.d, static_cast<numerics::AccuracyClass>(info.accuracy_class), p.k, info.accumulation_length};
}

}  // namespace ironcl::conformance
