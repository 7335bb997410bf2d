// SPDX-License-Identifier: Apache-2.0
#include "tests/opencl/grouped.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/numerics/casts.h"
#include "backends/numerics/quantize.h"
#include "backends/opencl/device.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl::testing {

using backend::DType;

namespace {

/// Bytes that are NaN in every type that A comes in; e4m3fn's only NaN codes are 0x7f and 0xff.
constexpr std::uint8_t kNan = 0x7f;
constexpr std::uint8_t kCanary = 0xee;

numerics::Operand operand(DType type, const std::uint8_t* data, std::int64_t rows, std::int64_t cols,
                          const backend::ScaleDesc& scale, const std::uint8_t* scales) {
  numerics::Operand o;
  o.dtype = type;
  o.data = data;
  o.rows = rows;
  o.cols = o.ld = cols;
  o.scale_dtype = scale.dtype;
  o.scales = scales;
  o.grid = scale.grid;
  o.scale_ld = scale.dtype == DType::none ? 0 : scale.grid.scale_cols(cols);
  return o;
}

/// The row of A that row `row` of the problem is.
std::int64_t row_of_a(const Grouped& g, const GroupedData& data, std::int64_t row) {
  if (g.a_rows == 0) return row;
  return std::clamp<std::int64_t>(data.index[static_cast<std::size_t>(row)], 0, g.a_rows - 1);
}

}  // namespace

backend::GemmDesc Grouped::desc() const {
  Case c{m, n, k};
  c.a_source = a_source;
  c.a = a;
  c.b = b;
  c.d = d;
  c.bias = bias;
  c.a_scale = a_scale;
  c.b_scale = b_scale;
  c.a_grid = a_grid;
  c.b_grid = b_grid;
  c.lda = lda;
  c.ldd = ldd;
  c.options = options;
  c.weakest = allowed();
  backend::GemmDesc desc = c.desc();
  desc.grouping = masked ? backend::Grouping::masked : backend::Grouping::contiguous;
  desc.matrices = matrices();
  desc.a_rows = a_rows;
  desc.repeatable = repeatable;
  return desc;
}

backend::AccuracyClass Grouped::allowed() const {
  backend::AccuracyClass allowed = weakest;
  for (const auto& [key, value] : options)
    if (const Variant* named = key == "variant" ? find_variant(value) : nullptr)
      allowed = std::max(allowed, named->accuracy);  // Null: one of a test.
  return allowed;
}

std::string Grouped::line() const {
  std::string text = masked ? "masked" : "contiguous";
  for (const std::int32_t count : counts) text += " " + std::to_string(count);
  text += ": m=" + std::to_string(m) + " n=" + std::to_string(n) + " k=" + std::to_string(k) +
          " a_rows=" + std::to_string(a_rows) + " " + std::string(numerics::name_of(a_source)) + ":" +
          std::string(numerics::name_of(a)) + ":" + std::string(numerics::name_of(b)) + ":" +
          std::string(numerics::name_of(d)) + " bias=" + std::string(numerics::name_of(bias)) +
          " seed=" + std::to_string(seed);
  for (const auto& [key, value] : options) text += " " + key + "=" + value;
  return text;
}

std::vector<std::pair<std::int64_t, std::int64_t>> Grouped::spans() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  std::int64_t next = 0;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    const std::int64_t wanted = std::max<std::int64_t>(0, counts[g]);
    if (masked) {
      all.emplace_back(static_cast<std::int64_t>(g) * m, std::min(wanted, m));
    } else {
      all.emplace_back(next, std::min(wanted, m - next));
      next += all.back().second;
    }
  }
  return all;
}

