// SPDX-License-Identifier: Apache-2.0
#include "tests/products/product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/numerics/casts.h"
#include "backends/numerics/quantize.h"
#include "tests/activated.h"

namespace ironcl::products {

using backend::DType;

namespace {

std::vector<std::uint8_t> typed(DType type, const std::vector<float>& values) {
  std::vector<std::uint8_t> bytes(values.size() * numerics::size_of(type));
  if (type == DType::e8m0) {
    for (std::size_t i = 0; i < values.size(); ++i) bytes[i] = numerics::encode_e8m0(values[i]);
  } else {
    numerics::encode(type, values, bytes.data());
  }
  return bytes;
}

std::vector<std::uint8_t> scales_of(DType type, std::int64_t count, Random& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = std::ldexp(0.5f + random.uniform(), static_cast<int>(random.next() % 9) - 8);
  return typed(type, values);
}

std::vector<std::uint8_t> codes_of(DType type, std::int64_t count, Random& random) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(numerics::bytes_of(type, count)));
  for (std::uint8_t& code : codes) {
    do {
      code = static_cast<std::uint8_t>(random.next() >> 11);
      if (type == DType::e5m2) code &= 0xbf;  // Magnitudes below 2, so that sums stay finite.
    } while ((type == DType::e4m3fn && (code & 0x7f) == 0x7f) || (type == DType::i8 && code == 0x80));
  }
  return codes;
}

/// Bytes that are NaN in every type that A comes in; e4m3fn's only NaN codes are 0x7f and 0xff.
constexpr std::uint8_t kNan = 0x7f;
/// Of D; NaN in every type.
constexpr std::uint8_t kPoison = 0xff;

/// The row of A that row `row` of the problem is.
std::int64_t row_of_a(const Case& c, const Data& data, std::int64_t row) {
  if (c.a_rows == 0) return row;
  return std::clamp<std::int64_t>(data.index[static_cast<std::size_t>(row)], 0, c.a_rows - 1);
}

backend::ScaleDesc scale_desc(DType type, const numerics::ScaleGrid& grid, std::int64_t cols) {
  return {type, grid, type == DType::none ? 0 : grid.scale_cols(cols)};
}

}  // namespace

backend::GemmDesc Case::desc() const {
  backend::GemmDesc g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.lda = lda != 0 ? lda : k;
  g.ldd = ldd != 0 ? ldd : n;
  g.a_source = a_source;
  g.a = a;
  g.b = b;
  g.d = d;
  g.bias = bias;
  g.a_scale = numerics::is_quantized(a) ? scale_desc(a_scale, a_grid, k) : backend::ScaleDesc{};
  g.b_scale = scale_desc(b_scale, b_grid, k);
  g.b_scale.global = b_global != 1;
  g.options = options;
  g.weakest_accuracy = weakest;
  if (!counts.empty()) {
    g.grouping = masked ? backend::Grouping::masked : backend::Grouping::contiguous;
    g.matrices = matrices();
  }
  g.a_rows = a_rows;
  g.repeatable = repeatable;
  g.a_quantizer = a_quantizer;
  g.activation = activation;
  g.activation_limit = activation_limit;
  return g;
}

std::vector<std::pair<std::int64_t, std::int64_t>> Case::spans() const {
  if (counts.empty()) return {{0, m}};
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  std::int64_t next = 0;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    const std::int64_t wanted = std::max<std::int64_t>(0, counts[g]);
    if (masked) next = static_cast<std::int64_t>(g) * m;
    all.emplace_back(next, std::min(wanted, masked ? m : m - next));
    next += all.back().second;
  }
  return all;
}

