// SPDX-License-Identifier: Apache-2.0
// Spans of calls with guards around them, for the steps that are no plans, and the checks that these have in common.
// Next door: rig.h (plans).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// `size` bytes in a buffer, with guards of kPattern on both sides.
struct Part {
  Buffer buffer;
  std::uint64_t offset = 0, size = 0;
  ironcl_span span() const { return {buffer.get(), offset, size}; }
};

inline constexpr std::byte kPattern{0x5a};

/// Of kPattern alone: what nobody writes stays that. At least one byte.
Part part(Context& c, ironcl_queue queue, std::uint64_t size);
/// Of these bytes.
Part part(Context& c, ironcl_queue queue, std::span<const std::byte> bytes);

/// The bytes of a part; adds a failure where a guard has changed. `name` says whose.
std::vector<std::byte> fetch(Context& c, ironcl_queue queue, const Part& from, const char* name);

/// The tight matrix in a part; everything else there must still be the pattern.
std::vector<std::byte> collect(Context& c, ironcl_queue queue, const Part& from, std::int64_t rows, std::int64_t cols,
                               std::int64_t ld, std::size_t element, const char* name);

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

template <class T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  // memcpy refuses a null pointer even for no bytes.
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// A test's own struct T describes a step; Bench has its queue and spans, and makes the arguments of its call.

/// A step called twice; each time its result is right.
template <class Bench, class T>
void run_twice(Context& context, const T& described) {
  const Op op = make_op(context, described);
  const Bench bench(context, described);
  for (int i = 0; i < 2; ++i) {
    call(context, described, op, bench);
    expect_right(context, described, bench);
  }
}

/// Three calls that read the D of a product [rows, cols] on another queue, ordered by their wait list alone: who does
/// not wait comes too early. Their result is that of `values`, which become D's bytes.
template <class T, class Bench, class Args>
void run_after_product(Context& context, const T& described, Bench& bench, std::int64_t rows, std::int64_t cols,
                       std::vector<std::byte>& values, ironcl_span Args::*input) {
  const Op op = make_op(context, described);
  Problem p = base_problem();
  p.m = rows, p.n = cols, p.k = 1024;
  Rig product(context, p);
  values = product.call().bytes;
  Args args = bench.args(described);
  for (int i = 0; i < 3; ++i) {
    product.reset();
    const Event made = product.enqueue(product.queue());
    const ironcl_event list[] = {made.get()};
    args.*input = product.d_span();
    args.wait = list, args.wait_count = 1;
    run(context, op.get(), bench.queue.get(), &args);
  }
  expect_right(context, described, bench);
}

/// That a step refuses calls with each of the changes, and calls without an operation, a queue or arguments; and that
/// it is right afterwards.
template <class Bench, class T, class Args, std::size_t N>
void expect_wrong_steps(Context& context, const T& described, const Wrong<Args> (&all)[N]) {
  const Op op = make_op(context, described);
  const Bench bench(context, described);
  const ironcl_queue queue = bench.queue.get();
  const Args args = bench.args(described);
  expect_wrong_calls(context, op.get(), queue, args, all);
  Error error;
  EXPECT_EQ(context.table.op_enqueue(nullptr, queue, &args, nullptr, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_EQ(context.table.op_enqueue(op.get(), nullptr, &args, nullptr, &error), IRONCL_INVALID_ARGUMENT);
  EXPECT_EQ(context.table.op_enqueue(op.get(), queue, nullptr, nullptr, &error), IRONCL_INVALID_ARGUMENT);
  run(context, op.get(), queue, &args);
  expect_right(context, described, bench);
}

/// Bytes of rows x cols elements with `ld` between rows; at least one element.
std::uint64_t extent(std::int64_t rows, std::int64_t ld, std::int64_t cols, std::size_t element);

}  // namespace ironcl::conformance
