// SPDX-License-Identifier: Apache-2.0
#include "tests/opencl/harness.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "backends/numerics/casts.h"
#include "backends/numerics/quantize.h"

namespace ironcl::opencl::testing {

using backend::DType;

namespace {

std::string& reason() {
  static std::string text;
  return text;
}

bool wanted(const backend::DeviceProps& props, std::size_t index) {
  const char* value = std::getenv("IRONCL_OPENCL_TEST_DEVICE");
  if (value == nullptr || *value == '\0') return true;
  const std::string text = value;
  const auto colon = text.find(':');
  if (colon == std::string::npos) return text == std::to_string(index);
  return props.driver.find(text.substr(0, colon)) != std::string::npos &&
         props.name.find(text.substr(colon + 1)) != std::string::npos;
}

template <class T>
std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
  std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

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

backend::ScaleDesc scale_desc(DType type, const numerics::ScaleGrid& grid, std::int64_t cols) {
  return {type, grid, type == DType::none ? 0 : grid.scale_cols(cols)};
}

}  // namespace

Made make(const Config& config, backend::Log* log) {
  Made made;
  made.backend = make_backend(config, log);
  try {
    auto all = made.backend->devices();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (wanted(all[i]->props(), i)) made.devices.push_back(all[i]);
    }
    if (made.devices.empty()) reason() = "no OpenCL device is selected; see IRONCL_OPENCL_TEST_DEVICE";
  } catch (const backend::Error& error) {
    reason() = error.what();
  }
  return made;
}

const std::vector<std::shared_ptr<backend::Device>>& devices() {
  // Never destroyed: drivers may already be gone when static objects are.
  static const Made* made = [] {
    Config config;
    config.trial_program = IRONCL_TRIAL_PROGRAM;
    return new Made(make(config));
  }();
  return made->devices;
}

std::string why_no_devices() { return reason(); }

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
  return g;
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
  data.a = values_of(source, c.m * lda);
  if (numerics::is_quantized(c.a) && c.a_source == DType::none && c.a_scale != DType::none) {
    data.a_scales = scales_of(c.a_scale, c.a_grid.scale_rows(c.m) * c.a_grid.scale_cols(c.k), random);
  }
  data.b = values_of(c.b, c.n * c.k);
  if (c.b_scale != DType::none) {
    data.b_scales = scales_of(c.b_scale, c.b_grid.scale_rows(c.n) * c.b_grid.scale_cols(c.k), random);
  }
  if (c.bias != DType::none) {
    std::vector<float> bias(static_cast<std::size_t>(c.n));
    for (float& v : bias) v = (random.uniform() - 0.5f) * 100;
    data.bias = typed(c.bias, bias);
  }
  return data;
}