std::string Case::line() const {
  const auto grid = [](const numerics::ScaleGrid& g) {
    return std::to_string(g.group_rows) + "x" + std::to_string(g.group_cols);
  };
  std::string text = "--dt=" + std::string(numerics::name_of(a_source == DType::none ? a : a_source)) + ":" +
                     std::string(numerics::name_of(b)) + ":" + std::string(numerics::name_of(d)) +
                     " --scale=" + grid(a_grid) + ":" + grid(b_grid) + " " + std::to_string(m) + "x" +
                     std::to_string(n) + "x" + std::to_string(k) + " bias=" + std::string(numerics::name_of(bias)) +
                     " lda=" + std::to_string(lda) + " ldd=" + std::to_string(ldd) +
                     (b_global == 1 ? "" : " global") + " seed=" + std::to_string(seed);
  for (const auto& [key, value] : options) text += " " + key + "=" + value;
  if (activation != numerics::Activation::none)
    text +=
        " activation=" + std::to_string(static_cast<int>(activation)) + " limit=" + std::to_string(activation_limit);
  if (a_rows != 0) text += " gathered from " + std::to_string(a_rows);
  if (!counts.empty()) text += masked ? " masked" : " contiguous";
  for (const std::int32_t count : counts) text += " " + std::to_string(count);
  return text;
}

Data make_data(const Case& c) {
  Random random(c.seed);
  Data data;
  const std::int64_t lda = c.lda != 0 ? c.lda : c.k;
  const DType source = c.a_source != DType::none ? c.a_source : c.a;
  const auto values_of = [&random](DType type, std::int64_t count) {
    if (!numerics::is_float(type)) return codes_of(type, count, random);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& v : values) {
      v = (random.uniform() - 0.5f) * 8;
      if (random.next() % 64 == 0) v *= 30;  // Heavy tails.
    }
    return typed(type, values);
  };
  data.a = values_of(source, c.rows_in_memory() * lda);
  if (numerics::is_quantized(c.a) && c.a_source == DType::none && c.a_scale != DType::none) {
    data.a_scales = scales_of(c.a_scale, c.a_grid.scale_rows(c.rows_in_memory()) * c.a_grid.scale_cols(c.k), random);
  }
  data.b = values_of(c.b, c.matrices() * c.b_rows() * c.k);
  if (c.b_scale != DType::none) {
    const std::int64_t of_matrix = c.b_grid.scale_rows(c.b_rows()) * c.b_grid.scale_cols(c.k);
    if (c.counts.empty()) {
      data.b_scales = scales_of(c.b_scale, of_matrix, random);
    } else {
      // Each matrix has a magnitude of its own, and each block another: a wrong one shows at once.
      std::vector<float> scales;
      for (int matrix = 0; matrix < c.matrices(); ++matrix) {
        for (std::int64_t i = 0; i < of_matrix; ++i) {
          const float scale = std::ldexp(1.0f, matrix % 8 - 4 + static_cast<int>(scales.size() % 3));
          scales.push_back(c.b_scale == DType::f32 ? scale * (1 + random.uniform()) : scale);
        }
      }
      data.b_scales = typed(c.b_scale, scales);
    }
  }
  if (c.bias != DType::none) {
    std::vector<float> bias(static_cast<std::size_t>(c.matrices() * c.b_rows()));
    for (float& v : bias) v = (random.uniform() - 0.5f) * 100;
    data.bias = typed(c.bias, bias);
  }
  if (c.counts.empty() && c.a_rows == 0) return data;
  // What nobody may read is NaN, codes and scales; what may be read is marked.
  std::vector<bool> read(static_cast<std::size_t>(c.rows_in_memory()));
  if (c.a_rows != 0) data.index.assign(static_cast<std::size_t>(c.rows()), std::numeric_limits<std::int32_t>::min());
  for (const auto& [first, count] : c.spans()) {
    for (std::int64_t row = first; row < first + count; ++row) {
      if (c.a_rows != 0) {
        auto& index = data.index[static_cast<std::size_t>(row)];
        index = static_cast<std::int32_t>(random.next() % static_cast<std::uint32_t>(c.a_rows));
        if (random.next() % 31 == 0) index = static_cast<std::int32_t>(c.a_rows) + 5;  // Means the last row.
        if (random.next() % 37 == 0) index = -3;                                       // Means the first.
      }
      read[static_cast<std::size_t>(row_of_a(c, data, row))] = true;
    }
  }
  const auto width = static_cast<std::ptrdiff_t>(numerics::bytes_of(source, lda));
  const auto scale_width = static_cast<std::ptrdiff_t>(c.a_grid.scale_cols(c.k) * numerics::size_of(c.a_scale));
  for (std::int64_t row = 0; row < c.rows_in_memory(); ++row) {
    if (read[static_cast<std::size_t>(row)]) continue;
    std::fill_n(data.a.begin() + row * width, width, kNan);
    if (!data.a_scales.empty())
      std::fill_n(data.a_scales.begin() + row * scale_width, scale_width, std::uint8_t{0xff});
  }
  return data;
}

