// SPDX-License-Identifier: Apache-2.0
// Grouped products on an OpenCL device, through backends/interface.h, each beside a dense one of as many rows. Next
// door: host/cli/bench_experts.cpp (`ironcl bench --tokens`: whole layers of experts).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/numerics/casts.h"
#include "backends/opencl/backend.h"
#include "backends/words.h"
#include "bench/experts.h"

namespace {

using namespace ironcl;
using namespace ironcl::bench;
using backend::Grouping;

backend::GemmDesc grouped(backend::GemmDesc d, std::int64_t matrices) {
  d.grouping = Grouping::contiguous;
  d.matrices = matrices;
  return d;
}

std::vector<std::uint8_t> random_codes(std::int64_t count, std::uint32_t seed) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
  std::mt19937_64 random(seed);
  std::size_t i = 0;
  for (; i + 8 <= codes.size(); i += 8) {
    const std::uint64_t bits = random() & 0xb7b7b7b7b7b7b7b7ull;  // No NaN, magnitudes of at most 15.
    std::memcpy(codes.data() + i, &bits, 8);
  }
  return codes;
}

std::vector<std::uint16_t> random_bf16(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (auto& v : values) v = static_cast<std::uint16_t>((random() & 0x807fu) | 0x3f00u);
  return values;
}

/// The largest difference of two bf16 matrices in units of the largest value.
double difference(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < a.size() / 2; ++i) {
    const double x = numerics::load_as_f64(DType::bf16, a.data(), static_cast<std::int64_t>(i));
    const double y = numerics::load_as_f64(DType::bf16, b.data(), static_cast<std::int64_t>(i));
    largest = std::max(largest, std::fabs(x));
    apart = std::max(apart, std::isfinite(x) && std::isfinite(y) ? std::fabs(x - y) : INFINITY);
  }
  return apart / std::max(largest, 1e-30);
}

using Options = std::vector<std::pair<std::string, std::string>>;

/// G matrices [n, k] of about m rows each. With a capacity each has so many rows of A and D to itself (masked).
struct Sizes {
  std::int64_t matrices, m, n, k, capacity = 0;
};

struct ProductSettings {
  int rounds = 9;
  backend::AccuracyClass weakest_accuracy = backend::AccuracyClass::f32;
  bool repeatable = false;  ///< Of a grouped plan that must be.
  bool codes_given = true;  ///< A comes as codes, or in bf16 to be quantised in the plans.
  Options options;          ///< Of the grouped plan.
};

/// 0.7 to 1.3 times m rows for each matrix; gpu_peers.py draws as many.
std::vector<std::int32_t> draw_counts(const Sizes& sizes) {
  std::mt19937 random(3);
  std::vector<std::int32_t> counts;
  for (std::int64_t g = 0; g < sizes.matrices; ++g)
    counts.push_back(static_cast<std::int32_t>(static_cast<double>(sizes.m) *
                                               (0.7 + 0.6 * static_cast<double>(random() % 1000) / 1000)));
  return counts;
}

/// A of all rows on the host, as codes or in bf16; scales are all the same.
class Rows {
 public:
  Rows(std::int64_t rows, std::int64_t k, bool codes_given)
      : k_(k),
        codes_given_(codes_given),
        codes_(random_codes(codes_given ? rows * k : 0, 5)),
        floats_(random_bf16(codes_given ? 0 : rows * k, 5)) {}

  /// Uploads some of them as a call's A.
  void give(Run& run, backend::GemmArgs& to, std::int64_t first, std::int64_t count) const {
    const auto part = [&](const auto& all) {
      return run.upload(std::vector(all.begin() + first * k_, all.begin() + (first + count) * k_));
    };
    to.a = codes_given_ ? part(codes_) : part(floats_);
    if (!codes_given_) return;
    const auto scales = static_cast<std::size_t>(count * numerics::ceil_div(k_, kBlock));
    to.a_scale = run.upload(std::vector<float>(scales, 0x1p-6f));
  }

 private:
  std::int64_t k_;
  bool codes_given_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint16_t> floats_;
};

/// One grouped product beside a dense one of as many rows.
class ProductComparison {
 public:
  ProductComparison(Run& run, const Sizes& sizes, const ProductSettings& settings);

  /// The last matrix with the dense kernel. Throws where they differ.
  void check();
  void time();
  void print() const;

 private:
  /// A plan with the operands of its calls.
  struct Side {
    std::shared_ptr<backend::Gemm> plan;
    backend::GemmArgs args;
    std::vector<double> ns;
  };

