// SPDX-License-Identifier: Apache-2.0
// Mixture of experts on an OpenCL device, through backends/interface.h: layers (experts_layer.cpp), or with --product
// one grouped product beside a dense one of as many rows.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <stdexcept>

#include "backends/words.h"
#include "bench/experts.h"

namespace {

using namespace ironcl;
using namespace ironcl::bench;

/// One grouped product of G matrices of about m rows each beside a dense one of as many rows; A comes as codes, or in
/// bf16 to be quantised in the plans. With a capacity each matrix has so many rows of A and D to itself (masked).
/// Repeatable: of a grouped plan that must be.
void compare_products(Run& run, std::int64_t matrices, std::int64_t m, std::int64_t n, std::int64_t k,
                      std::int64_t capacity, int rounds, const std::string& accuracy, bool repeatable,
                      bool codes_given, const Options& options) {
  std::mt19937 random(3);
  std::vector<std::int32_t> counts;
  std::int64_t rows = 0;
  for (std::int64_t g = 0; g < matrices; ++g) {
    counts.push_back(static_cast<std::int32_t>(static_cast<double>(m) *
                                               (0.7 + 0.6 * static_cast<double>(random() % 1000) / 1000)));
    rows += counts.back();
  }
  const auto dense_of = [&](std::int64_t of_rows) {
    auto desc = product(of_rows, n, k, codes_given ? DType::none : DType::bf16);
    if (accuracy == "tensor14") desc.weakest_accuracy = backend::AccuracyClass::tensor14;
    return desc;
  };
  auto desc = grouped(dense_of(capacity > 0 ? capacity : rows), matrices);
  desc.repeatable = repeatable;
  desc.options = options;
  if (capacity > 0) {
    desc.grouping = Grouping::masked;
    desc.options.emplace_back("expected_rows", std::to_string(m));
  }
  const auto plan = run.device().create_gemm(desc), dense = run.device().create_gemm(dense_of(rows));
  const std::int64_t all_rows = capacity > 0 ? matrices * capacity : rows, scales_k = numerics::ceil_div(k, kBlock);
  const auto codes = random_codes(matrices * n * k, 4);
  const std::vector<float> scales(static_cast<std::size_t>(matrices * numerics::ceil_div(n, kBlock) * scales_k),
                                  0x1p-6f);
  backend::GemmArgs a;
  a.m = desc.m;
  const auto a_codes = random_codes(codes_given ? all_rows * k : 0, 5);
  const auto a_floats = random_bf16(codes_given ? 0 : all_rows * k, 5);
  const auto give_rows = [&](backend::GemmArgs& to, std::int64_t first, std::int64_t count) {
    const auto part = [&](const auto& all) {
      return run.upload(std::vector(all.begin() + first * k, all.begin() + (first + count) * k));
    };
    to.a = codes_given ? part(a_codes) : part(a_floats);
    if (codes_given) to.a_scale = run.upload(std::vector<float>(static_cast<std::size_t>(count * scales_k), 0x1p-6f));
  };
  give_rows(a, 0, all_rows);
  a.d = run.buffer(all_rows * n * 2);
  backend::GemmArgs b = a;
  b.m = rows;
  a.matrix_rows = run.upload(counts);
  a.weights = run.weights(plan, codes, scales);
  b.weights = run.weights(dense, codes, scales, 0);
  // Checked first: the last matrix with the dense kernel.
  const std::int64_t last = counts.back(), first_row = capacity > 0 ? (matrices - 1) * capacity : rows - last;
  const auto part = [&](const backend::Span& span, std::int64_t row_bytes) {
    return backend::Span{span.buffer, static_cast<std::uint64_t>(first_row * row_bytes),
                         static_cast<std::uint64_t>(last * row_bytes)};
  };
  const auto alone = run.device().create_gemm(dense_of(last));
  backend::GemmArgs c;
  c.m = last;
  // Memory of its own: where its rows begin in that of all need not be a place where an operand may.
  give_rows(c, first_row, last);
  c.weights = run.weights(alone, codes, scales, matrices - 1);
  c.d = run.buffer(last * n * 2);
  alone->enqueue(run.queue(), c);
  plan->enqueue(run.queue(), a);
  const double apart = difference(run.read(part(a.d, n * 2)), run.read(c.d));
  if (!(apart < 0x1p-7))
    throw std::runtime_error(fmt::format("grouped and dense differ by {} of the largest value", apart));
  std::vector<double> with, without;
  for (int i = 0; i < rounds + 2; ++i) {
    const auto time = [&](const std::shared_ptr<backend::Gemm>& p, const backend::GemmArgs& args) {
      const auto event = p->enqueue(run.queue(), args);
      event->wait(std::chrono::nanoseconds::max());
      const backend::Profile profile = event->profile();
      return static_cast<double>(profile.end_ns - profile.start_ns);
    };
    const double one = time(plan, a), other = time(dense, b);
    if (i >= 2) {
      with.push_back(one);
      without.push_back(other);
    }
  }
  const double flop = 2.0 * static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(k);
  fmt::print(
      "{} matrices of about {} rows{} ({} in all{}), {} x {}: grouped {:.1f} us, {:.1f} TFLOP/s, {:.2f} TB/s of "
      "weights ({} {}); dense "
      "{:.1f} us, {:.1f} TFLOP/s ({}); grouped has {:.0f} % of its speed\n",
      matrices, m, codes_given ? "" : " of bf16", rows,
      capacity > 0 ? fmt::format(", masked inside {}", capacity) : "", n, k, median(with) / 1e3,
      flop / median(with) / 1e3, static_cast<double>(matrices * n * k) / median(with) / 1e3, plan->info().variant,
      plan->info().config, median(without) / 1e3, flop / median(without) / 1e3, dense->info().variant,
      100 * median(without) / median(with));
  std::fflush(stdout);
}

std::vector<std::int64_t> numbers(const std::string& text) {
  std::vector<std::int64_t> all;
  for (const std::string_view word : words::split(text, ',')) all.push_back(std::stoll(std::string(word)));
  return all;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string device = "0", accuracy = "f32", kernel_dir, model_text, tokens;
  int rounds = 9;
  bool amx = true, repeatable = false, bf16 = false;
  std::vector<std::string> opts, products;
  CLI::App app("Mixture of experts: a layer beside a loop of dense plans, or one grouped product beside a dense one");
  app.add_option("model", model_text, "MODEL[:EXPERTS] of a layer: qwen3-30b-a3b, qwen3-235b-a22b, deepseek-v3");
  app.add_option("tokens", tokens, "T[,T...], numbers of tokens");
  app.add_option("--device", device, "its number, or a part of its name")->capture_default_str();
  app.add_option("--rounds", rounds, "medians are of so many")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_flag("!--no-amx", amx, "without the tile unit");
  app.add_option("--cl-dir", kernel_dir, "folder of kernels instead of those built in");
  app.add_option("--opt", opts, "KEY=VALUE of the grouped plans")->allow_extra_args(false);
  app.add_option("--accuracy", accuracy, "weakest class of a product")->check(CLI::IsMember({"f32", "tensor14"}));
  app.add_flag("--bf16", bf16, "A of a --product comes in bf16, to be quantised in the plans, not as codes");
  app.add_flag("--repeatable", repeatable, "grouped products must be");
  app.add_option("--product", products, "G,M,N,K[,CAPACITY]")->allow_extra_args(false);
  CLI11_PARSE(app, argc, argv);
  if (products.empty() && tokens.empty()) throw std::runtime_error("name MODEL[:EXPERTS] and T, or a --product");
  Options options;
  for (const std::string& opt : opts) {
    const auto pair = words::key_value(opt);
    if (!pair) throw std::runtime_error(fmt::format("--opt {}: write KEY=VALUE", opt));
    options.emplace_back(pair->first, pair->second);
  }
  opencl::Config config;
  config.trial_program = IRONCL_TRIAL_PROGRAM;
  config.amx = amx;
  config.kernel_dir = kernel_dir;
  const auto backend = opencl::make_backend(config, nullptr);
  const auto devices = backend->devices();
  // A number in the list, or a part of a name.
  const bool is_number = device.find_first_not_of("0123456789") == std::string::npos;
  std::size_t index = is_number ? static_cast<std::size_t>(std::atoi(device.c_str())) : 0;
  while (!is_number && index < devices.size() && devices[index]->props().name.find(device) == std::string::npos)
    ++index;
  if (index >= devices.size()) throw std::runtime_error(fmt::format("there is no device {}", device));
  Run run(devices[index]);
  fmt::print("{}\n", run.device().props().name);
  for (const std::string& text : products) {
    const auto p = numbers(text);
    if (p.size() != 4 && p.size() != 5)
      throw std::runtime_error(fmt::format("--product {}: write G,M,N,K[,CAPACITY]", text));
    compare_products(run, p[0], p[1], p[2], p[3], p.size() == 5 ? p[4] : 0, rounds, accuracy, repeatable, !bf16,
                     options);
  }
  if (products.empty()) {
    fmt::print("{}\n", run.device().query("ceilings", nullptr));
    const auto parts = words::split(model_text, ':');
    const auto model =
        std::find_if(kModels.begin(), kModels.end(), [&](const Model& m) { return m.name == parts[0]; });
    if (model == kModels.end()) throw std::runtime_error(fmt::format("there is no model {}", parts[0]));
    const std::int64_t experts = parts.size() > 1 ? std::stoll(std::string(parts[1])) : model->experts;
    compare_layer(run, {*model, experts, numbers(tokens), rounds, options});
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