backend::WeightsDesc weights_desc(const Case& c, const Data& data, std::shared_ptr<backend::Gemm> plan) {
  backend::WeightsDesc w;
  w.dtype = c.b;
  w.n = c.b_rows();
  w.k = w.ld = c.k;
  w.matrices = c.matrices();
  w.scale = c.desc().b_scale;
  w.data = reinterpret_cast<const std::byte*>(data.b.data());
  w.scales = reinterpret_cast<const std::byte*>(data.b_scales.data());
  if (w.scale.global) w.global_scales = &c.b_global;
  w.plan = std::move(plan);
  return w;
}

Ready::Ready(backend::Device& device, const Case& problem) : c(problem), data(make_data(c)) {
  const backend::GemmDesc desc = c.desc();
  plan = device.create_gemm(desc);
  queue = device.create_queue();
  args.m = c.m;
  args.weights = device.prepare_weights(weights_desc(c, data, plan));
  const auto upload = [&](const std::vector<std::uint8_t>& bytes) {
    backend::Span span{device.create_buffer(bytes.size()), 0, bytes.size()};
    queue->write(span, bytes.data(), backend::HostSemantics::copied_before_return);
    return span;
  };
  args.a = upload(data.a);
  if (!data.a_scales.empty()) args.a_scale = upload(data.a_scales);
  args.d = upload(std::vector<std::uint8_t>(static_cast<std::size_t>(c.m * desc.ldd) * numerics::size_of(c.d), 0xff));
}

namespace {

/// A as it is multiplied, all rows that lie in memory. The codes are those of numerics, not the device's own: a wrong
/// quantiser shows too.
struct Multiplied {
  Multiplied(const Case& c, const Data& data, std::int64_t rows) {
    const backend::GemmDesc desc = c.desc();
    a.dtype = c.a;
    a.rows = rows;
    a.cols = c.k;
    a.grid = c.a_grid;
    a.scale_ld = c.a_grid.scale_cols(c.k);
    if (c.a_source == DType::none) {
      a.data = data.a.data();
      a.ld = desc.lda;
      a.scales = data.a_scales.data();
      a.scale_dtype = data.a_scales.empty() ? DType::none : c.a_scale;
      return;
    }
    codes.resize(static_cast<std::size_t>(rows * c.k));
    scales.resize(static_cast<std::size_t>(c.a_grid.scale_rows(rows) * a.scale_ld));
    numerics::quantize(c.a_source, data.a.data(), rows, c.k, desc.lda, c.a, c.a_grid, c.a_quantizer, codes, scales);
    a.data = codes.data();
    a.ld = c.k;
    a.scales = scales.data();
    a.scale_dtype = DType::f32;
  }

  /// Rows of a matrix of many, which have scales of their own, one after another.
  numerics::Operand gathered(const Case& c, const Data& data, std::int64_t first, std::int64_t count) {
    const auto append = [](std::vector<std::uint8_t>& to, const void* from, std::int64_t row, std::int64_t bytes) {
      const auto* const at = static_cast<const std::uint8_t*>(from) + row * bytes;
      to.insert(to.end(), at, at + bytes);
    };
    rows.clear(), rows_scales.clear();
    for (std::int64_t row = first; row < first + count; ++row) {
      append(rows, a.data, row_of_a(c, data, row), a.ld * numerics::size_of(a.dtype));
      if (a.scale_dtype != DType::none)
        append(rows_scales, a.scales, row_of_a(c, data, row), a.scale_ld * numerics::size_of(a.scale_dtype));
    }
    numerics::Operand of = a;
    of.rows = count;
    of.data = rows.data();
    of.scales = rows_scales.data();
    return of;
  }