GroupedData make_data(const Grouped& g) {
  Random random(g.seed * 7 + 3);
  // One problem as high as A in memory and as wide as all matrices together has all the data.
  Case all{g.rows_in_memory(), g.matrices() * g.n, g.k};
  all.a_source = g.a_source;
  all.a = g.a;
  all.b = g.b;
  all.d = g.d;
  all.bias = g.bias;
  all.a_scale = g.a_scale;
  all.b_scale = DType::none;
  all.a_grid = g.a_grid;
  all.lda = g.lda;
  all.weakest = g.allowed();
  all.seed = g.seed;
  GroupedData data;
  data.operands = make_data(all);
  if (numerics::is_float(g.b)) {
    std::vector<float> values(static_cast<std::size_t>(all.n * g.k));
    for (float& v : values) v = (random.uniform() - 0.5f) * 2;
    data.operands.b.resize(values.size() * numerics::size_of(g.b));
    numerics::encode(g.b, values, data.operands.b.data());
  }
  if (g.b_scale != DType::none) {
    // Each matrix has a magnitude of its own, and each block another: a wrong one shows at once.
    const std::int64_t rows = g.b_grid.scale_rows(g.n), cols = g.b_grid.scale_cols(g.k);
    std::vector<float> scales(static_cast<std::size_t>(g.matrices() * rows * cols));
    for (std::size_t i = 0; i < scales.size(); ++i) {
      const int matrix = static_cast<int>(i / static_cast<std::size_t>(rows * cols));
      scales[i] = std::ldexp(1.0f, matrix % 8 - 4 + static_cast<int>(i % 3));
      if (g.b_scale == DType::f32) scales[i] *= 1 + random.uniform();
    }
    data.operands.b_scales.resize(scales.size() * numerics::size_of(g.b_scale));
    if (g.b_scale == DType::e8m0) {
      for (std::size_t i = 0; i < scales.size(); ++i) data.operands.b_scales[i] = numerics::encode_e8m0(scales[i]);
    } else {
      numerics::encode(g.b_scale, scales, data.operands.b_scales.data());
    }
  }
  // What nobody may read is NaN, codes and scales; what may be read is marked.
  std::vector<bool> read(static_cast<std::size_t>(g.rows_in_memory()));
  if (g.a_rows != 0) data.index.assign(static_cast<std::size_t>(g.rows()), std::numeric_limits<std::int32_t>::min());
  for (const auto& [first, count] : g.spans()) {
    for (std::int64_t row = first; row < first + count; ++row) {
      if (g.a_rows != 0) {
        auto& index = data.index[static_cast<std::size_t>(row)];
        index = static_cast<std::int32_t>(random.next() % static_cast<std::uint32_t>(g.a_rows));
        if (random.next() % 31 == 0) index = static_cast<std::int32_t>(g.a_rows) + 5;  // Means the last row.
        if (random.next() % 37 == 0) index = -3;                                       // Means the first.
      }
      read[static_cast<std::size_t>(row_of_a(g, data, row))] = true;
    }
  }
  const DType type = g.a_source != DType::none ? g.a_source : g.a;
  const auto width = static_cast<std::ptrdiff_t>((g.lda != 0 ? g.lda : g.k) * numerics::size_of(type));
  const auto scale_width = static_cast<std::ptrdiff_t>(g.a_grid.scale_cols(g.k) * numerics::size_of(g.a_scale));
  for (std::int64_t row = 0; row < g.rows_in_memory(); ++row) {
    if (read[static_cast<std::size_t>(row)]) continue;
    std::fill_n(data.operands.a.begin() + row * width, width, kNan);
    if (!data.operands.a_scales.empty())
      std::fill_n(data.operands.a_scales.begin() + row * scale_width, scale_width, std::uint8_t{0xff});
  }
  return data;
}

