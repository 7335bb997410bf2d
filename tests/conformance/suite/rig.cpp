// SPDX-License-Identifier: Apache-2.0
// A problem made ready on a device, its calls, and what is checked after each.
#include "tests/conformance/suite/rig.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/numerics/casts.h"

namespace ironcl::conformance {
namespace {

std::byte guard_byte(std::uint64_t position) { return static_cast<std::byte>((position * 151 + 17) & 0xff); }

/// A NaN that no computation makes, as the bytes of one element of `type`.
std::vector<std::byte> poison_of(DType type) {
  std::uint64_t bits = 0;
  switch (type) {
    case DType::f32:
      bits = 0x7fa5a5a5u;
      break;
    case DType::f16:
      bits = 0x7da5u;
      break;
    case DType::bf16:
      bits = 0x7fa5u;
      break;
    default:
      bits = 0x7fu;
  }
  std::vector<std::byte> bytes(numerics::size_of(type));
  std::memcpy(bytes.data(), &bits, bytes.size());
  return bytes;
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Operands filled(const Context& context, const Problem& problem) {
  Operands operands = make_operands(problem);
  Random random(context.seed);
  problem.fill(problem, random, operands);
  return operands;
}

}  // namespace

Rig::Rig(Context& context, const Problem& problem, RigOptions options)
    : Rig(context, problem, filled(context, problem), options) {}

Rig::Rig(Context& context, const Problem& problem, Operands operands, RigOptions options)
    : context_(context),
      problem_(problem),
      options_(options),
      operands_(std::move(operands)),
      props_(props_of(context)),
      queue_(make_queue(context)),
      plan_(make_plan(context, problem.desc())),
      info_(info_of(context, plan_.get())),
      weights_(make_weights(context, problem, operands_, options.weights_for_plan ? plan_.get() : nullptr)) {
  const Problem& p = problem_;
  const std::int64_t rows = p.call_rows();
  const auto bytes = [](DType type, std::int64_t count) {
    return static_cast<std::uint64_t>(count) * numerics::size_of(type);
  };
  const auto extent = [](std::int64_t r, std::int64_t ld, std::int64_t cols) {
    return r == 0 ? 0 : (r - 1) * ld + cols;
  };
  const numerics::ScaleGrid grid = p.a_scale.grid();
  a_ = guarded(bytes(p.a_given(), extent(rows, p.lda(), p.k)), p.offsets);
  if ((!p.dynamic() || p.quantizer.given) && p.a_scale.dtype != DType::none) {
    a_scale_ = guarded(bytes(p.a_scale.dtype, extent(grid.scale_rows(rows), p.a_scale_ld(), grid.scale_cols(p.k))),
                       p.offsets);
  }
  d_ = guarded(bytes(p.d, extent(rows, p.ldd(), p.n)), true);
  if (p.bias != DType::none) bias_ = guarded(bytes(p.bias, p.n), p.offsets);
  if (options_.own_workspace && info_.workspace_bytes > 0) workspace_ = guarded(info_.workspace_bytes, true);
  if (options_.keep_quantized) {
    codes_ = guarded(static_cast<std::uint64_t>(rows * p.k), true);
    code_scales_ = guarded(static_cast<std::uint64_t>(grid.scale_rows(rows) * grid.scale_cols(p.k)) * 4, true);
  }
  reset();
}

Rig::Guarded Rig::guarded(std::uint64_t size, bool offset) {
  Guarded out;
  out.size = size;
  out.offset = offset ? round_up(kGuard, std::max<std::uint64_t>(props_.buffer_alignment, 16)) : 0;
  out.whole = out.offset + std::max<std::uint64_t>(size, 1) + kGuard;
  out.buffer = make_buffer(context_, out.whole);
  return out;
}

void Rig::put(const Guarded& to, std::span<const std::byte> bytes) {
  if (!to.buffer) return;
  std::vector<std::byte> whole(to.whole);
  for (std::uint64_t i = 0; i < to.whole; ++i) whole[i] = guard_byte(i);
  std::copy(bytes.begin(), bytes.end(), whole.begin() + static_cast<std::ptrdiff_t>(to.offset));
  upload(context_, queue_.get(), to.buffer.get(), 0, whole);
}

void Rig::reset() {
  const Problem& p = problem_;
  const std::int64_t rows = p.call_rows();
  const numerics::ScaleGrid grid = p.a_scale.grid();
  put(a_, spread(p.a_given(), operands_.a, rows, p.k, p.lda(), 0));
  if (a_scale_.buffer) {
    put(a_scale_,
        spread(p.a_scale.dtype, operands_.a_scale, grid.scale_rows(rows), grid.scale_cols(p.k), p.a_scale_ld(), 0));
  }
  put(bias_, operands_.bias);
  put(workspace_, {});
  put(codes_, {});
  put(code_scales_, {});
  std::vector<std::byte> d(d_.size);
  for (std::uint64_t i = 0; i < d_.size; ++i) d[i] = guard_byte(d_.offset + i);
  const std::vector<std::byte> poison = poison_of(p.d);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < p.n; ++col) {
      std::memcpy(d.data() + static_cast<std::size_t>(row * p.ldd() + col) * poison.size(), poison.data(),
                  poison.size());
    }
  }
  put(d_, d);
}

