// SPDX-License-Identifier: Apache-2.0
// Mixture of experts on an OpenCL device, through backends/interface.h: layers (experts_layer.cpp), or with --product
// one grouped product beside a dense one of as many rows.
#include <cstdlib>

#include "bench/experts.h"

namespace {

using namespace ironcl;
using namespace ironcl::bench;

/// One grouped product of G matrices of about m rows each beside a dense one of as many rows; codes come ready.
void compare_products(Run& run, std::int64_t matrices, std::int64_t m, std::int64_t n, std::int64_t k, int rounds,
                      const std::string& accuracy) {
  std::mt19937 random(3);
  std::vector<std::int32_t> counts;
  std::int64_t rows = 0;
  for (std::int64_t g = 0; g < matrices; ++g) {
    counts.push_back(static_cast<std::int32_t>(static_cast<double>(m) *
                                               (0.7 + 0.6 * static_cast<double>(random() % 1000) / 1000)));
    rows += counts.back();
  }
  auto dense_desc = product(rows, n, k, DType::none);
  if (accuracy == "tensor14") dense_desc.weakest_accuracy = backend::AccuracyClass::tensor14;
  const auto plan = run.device().create_gemm(grouped(dense_desc, matrices)),
             dense = run.device().create_gemm(dense_desc);
  const auto codes = random_codes(matrices * n * k, 4);
  const std::vector<float> scales(
      static_cast<std::size_t>(matrices * numerics::ceil_div(n, kBlock) * numerics::ceil_div(k, kBlock)), 0x1p-6f);
  backend::GemmArgs a;
  a.m = rows;
  a.a = run.upload(random_codes(rows * k, 5));
  a.a_scale = run.upload(std::vector<float>(static_cast<std::size_t>(rows * numerics::ceil_div(k, kBlock)), 0x1p-6f));
  a.d = run.buffer(rows * n * 2);
  backend::GemmArgs b = a;
  a.matrix_rows = run.upload(counts);
  a.weights = run.weights(plan, codes, scales);
  b.weights = run.weights(dense, codes, scales, 0);
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
      "{} matrices of about {} rows ({} in all), {} x {}: grouped {:.1f} us, {:.1f} TFLOP/s ({} {}); dense {:.1f} "
      "us, "
      "{:.1f} TFLOP/s ({}); grouped has {:.0f} % of its speed\n",
      matrices, m, rows, n, k, median(with) / 1e3, flop / median(with) / 1e3, plan->info().variant,
      plan->info().config, median(without) / 1e3, flop / median(without) / 1e3, dense->info().variant,
      100 * median(without) / median(with));
  std::fflush(stdout);
}

int usage() {
  fmt::print(stderr,
             "usage: ironcl_experts [--device N] [--rounds N] [--no-amx] MODEL[:EXPERTS] T[,T...]\n"
             "       ironcl_experts [--device N] [--rounds N] [--accuracy tensor14] --product G,M,N,K ...\n"
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
  std::size_t index = 0;
  int rounds = 9;
  bool amx = true;
  std::string accuracy;
  std::vector<std::string> words;
  std::vector<std::string> products;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--device" && i + 1 < argc) {
      index = static_cast<std::size_t>(std::atoi(argv[++i]));
    } else if (word == "--rounds" && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--no-amx") {
      amx = false;
    } else if (word == "--accuracy" && i + 1 < argc) {
      accuracy = argv[++i];
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
  const auto backend = opencl::make_backend(config, nullptr);
  const auto devices = backend->devices();
  if (index >= devices.size()) return usage();
  Run run(devices[index]);
  fmt::print("{}\n", run.device().props().name);
  for (const std::string& text : products) {
    const auto p = numbers(text);
    if (p.size() != 4) return usage();
    compare_products(run, p[0], p[1], p[2], p[3], rounds, accuracy);
  }
  if (products.empty()) {
    fmt::print("{}\n", run.device().query("ceilings", nullptr));
    const std::size_t colon = words[0].find(':');
    const auto model = std::find_if(kModels.begin(), kModels.end(),
                                    [&](const Model& m) { return m.name == words[0].substr(0, colon); });
    if (model == kModels.end()) return usage();
    const std::int64_t experts =
        colon == std::string::npos ? model->experts : std::atoll(words[0].c_str() + colon + 1);
    layer(run, *model, experts, numbers(words[1]), rounds);
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
