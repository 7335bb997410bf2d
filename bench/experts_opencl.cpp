// SPDX-License-Identifier: Apache-2.0
// Mixture of experts on an OpenCL device, through backends/interface.h: layers (experts_layer.cpp), or with --product
// one grouped product beside a dense one of as many rows.
#include <cstdlib>

#include "bench/experts.h"

namespace {

using namespace ironcl;
using namespace ironcl::bench;

/// One grouped product of G matrices of about m rows each beside a dense one of as many rows; codes come ready. With
/// a capacity each matrix has so many rows of A and D to itself (masked). Repeatable: of a grouped plan that must be.
void compare_products(Run& run, std::int64_t matrices, std::int64_t m, std::int64_t n, std::int64_t k,
                      std::int64_t capacity, int rounds, const std::string& accuracy, bool repeatable) {
  std::mt19937 random(3);
  std::vector<std::int32_t> counts;
  std::int64_t rows = 0;
  for (std::int64_t g = 0; g < matrices; ++g) {
    counts.push_back(static_cast<std::int32_t>(static_cast<double>(m) *
                                               (0.7 + 0.6 * static_cast<double>(random() % 1000) / 1000)));
    rows += counts.back();
  }
  const auto dense_of = [&](std::int64_t of_rows) {
    auto desc = product(of_rows, n, k, DType::none);
    if (accuracy == "tensor14") desc.weakest_accuracy = backend::AccuracyClass::tensor14;
    return desc;
  };
  auto desc = grouped(dense_of(capacity > 0 ? capacity : rows), matrices);
  desc.repeatable = repeatable;
  if (capacity > 0) {
    desc.grouping = Grouping::masked;
    desc.options = {{"expected_rows", std::to_string(m)}};
  }
  const auto plan = run.device().create_gemm(desc), dense = run.device().create_gemm(dense_of(rows));
  const std::int64_t all_rows = capacity > 0 ? matrices * capacity : rows, scales_k = numerics::ceil_div(k, kBlock);
  const auto codes = random_codes(matrices * n * k, 4);
  const std::vector<float> scales(static_cast<std::size_t>(matrices * numerics::ceil_div(n, kBlock) * scales_k),
                                  0x1p-6f);
  backend::GemmArgs a;
  a.m = desc.m;
  const auto a_codes = random_codes(all_rows * k, 5);
  a.a = run.upload(a_codes);
  a.a_scale = run.upload(std::vector<float>(static_cast<std::size_t>(all_rows * scales_k), 0x1p-6f));
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
  c.a = run.upload(std::vector(a_codes.begin() + first_row * k, a_codes.begin() + (first_row + last) * k));
  c.a_scale = run.upload(std::vector<float>(static_cast<std::size_t>(last * scales_k), 0x1p-6f));
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
      "{} matrices of about {} rows ({} in all{}), {} x {}: grouped {:.1f} us, {:.1f} TFLOP/s, {:.2f} TB/s of "
      "weights ({} {}); dense "
      "{:.1f} us, {:.1f} TFLOP/s ({}); grouped has {:.0f} % of its speed\n",
      matrices, m, rows, capacity > 0 ? fmt::format(", masked inside {}", capacity) : "", n, k, median(with) / 1e3,
      flop / median(with) / 1e3, static_cast<double>(matrices * n * k) / median(with) / 1e3, plan->info().variant,
      plan->info().config, median(without) / 1e3, flop / median(without) / 1e3, dense->info().variant,
      100 * median(without) / median(with));
  std::fflush(stdout);
}

int usage() {
  fmt::print(
      stderr,
      "usage: ironcl_experts [--device N|NAME] [--rounds N] [--no-amx] [--cl-dir FOLDER] [--opt KEY=VALUE ...] "
      "MODEL[:EXPERTS] T[,T...]\n"
      "       ironcl_experts [--device N|NAME] [--rounds N] [--accuracy tensor14] [--repeatable] --product "
      "G,M,N,K[,CAPACITY] ...\n"
      "models:");
  for (const Model& model : kModels) fmt::print(stderr, " {}", model.name);
  fmt::print(stderr, "\n");
  return 2;
}

std::vector<std::int64_t> numbers(const std::string& text) {
  std::vector<std::int64_t> all;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    all.push_back(std::strtoll(text.substr(at, end - at).c_str(), nullptr, 10));
    at = end + 1;
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string device = "0";
  int rounds = 9;
  bool amx = true;
  std::string accuracy, kernel_dir;
  bool repeatable = false;
  Options options;
  std::vector<std::string> words;
  std::vector<std::string> products;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--device" && i + 1 < argc) {
      device = argv[++i];
    } else if (word == "--rounds" && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--no-amx") {
      amx = false;
    } else if (word == "--cl-dir" && i + 1 < argc) {
      kernel_dir = argv[++i];
    } else if (word == "--opt" && i + 1 < argc) {
      const std::string text = argv[++i];
      const std::size_t equals = std::min(text.find('='), text.size() - 1);
      options.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    } else if (word == "--accuracy" && i + 1 < argc) {
      accuracy = argv[++i];
    } else if (word == "--repeatable") {
      repeatable = true;
    } else if (word == "--product" && i + 1 < argc) {
      products.push_back(argv[++i]);
    } else {
      words.push_back(word);
    }
  }
  if (products.empty() && words.size() != 2) return usage();
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
  if (index >= devices.size()) return usage();
  Run run(devices[index]);
  fmt::print("{}\n", run.device().props().name);
  for (const std::string& text : products) {
    const auto p = numbers(text);
    if (p.size() != 4 && p.size() != 5) return usage();
    compare_products(run, p[0], p[1], p[2], p[3], p.size() == 5 ? p[4] : 0, rounds, accuracy, repeatable);
  }
  if (products.empty()) {
    fmt::print("{}\n", run.device().query("ceilings", nullptr));
    const std::size_t colon = words[0].find(':');
    const auto model = std::find_if(kModels.begin(), kModels.end(),
                                    [&](const Model& m) { return m.name == words[0].substr(0, colon); });
    if (model == kModels.end()) return usage();
    const std::int64_t experts =
        colon == std::string::npos ? model->experts : std::atoll(words[0].c_str() + colon + 1);
    layer(run, *model, experts, numbers(words[1]), rounds, options);
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