  numerics::Operand a;
  std::vector<std::uint8_t> codes, rows, rows_scales;
  std::vector<float> scales;
};

/// Compares D, as it lies in memory, with the oracle. Returns which of its rows a matrix has.
std::vector<bool> judge(Outcome& out, const Case& c, const Data& data, std::int64_t m, const std::uint8_t* d) {
  const std::size_t size = numerics::size_of(c.d), row_bytes = static_cast<std::size_t>(c.desc().ldd) * size;
  out.comparison.pass = true;  // Of no rows.
  const bool many = !c.counts.empty() || c.a_rows != 0;
  Multiplied multiplied(c, data, many ? c.rows_in_memory() : m);
  const std::int64_t b_scales = c.b_grid.scale_rows(c.b_rows()) * c.b_grid.scale_cols(c.k);
  std::vector<bool> valid(static_cast<std::size_t>(c.rows()));
  const auto spans = c.spans();
  for (std::int64_t matrix = 0; matrix < c.matrices(); ++matrix) {
    const auto [first, planned] = spans[static_cast<std::size_t>(matrix)];
    const std::int64_t count = c.counts.empty() ? m : planned;
    if (count == 0) continue;
    std::vector<double> got;
    for (std::int64_t row = first; row < first + count; ++row) {
      const std::uint8_t* const of_row = d + static_cast<std::size_t>(row) * row_bytes;
      out.bytes.insert(out.bytes.end(), of_row, of_row + static_cast<std::size_t>(c.n) * size);
      valid[static_cast<std::size_t>(row)] = true;
      for (std::int64_t col = 0; col < c.n; ++col) got.push_back(numerics::load_as_f64(c.d, of_row, col));
    }
    out.d.insert(out.d.end(), got.begin(), got.end());
    numerics::Operand b;
    b.dtype = c.b;
    b.data = data.b.data() + numerics::bytes_of(c.b, matrix * c.b_rows() * c.k);
    b.rows = c.b_rows();
    b.cols = b.ld = c.k;
    b.scale_dtype = c.b_scale;
    b.scales = data.b_scales.data() + matrix * b_scales * numerics::size_of(c.b_scale);
    b.grid = c.b_grid;
    b.scale_ld = c.b_grid.scale_cols(c.k);
    out.oracle = numerics::oracle(many ? multiplied.gathered(c, data, first, count) : multiplied.a, b, c.bias,
                                  data.bias.data() + numerics::bytes_of(c.bias, matrix * c.b_rows()), c.weakest);
    for (auto* const sums : {&out.oracle.value, &out.oracle.magnitude})
      for (double& sum : *sums) sum *= c.b_global;
    numerics::BoundTerms terms{c.d, out.info.accuracy, c.k, out.info.accumulation_length};
    numerics::Bounded want;
    if (c.activation != numerics::Activation::none) {
      terms.out = DType::f32;
      want = testing::activated(c.activation, c.activation_limit, bounded(out.oracle, terms), c.d);
    } else {
      want = bounded(out.oracle, terms);
    }
    const numerics::Comparison comparison = compare(got, want);
    if (comparison.max_error_over_bound < out.comparison.max_error_over_bound) continue;
    out.comparison = comparison;
    out.matrix = matrix;
  }
  return valid;
}

}  // namespace

Outcome judged(const Ready& ready, const std::vector<std::uint8_t>& d) {
  Outcome out;
  out.info = ready.plan->info();
  judge(out, ready.c, ready.data, ready.c.m, d.data());
  return out;
}