  bool masked() const { return sizes_.capacity > 0; }
  std::shared_ptr<backend::Gemm> dense_plan(std::int64_t rows) { return run_.device().create_gemm(dense_desc(rows)); }
  backend::GemmDesc dense_desc(std::int64_t rows) const;
  backend::GemmDesc grouped_desc() const;
  double call_ns(const Side& side);

  Run& run_;
  Sizes sizes_;
  ProductSettings settings_;
  std::vector<std::int32_t> counts_;
  std::int64_t rows_;      ///< Of all matrices.
  std::int64_t all_rows_;  ///< Of A and D, those inside a capacity that are nobody's too.
  std::vector<std::uint8_t> codes_;
  std::vector<float> scales_;
  Rows a_;
  Side grouped_, dense_;
};

ProductComparison::ProductComparison(Run& run, const Sizes& sizes, const ProductSettings& settings)
    : run_(run),
      sizes_(sizes),
      settings_(settings),
      counts_(draw_counts(sizes)),
      rows_(std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0})),
      all_rows_(masked() ? sizes.matrices * sizes.capacity : rows_),
      codes_(random_codes(sizes.matrices * sizes.n * sizes.k, 4)),
      scales_(static_cast<std::size_t>(sizes.matrices * numerics::ceil_div(sizes.n, kBlock) *
                                       numerics::ceil_div(sizes.k, kBlock)),
              0x1p-6f),
      a_(all_rows_, sizes.k, settings.codes_given) {
  grouped_.plan = run.device().create_gemm(grouped_desc());
  dense_.plan = dense_plan(rows_);
  backend::GemmArgs& args = grouped_.args;
  args.m = grouped_.plan->desc().m;
  a_.give(run, args, 0, all_rows_);
  args.d = run.buffer(all_rows_ * sizes.n * 2);
  dense_.args = args;  // The same A, and the same D.
  dense_.args.m = rows_;
  args.matrix_rows = run.upload(counts_);
  args.weights = run.weights(grouped_.plan, codes_, scales_);
  dense_.args.weights = run.weights(dense_.plan, codes_, scales_, 0);
}

backend::GemmDesc ProductComparison::dense_desc(std::int64_t rows) const {
  auto desc = product(rows, sizes_.n, sizes_.k, settings_.codes_given ? DType::none : DType::bf16);
  desc.weakest_accuracy = settings_.weakest_accuracy;
  return desc;
}

backend::GemmDesc ProductComparison::grouped_desc() const {
  auto desc = grouped(dense_desc(masked() ? sizes_.capacity : rows_), sizes_.matrices);
  desc.repeatable = settings_.repeatable;
  desc.options = settings_.options;
  if (masked()) {
    desc.grouping = Grouping::masked;
    desc.options.emplace_back("expected_rows", std::to_string(sizes_.m));
  }
  return desc;
}

void ProductComparison::check() {
  const std::int64_t last = counts_.back(), row_bytes = sizes_.n * 2;
  const std::int64_t first_row = masked() ? (sizes_.matrices - 1) * sizes_.capacity : rows_ - last;
  Side alone;
  alone.plan = dense_plan(last);
  alone.args.m = last;
  // Memory of its own: where its rows begin in that of all need not be a place where an operand may.
  a_.give(run_, alone.args, first_row, last);
  alone.args.weights = run_.weights(alone.plan, codes_, scales_, sizes_.matrices - 1);
  alone.args.d = run_.buffer(last * row_bytes);
  alone.plan->enqueue(run_.queue(), alone.args);
  grouped_.plan->enqueue(run_.queue(), grouped_.args);
  const backend::Span of_last{grouped_.args.d.buffer, static_cast<std::uint64_t>(first_row * row_bytes),
                              static_cast<std::uint64_t>(last * row_bytes)};
  const double apart = difference(run_.read(of_last), run_.read(alone.args.d));
  if (!(apart < 0x1p-7))
    throw std::runtime_error(fmt::format("grouped and dense differ by {} of the largest value", apart));
}

/// In turns; the first two of each are not counted.
void ProductComparison::time() {
  for (int i = 0; i < settings_.rounds + 2; ++i) {
    const double with = call_ns(grouped_), without = call_ns(dense_);
    if (i < 2) continue;
    grouped_.ns.push_back(with);
    dense_.ns.push_back(without);
  }
}

double ProductComparison::call_ns(const Side& side) {
  const auto event = side.plan->enqueue(run_.queue(), side.args);
  event->wait(std::chrono::nanoseconds::max());
  const backend::Profile profile = event->profile();
  return static_cast<double>(profile.end_ns - profile.start_ns);
}