ironcl_gemm_args Rig::args() const {
  auto args = sized<ironcl_gemm_args>();
  args.m = problem_.call_rows();
  args.weights = weights_.get();
  args.a = a_.span();
  args.a_scale = a_scale_.span();
  args.d = d_.span();
  args.bias = bias_.span();
  args.workspace = workspace_.span();
  args.a_quantized = codes_.span();
  args.a_quantized_scale = code_scales_.span();
  return args;
}

ironcl_status Rig::enqueue_raw(ironcl_queue queue, const ironcl_gemm_args& args, ironcl_event* event, Error& error) {
  return context_.table.op_enqueue(plan_.get(), queue, &args, event, &error);
}

Event Rig::enqueue(ironcl_queue queue, std::span<const ironcl_event> wait_for) {
  ironcl_gemm_args call = args();
  call.wait = wait_for.data();
  call.wait_count = static_cast<std::uint32_t>(wait_for.size());
  ironcl_event event = nullptr;
  Error error;
  require(enqueue_raw(queue, call, &event, error), error, "op_enqueue");
  return {context_.table, event};
}

Output Rig::call() {
  reset();
  const Event event = enqueue(queue_.get());
  wait(context_, event.get(), "op_enqueue");
  return collect(queue_.get());
}

void Rig::check_guards(const Guarded& of, std::span<const std::byte> whole, const char* name) {
  std::int64_t changed = 0, first = -1;
  for (std::uint64_t i = 0; i < of.whole; ++i) {
    const bool inside = i >= of.offset && i < of.offset + of.size;
    if (inside || whole[i] == guard_byte(i)) continue;
    if (changed++ == 0) first = static_cast<std::int64_t>(i) - static_cast<std::int64_t>(of.offset);
  }
  if (changed != 0) {
    ADD_FAILURE() << changed << " bytes outside " << name << " (" << of.size
                  << " bytes) were written, the first at byte " << first << " of it   [" << problem_.line() << "]";
  }
}

Output Rig::collect(ironcl_queue queue) {
  const Problem& p = problem_;
  const std::vector<std::byte> whole = download(context_, queue, d_.buffer.get(), 0, d_.whole);
  check_guards(d_, whole, "D");
  if (workspace_.buffer) {
    check_guards(workspace_, download(context_, queue, workspace_.buffer.get(), 0, workspace_.whole), "workspace");
  }
  const std::size_t element = numerics::size_of(p.d);
  const std::vector<std::byte> poison = poison_of(p.d);
  Output out;
  std::int64_t gap = 0, gap_row = -1, unwritten = 0, unwritten_row = -1, unwritten_col = -1;
  for (std::int64_t row = 0; row < p.call_rows(); ++row) {
    const std::size_t begin = d_.offset + static_cast<std::size_t>(row * p.ldd()) * element;
    const auto from = whole.begin() + static_cast<std::ptrdiff_t>(begin);
    out.bytes.insert(out.bytes.end(), from,
                     from + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(p.n) * element));
    for (std::int64_t col = 0; col < p.n; ++col) {
      if (std::memcmp(&whole[begin + static_cast<std::size_t>(col) * element], poison.data(), element) == 0 &&
          unwritten++ == 0) {
        unwritten_row = row, unwritten_col = col;
      }
    }
    if (row + 1 == p.call_rows()) break;
    for (std::size_t i = begin + static_cast<std::size_t>(p.n) * element;
         i < begin + static_cast<std::size_t>(p.ldd()) * element; ++i) {
      if (whole[i] != guard_byte(i) && gap++ == 0) gap_row = row;
    }
  }
  if (gap != 0) {
    ADD_FAILURE() << gap << " bytes between the rows of D were written, the first after row " << gap_row << "   ["
                  << p.line() << "]";
  }
  if (unwritten != 0) {
    ADD_FAILURE() << unwritten << " elements of D were never written, the first is D[" << unwritten_row << ", "
                  << unwritten_col << "]   [" << p.line() << "]";
  }
  out.values.resize(out.bytes.size() / element);
  numerics::decode(p.d, out.bytes.data(), std::span<double>(out.values));
  return out;
}

void Rig::destroy_buffers() {
  for (Guarded* g : {&a_, &a_scale_, &d_, &bias_, &workspace_, &codes_, &code_scales_}) g->buffer.reset();
}

const Expected& Rig::expected() {
  if (expected_.empty()) expected_.push_back(expect(problem_, operands_));
  return expected_.front();
}

}  // namespace ironcl::conformance