GroupedOutcome run(backend::Device& device, const Grouped& g, const GroupedData& data) {
  GroupedOutcome out;
  const backend::GemmDesc desc = g.desc();
  const auto plan = device.create_gemm(desc);
  out.info = plan->info();
  backend::WeightsDesc w;
  w.dtype = g.b;
  w.n = g.n;
  w.k = w.ld = g.k;
  w.matrices = g.matrices();
  w.scale = desc.b_scale;
  w.data = reinterpret_cast<const std::byte*>(data.operands.b.data());
  w.scales = reinterpret_cast<const std::byte*>(data.operands.b_scales.data());
  w.plan = plan;
  const auto queue = device.create_queue();
  const std::uint64_t align = device.props().buffer_alignment;
  const auto upload = [&](const void* bytes, std::size_t size, std::uint64_t offset) {
    const backend::Span span{device.create_buffer(offset + std::max<std::size_t>(size, 1)), offset, size};
    if (size != 0) queue->write(span, bytes, backend::HostSemantics::copied_before_return);
    return span;
  };
  const auto upload_bytes = [&](const std::vector<std::uint8_t>& bytes, std::uint64_t offset) {
    return upload(bytes.data(), bytes.size(), offset);
  };
  backend::GemmArgs args;
  args.m = g.m;
  args.a_rows = g.a_rows;
  args.weights = device.prepare_weights(w);
  args.a = upload_bytes(data.operands.a, align);
  if (!data.operands.a_scales.empty()) args.a_scale = upload_bytes(data.operands.a_scales, 2 * align);
  if (!data.operands.bias.empty()) args.bias = upload_bytes(data.operands.bias, align);
  // Counts are made on the device by another queue: the host's order alone would be none.
  const auto other = device.create_queue();
  args.matrix_rows = {device.create_buffer(align + g.counts.size() * 4), align, g.counts.size() * 4};
  args.wait = {other->write(args.matrix_rows, g.counts.data(), backend::HostSemantics::copied_before_return)};
  if (g.a_rows != 0) args.a_index = upload(data.index.data(), data.index.size() * 4, 3 * align);
  const std::size_t size = numerics::size_of(g.d), guard = 2 * align,
                    row_bytes = static_cast<std::size_t>(desc.ldd) * size;
  std::vector<std::uint8_t> raw(2 * guard + static_cast<std::size_t>(g.rows()) * row_bytes, kCanary);
  const backend::Span whole = upload_bytes(raw, 0);
  args.d = {whole.buffer, guard, raw.size() - 2 * guard};
  if (g.a_source != DType::none) {
    const auto rows = static_cast<std::size_t>(g.rows_in_memory());
    args.a_quantized = upload_bytes(std::vector<std::uint8_t>(rows * static_cast<std::size_t>(g.k)), 0);
    args.a_quantized_scale =
        upload_bytes(std::vector<std::uint8_t>(rows * static_cast<std::size_t>(g.a_grid.scale_cols(g.k)) * 4), 0);
  }
  EXPECT_EQ(plan->enqueue(queue, args)->wait(std::chrono::nanoseconds::max()), backend::Status::ok);
  queue->read(whole, raw.data());
  if (g.a_source != DType::none) {
    out.a_quantized.resize(args.a_quantized.size);
    out.a_quantized_scale.resize(args.a_quantized_scale.size);
    queue->read(args.a_quantized, out.a_quantized.data());
    queue->read(args.a_quantized_scale, out.a_quantized_scale.data());
  }
  queue->finish();

  // The codes are those of numerics, not the device's own.
  const std::int64_t in_memory = g.rows_in_memory(), scale_cols = g.a_grid.scale_cols(g.k);
  std::vector<std::uint8_t> codes;
  std::vector<float> code_scales;
  if (g.a_source != DType::none) {
    codes.resize(static_cast<std::size_t>(in_memory * g.k));
    code_scales.resize(static_cast<std::size_t>(in_memory * scale_cols));
    numerics::quantize(g.a_source, data.operands.a.data(), in_memory, g.k, desc.lda, g.a, g.a_grid, {}, codes,
                       code_scales);
  }
  const bool made = g.a_source != DType::none;
  const std::size_t element = made ? 1 : numerics::size_of(g.a);
  const std::uint8_t* const source = made ? codes.data() : data.operands.a.data();
  const std::uint8_t* const scales =
      made ? reinterpret_cast<const std::uint8_t*>(code_scales.data()) : data.operands.a_scales.data();
  const auto ld = static_cast<std::size_t>(made ? g.k : desc.lda) * element;
  const std::size_t scale_size = static_cast<std::size_t>(scale_cols) * (made ? 4 : numerics::size_of(g.a_scale));
  const backend::ScaleDesc a_scale = made ? backend::ScaleDesc{DType::f32, g.a_grid, scale_cols} : desc.a_scale;
  const std::size_t b_bytes = static_cast<std::size_t>(g.n * g.k) * numerics::size_of(g.b);
  const std::size_t b_scales =
      static_cast<std::size_t>(g.b_grid.scale_rows(g.n) * g.b_grid.scale_cols(g.k)) * numerics::size_of(g.b_scale);
  std::vector<bool> valid(static_cast<std::size_t>(g.rows()));
  out.rows.resize(valid.size());
  const auto spans = g.spans();
  for (std::size_t matrix = 0; matrix < spans.size(); ++matrix) {
    const auto [first, count] = spans[matrix];
    if (count == 0) continue;
    std::vector<std::uint8_t> a, a_scales;
    std::vector<double> got;
    for (std::int64_t row = first; row < first + count; ++row) {
      const auto from = static_cast<std::size_t>(row_of_a(g, data, row));
      a.insert(a.end(), source + from * ld, source + from * ld + static_cast<std::size_t>(g.k) * element);
      if (a_scale.dtype != DType::none)
        a_scales.insert(a_scales.end(), scales + from * scale_size, scales + (from + 1) * scale_size);
      const std::uint8_t* const d = raw.data() + guard + static_cast<std::size_t>(row) * row_bytes;
      out.rows[static_cast<std::size_t>(row)].assign(d, d + static_cast<std::size_t>(g.n) * size);
      valid[static_cast<std::size_t>(row)] = true;
      for (std::int64_t col = 0; col < g.n; ++col) got.push_back(numerics::load_as_f64(g.d, d, col));
    }
    const std::uint8_t* const bias =
        g.bias == DType::none
            ? nullptr
            : data.operands.bias.data() + matrix * static_cast<std::size_t>(g.n) * numerics::size_of(g.bias);
    const numerics::OracleResult want =
        numerics::oracle(operand(g.a, a.data(), count, g.k, a_scale, a_scales.data()),
                         operand(g.b, data.operands.b.data() + matrix * b_bytes, g.n, g.k, desc.b_scale,
                                 data.operands.b_scales.data() + matrix * b_scales),
                         g.bias, bias, desc.weakest_accuracy);
    const numerics::Comparison c =
        numerics::compare(got, want, {g.d, out.info.accuracy, g.k, out.info.accumulation_length});
    out.worst = std::max(out.worst, c.max_error_over_bound);
    if (!c.pass && out.wrong.empty()) {
      out.wrong = "matrix " + std::to_string(matrix) + " at [" + std::to_string(c.worst_row) + ", " +
                  std::to_string(c.worst_col) + "]: got " + std::to_string(c.worst_got) + ", expected " +
                  std::to_string(c.worst_want);
    }
  }
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const bool inside = i >= guard && i < raw.size() - guard;
    const std::size_t row = inside ? (i - guard) / row_bytes : 0, at = inside ? (i - guard) % row_bytes : 0;
    if ((!inside || !valid[row] || at >= static_cast<std::size_t>(g.n) * size) && raw[i] != kCanary)
      out.canaries = false;
  }
  return out;
}