void ProductComparison::print() const {
  const auto& [matrices, m, n, k, capacity] = sizes_;
  const double flop = 2.0 * static_cast<double>(rows_) * static_cast<double>(n) * static_cast<double>(k);
  const double with = median(grouped_.ns), without = median(dense_.ns);
  const backend::GemmInfo info = grouped_.plan->info();
  fmt::print(
      "{} matrices of about {} rows{} ({} in all{}), {} x {}: grouped {:.1f} us, {:.1f} TFLOP/s, {:.2f} TB/s of "
      "weights ({} {}); dense "
      "{:.1f} us, {:.1f} TFLOP/s ({}); grouped has {:.0f} % of its speed\n",
      matrices, m, settings_.codes_given ? "" : " of bf16", rows_,
      masked() ? fmt::format(", masked inside {}", capacity) : "", n, k, with / 1e3, flop / with / 1e3,
      static_cast<double>(matrices * n * k) / with / 1e3, info.variant, info.tuning, without / 1e3,
      flop / without / 1e3, dense_.plan->info().variant, 100 * without / with);
  std::fflush(stdout);
}

void compare_products(Run& run, const Sizes& sizes, const ProductSettings& settings) {
  ProductComparison comparison(run, sizes, settings);
  comparison.check();
  comparison.time();
  comparison.print();
}

struct Arguments {
  std::string device = "0", accuracy = "f32", kernel_dir;
  int rounds = 9;
  bool amx = true, repeatable = false, bf16 = false;
  std::vector<std::string> opts, products;

  void declare(CLI::App& app) {
    app.add_option("--device", device, "its number, or a part of its name")->capture_default_str();
    app.add_option("--rounds", rounds, "medians are of so many")->check(CLI::PositiveNumber)->capture_default_str();
    app.add_flag("!--no-amx", amx, "without the tile unit");
    app.add_option("--cl-dir", kernel_dir, "folder of kernels instead of those built in");
    app.add_option("--opt", opts, "KEY=VALUE of the grouped plans")->allow_extra_args(false);
    app.add_option("--accuracy", accuracy, "weakest class of a product")->check(CLI::IsMember({"f32", "tensor14"}));
    app.add_flag("--bf16", bf16, "A of a --product comes in bf16, to be quantised in the plans, not as codes");
    app.add_flag("--repeatable", repeatable, "grouped products must be");
    app.add_option("--product", products, "G,M,N,K[,CAPACITY]; may be repeated")->allow_extra_args(false)->required();
  }
};

std::vector<std::int64_t> numbers(const std::string& text) {
  std::vector<std::int64_t> all;
  for (const std::string_view word : words::split(text, ',')) all.push_back(std::stoll(std::string(word)));
  return all;
}

Sizes sizes_of(const std::string& text) {
  const auto p = numbers(text);
  if (p.size() != 4 && p.size() != 5)
    throw std::runtime_error(fmt::format("--product {}: write G,M,N,K[,CAPACITY]", text));
  return {p[0], p[1], p[2], p[3], p.size() == 5 ? p[4] : 0};
}

Options options_of(const std::vector<std::string>& texts) {
  Options options;
  for (const std::string& text : texts) {
    const auto pair = words::key_value(text);
    if (!pair) throw std::runtime_error(fmt::format("--opt {}: write KEY=VALUE", text));
    options.emplace_back(pair->first, pair->second);
  }
  return options;
}

ProductSettings product_settings(const Arguments& arguments, const Options& options) {
  const auto weakest =
      arguments.accuracy == "tensor14" ? backend::AccuracyClass::tensor14 : backend::AccuracyClass::f32;
  return {arguments.rounds, weakest, arguments.repeatable, !arguments.bf16, options};
}

/// By its number in the list, or a part of its name.
std::shared_ptr<backend::Device> find_device(backend::Backend& backend, const std::string& device) {
  const auto devices = backend.devices();
  const bool is_number = device.find_first_not_of("0123456789") == std::string::npos;
  std::size_t index = is_number ? static_cast<std::size_t>(std::atoi(device.c_str())) : 0;
  while (!is_number && index < devices.size() && devices[index]->props().name.find(device) == std::string::npos)
    ++index;
  if (index >= devices.size()) throw std::runtime_error(fmt::format("there is no device {}", device));
  return devices[index];
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Grouped products, each beside a dense one");
  Arguments arguments;
  arguments.declare(app);
  CLI11_PARSE(app, argc, argv);
  const Options options = options_of(arguments.opts);
  opencl::Config config;
  config.trial_program = IRONCL_TRIAL_PROGRAM;
  config.amx = arguments.amx;
  config.kernel_dir = arguments.kernel_dir;
  const auto backend = opencl::make_backend(config, nullptr);
  Run run(find_device(*backend, arguments.device));
  fmt::print("{}\n", run.device().props().name);
  for (const std::string& text : arguments.products)
    compare_products(run, sizes_of(text), product_settings(arguments, options));
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