backend::WeightsDesc weights_desc(const Case& c, const Data& data, std::shared_ptr<backend::Gemm> plan) {
  backend::WeightsDesc w;
  w.dtype = c.b;
  w.n = c.n;
  w.k = w.ld = c.k;
  w.scale = c.desc().b_scale;
  w.data = reinterpret_cast<const std::byte*>(data.b.data());
  w.scales = reinterpret_cast<const std::byte*>(data.b_scales.data());
  w.global_scales = &c.b_global;
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

Outcome run(backend::Device& device, const Case& c, const Data& data, std::int64_t rows, bool weights_with_plan) {
  Outcome out;
  const backend::GemmDesc desc = c.desc();
  const std::int64_t m = rows < 0 ? c.m : rows;
  const auto plan = device.create_gemm(desc);
  out.info = plan->info();
  const auto queue = device.create_queue();
  backend::GemmArgs args;
  args.m = m;
  args.weights = device.prepare_weights(weights_desc(c, data, weights_with_plan ? plan : nullptr));
  const std::uint64_t align = device.props().buffer_alignment;
  const auto upload = [&](const std::vector<std::uint8_t>& bytes, std::uint64_t offset) {
    backend::Span span{device.create_buffer(offset + bytes.size()), offset, bytes.size()};
    queue->write(span, bytes.data(), backend::HostSemantics::copied_before_return);
    return span;
  };
  args.a = upload(data.a, align);
  if (!data.a_scales.empty()) args.a_scale = upload(data.a_scales, 3 * align);
  if (!data.bias.empty()) args.bias = upload(data.bias, align);
  const std::size_t size = numerics::size_of(c.d);
  const auto ldd = static_cast<std::size_t>(desc.ldd);
  const std::size_t guard = 2 * align;
  std::vector<std::uint8_t> poison(guard + static_cast<std::size_t>(c.m) * ldd * size + guard,
                                   0xff);  // NaN in every type.
  const backend::Span whole = upload(poison, 0);
  args.d = {whole.buffer, guard, poison.size() - 2 * guard};
  if (c.a_source != DType::none) {
    args.a_quantized = upload(std::vector<std::uint8_t>(static_cast<std::size_t>(c.m * c.k), 0xee), 0);
    args.a_quantized_scale =
        upload(std::vector<std::uint8_t>(
                   static_cast<std::size_t>(c.a_grid.scale_rows(c.m) * c.a_grid.scale_cols(c.k) * 4), 0xee),
               align);
  }
  const auto event = plan->enqueue(queue, args);
  EXPECT_EQ(event->wait(std::chrono::nanoseconds::max()), backend::Status::ok);
  out.raw.resize(poison.size());
  queue->read(whole, out.raw.data());
  if (c.a_source != DType::none) {
    out.a_quantized.resize(args.a_quantized.size);
    out.a_quantized_scale.resize(args.a_quantized_scale.size);
    queue->read(args.a_quantized, out.a_quantized.data());
    queue->read(args.a_quantized_scale, out.a_quantized_scale.data());
  }
  queue->finish();

  for (std::size_t i = 0; i < out.raw.size(); ++i) {
    const bool in_rows = i >= guard && i < guard + static_cast<std::size_t>(m) * ldd * size;
    const std::size_t column = in_rows ? (i - guard) / size % ldd : 0;
    if ((!in_rows || column >= static_cast<std::size_t>(c.n)) && out.raw[i] != 0xff) out.canaries = false;
  }
  out.d.resize(static_cast<std::size_t>(m * c.n));
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t col = 0; col < c.n; ++col) {
      out.d[static_cast<std::size_t>(row * c.n + col)] =
          numerics::load_as_f64(c.d, out.raw.data() + guard, row * desc.ldd + col);
    }
  }

  // The oracle sees the codes that numerics makes, not the device's own: a wrong quantiser shows here too.
  numerics::Operand a, b;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  a.rows = m;
  a.cols = c.k;
  if (c.a_source != DType::none) {
    codes.resize(static_cast<std::size_t>(m * c.k));
    scales.resize(static_cast<std::size_t>(c.a_grid.scale_rows(m) * c.a_grid.scale_cols(c.k)));
    numerics::quantize(c.a_source, data.a.data(), m, c.k, desc.lda, c.a, c.a_grid, {}, codes, scales);
    a.data = codes.data();
    a.ld = c.k;
    a.scales = scales.data();
    a.scale_dtype = DType::f32;
  } else {
    a.data = data.a.data();
    a.ld = desc.lda;
    a.scales = data.a_scales.data();
    a.scale_dtype = data.a_scales.empty() ? DType::none : c.a_scale;
  }
  a.dtype = c.a;
  a.grid = c.a_grid;
  a.scale_ld = c.a_grid.scale_cols(c.k);
  b.dtype = c.b;
  b.data = data.b.data();
  b.rows = c.n;
  b.cols = b.ld = c.k;
  b.scale_dtype = c.b_scale;
  b.scales = data.b_scales.data();
  b.grid = c.b_grid;
  b.scale_ld = c.b_grid.scale_cols(c.k);
  out.oracle = numerics::oracle(a, b, c.bias, data.bias.data(), c.weakest);
  for (auto* const sums : {&out.oracle.value, &out.oracle.magnitude})
    for (double& sum : *sums) sum *= c.b_global;
  out.comparison = numerics::compare(out.d, out.oracle, {c.d, out.info.accuracy, c.k, out.info.accumulation_length});
  return out;
}

void expect_right(const Outcome& outcome, const Case& c, const std::string& device) {
  const auto& v = outcome.comparison;
  EXPECT_TRUE(v.pass) << device << ": " << c.line() << "\n  " << outcome.info.variant << " " << outcome.info.tuning
                      << "\n  error over bound " << v.max_error_over_bound << " at [" << v.worst_row << ", "
                      << v.worst_col << "]: got " << v.worst_got << ", expected " << v.worst_want << "; "
                      << v.out_of_bounds << " out of bounds, the first at [" << v.first_row << ", " << v.first_col
                      << "]";
  EXPECT_TRUE(outcome.canaries) << device << ": " << c.line() << "\n  bytes outside [m, n] of D were written";
}

}  // namespace ironcl::opencl::testing