Outcome run(backend::Device& device, const Case& c, const Data& data, std::int64_t rows, bool weights_with_plan) {
  Outcome out;
  const backend::GemmDesc desc = c.desc();
  const std::int64_t m = rows < 0 ? c.m : rows;
  const auto plan = device.create_gemm(desc);
  out.info = plan->info();
  const auto queue = device.create_queue();
  backend::GemmArgs args;
  args.m = m;
  args.a_rows = c.a_rows;
  args.weights = device.prepare_weights(weights_desc(c, data, weights_with_plan ? plan : nullptr));
  const std::uint64_t align = device.props().buffer_alignment;
  const auto upload = [&]<class T>(const std::vector<T>& values, std::uint64_t offset) {
    const std::uint64_t size = values.size() * sizeof(T);
    backend::Span span{device.create_buffer(offset + std::max<std::uint64_t>(size, 1)), offset, size};
    if (size != 0) queue->write(span, values.data(), backend::HostSemantics::copied_before_return);
    return span;
  };
  args.a = upload(data.a, align);
  if (!data.a_scales.empty()) args.a_scale = upload(data.a_scales, 3 * align);
  if (!data.bias.empty()) args.bias = upload(data.bias, align);
  if (!data.index.empty()) args.a_index = upload(data.index, 3 * align);
  const auto other = device.create_queue();
  if (!c.counts.empty()) {
    // Counts are made on the device by another queue: the host's order alone would be none.
    args.matrix_rows = {device.create_buffer(align + c.counts.size() * 4), align, c.counts.size() * 4};
    args.wait = {other->write(args.matrix_rows, c.counts.data(), backend::HostSemantics::copied_before_return)};
  }
  const std::size_t size = numerics::size_of(c.d), guard = 2 * align,
                    row_bytes = static_cast<std::size_t>(desc.ldd) * size;
  std::vector<std::uint8_t> raw(2 * guard + static_cast<std::size_t>(c.rows()) * row_bytes, kPoison);
  const backend::Span whole = upload(raw, 0);
  args.d = {whole.buffer, guard, raw.size() - 2 * guard};
  if (c.a_source != DType::none) {
    const std::int64_t in_memory = c.rows_in_memory();
    args.a_quantized = upload(std::vector<std::uint8_t>(static_cast<std::size_t>(in_memory * c.k)), 0);
    args.a_quantized_scale = upload(
        std::vector<float>(static_cast<std::size_t>(c.a_grid.scale_rows(in_memory) * c.a_grid.scale_cols(c.k))),
        align);
  }
  EXPECT_EQ(plan->enqueue(queue, args)->wait(kForEver), backend::Status::ok);
  queue->read(whole, raw.data());
  queue->finish();

  const std::vector<bool> valid = judge(out, c, data, m, raw.data() + guard);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const bool inside = i >= guard && i < raw.size() - guard;
    const std::size_t row = inside ? (i - guard) / row_bytes : 0, at = inside ? (i - guard) % row_bytes : 0;
    if ((!inside || !valid[row] || at >= static_cast<std::size_t>(c.n) * size) && raw[i] != kPoison)
      out.canaries = false;
  }
  return out;
}

void expect_right(const Outcome& outcome, const Case& c, const std::string& device) {
  const auto& v = outcome.comparison;
  EXPECT_TRUE(v.pass) << device << ": " << c.line() << "\n  " << outcome.info.variant << " " << outcome.info.tuning
                      << "\n  error over bound " << v.max_error_over_bound << " of matrix " << outcome.matrix
                      << " at [" << v.worst_row << ", " << v.worst_col << "]: got " << v.worst_got << ", expected "
                      << v.worst_want << "; " << v.out_of_bounds << " out of bounds, the first at [" << v.first_row
                      << ", " << v.first_col << "]";
  EXPECT_TRUE(outcome.canaries) << device << ": " << c.line() << "\n  bytes outside of the rows of D were written";
}

}  // namespace ironcl::products