int check(const Grouped& g) {
  const GroupedData data = make_data(g);
  int ran = 0;
  for (const auto& device : devices()) {
    const backend::Support support = device->supports(g.desc());
    if (support.reason != backend::Reason::none) continue;
    const GroupedOutcome outcome = run(*device, g, data);
    EXPECT_TRUE(outcome.wrong.empty()) << device->props().name << ": " << g.line() << "\n  " << outcome.info.variant
                                       << " " << outcome.info.tuning << "\n  error over bound " << outcome.worst
                                       << ", " << outcome.wrong;
    EXPECT_TRUE(outcome.canaries) << device->props().name << ": " << g.line() << "\n  " << outcome.info.variant
                                  << ": bytes of D outside the rows of matrices were written";
    ++ran;
  }
  return ran;
}

void expect_right_in_both_layouts(backend::Device& device, Grouped g, std::int64_t m, std::int64_t capacity) {
  for (const bool masked : {false, true}) {
    g.masked = masked;
    g.m = masked ? capacity : m;
    g.a_rows = masked ? 0 : 17;
    const GroupedOutcome outcome = run(device, g, make_data(g));
    EXPECT_EQ(outcome.info.variant, g.options.front().second);
    EXPECT_TRUE(outcome.canaries) << g.line();
    EXPECT_EQ(outcome.wrong, "") << g.line();
  }
}

int devices_with_room_for_a_panel() {
  constexpr std::int64_t kLeast = (2 * 128 + 16) * 32 * 4;  // gemm_panel.cl, the lowest blocks.
  return static_cast<int>(std::count_if(devices().begin(), devices().end(), [](const auto& device) {
    return dynamic_cast<Device&>(*device).context()->features.local_bytes >= kLeast;
  }));
}

std::vector<backend::Options> grouped_variants() {
  std::vector<backend::Options> all;
  for (const Variant& variant : variants()) {
    if (variant.schedule == nullptr) continue;
    backend::Options options{{"variant", variant.name}};
    if (variant.name == "gemm_tiled")
      options.insert(options.end(), {{"tile_m", "16"}, {"tile_n", "32"}, {"tile_k", "16"}, {"work_m", "2"}});
    if (variant.name == "gemm_skinny")
      options.insert(options.end(), {{"tile_m", "2"}, {"lanes", "4"}, {"slices", "2"}, {"split_k", "2"}});
    if (variant.name == "gemm_panel")
      options.insert(options.end(), {{"tile_m", "3"}, {"block_m", "2"}, {"block_n", "64"}});
    if (variant.name == "gemm_stream")
      options.insert(options.end(), {{"tile_m", "3"}, {"block_m", "2"}, {"split_k", "2"}});
    if (variant.name == "gemm_stream_bf16") options.insert(options.end(), {{"tile_m", "3"}, {"block_m", "2"}});
    if (variant.name == "gemm_mma_stream") {
      all.push_back({{"variant", variant.name}, {"tile_m", "2"}, {"warps", "4"}});
      options.insert(options.end(), {{"tile_m", "16"}, {"columns", "32"}, {"depth", "3"}});
    }
    all.push_back(options);
    // Even so few tiles are made in parts of K then.
    if (std::any_of(variant.tunables.begin(), variant.tunables.end(),
                    [](const Tunable& t) { return t.name == "share"; }))
      all.push_back({{"variant", variant.name}, {"share", "1"}});
  }
  return all;
}

}  // namespace ironcl::opencl::testing
