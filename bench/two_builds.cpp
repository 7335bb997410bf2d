// SPDX-License-Identifier: Apache-2.0
// Two builds of a plugin in one process, call by call in turns: what a change costs or gives a whole call. Both make
// the same plan of bf16 activations quantised in it and take the same operands; says whether both gave the same bits.
// Next door: cpu_peers.cpp (beside other libraries), run (`./dev bench two-builds OLD.so NEW.so`).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/words.h"
#include "host/layer/execution.h"
#include "host/layer/synthetic.h"
#include "host/tuning/ceilings.h"

namespace {

using namespace ironcl;
using numerics::DType;
using report::Problem;

/// One build: its device, and the plan under measurement.
struct Side {
  Side(const std::string& file, std::size_t number) {
    registry.load_file(file);
    const std::vector<Device> devices = registry.devices();
    if (number >= devices.size())
      throw std::runtime_error(fmt::format("{} has {} devices; --device {}", file, devices.size(), number));
    device = devices[number];
  }
  void make(Problem problem, const Options& options, const layer::Operands& operands) {
    problem.options = options;
    plan.emplace(*device, problem, operands);
  }
  void call() {
    const layer::Timing timing = plan->run();
    whole.push_back(timing.host_ns / 1e3);
    kernels.push_back(timing.device_ns / 1e3);
  }
  std::string choice() const {
    const ironcl_op_info info = plan->plan().info();
    return fmt::format("{} {}", info.variant, info.tuning);
  }

  Registry registry;
  std::optional<Device> device;
  std::optional<layer::Execution> plan;
  std::vector<double> whole, kernels;  ///< Microseconds per call.
};

double median(const std::vector<double>& values) { return tuning::summarize(values).median; }

void measure(Side& before, Side& after, const Problem& problem, double seconds) {
  for (int round = 0; round < 20; ++round) before.call(), after.call();
  const bool same = before.plan->compute().d == after.plan->compute().d;
  for (Side* side : {&before, &after}) side->whole.clear(), side->kernels.clear();
  std::vector<double> pairs;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (int round = 0; std::chrono::steady_clock::now() < end; ++round) {
    Side &first = round % 2 == 0 ? before : after, &second = round % 2 == 0 ? after : before;
    first.call();
    second.call();
    pairs.push_back(before.whole.back() / after.whole.back());
  }
  fmt::print("{:18} {:9.1f} {:9.1f} {:8.3f} {:8.3f} {:9.1f} {:9.1f} {:7}  {:4} {}\n",
             fmt::format("{}x{}x{}", problem.m, problem.n, problem.k), median(before.whole), median(after.whole),
             median(before.whole) / median(after.whole), median(pairs), median(before.kernels), median(after.kernels),
             pairs.size(), same ? "yes" : "NO",
             before.choice() == after.choice() ? after.choice() : before.choice() + " -> " + after.choice());
  std::fflush(stdout);
}

Options options_of(const std::vector<std::string>& words, const char* option) {
  Options options;
  for (const std::string& word : words) {
    const auto pair = words::key_value(word);
    if (!pair) throw std::runtime_error(fmt::format("{} {}: write KEY=VALUE", option, word));
    options.emplace_back(pair->first, pair->second);
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string before, after;
  std::vector<std::int64_t> rows{1, 16};
  std::vector<std::string> shapes{"4096x4096", "3072x1024", "7168x2048", "576x7168"}, opts, new_opts;
  std::size_t device = 0;
  double seconds = 3;
  CLI::App app("Two builds of a plugin, call by call in turns");
  app.add_option("old", before, "the one plugin file")->required();
  app.add_option("new", after, "the other")->required();
  app.add_option("--m", rows, "rows of A")->delimiter(',')->capture_default_str();
  app.add_option("--shape", shapes, "NxK")->delimiter(',')->capture_default_str();
  app.add_option("--opt", opts, "KEY=VALUE of both plans, such as variant=gemm_stream");
  app.add_option("--new-opt", new_opts, "KEY=VALUE of the new one's plans alone, such as split_k=1");
  app.add_option("--device", device, "the device's number")->capture_default_str();
  app.add_option("--seconds", seconds, "for each row")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const Options old_options = options_of(opts, "--opt");
  Options new_options = old_options;
  for (auto& option : options_of(new_opts, "--new-opt")) new_options.push_back(std::move(option));
  Side first(before, device), second(after, device);
  fmt::print(
      "us per call; ratios old/new: above 1 the new one is faster\n{:18} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9} {:>7}  "
      "same\n",
      "MxNxK", "old", "new", "medians", "pairs", "kernels", "kernels", "calls");
  Problem problem;
  problem.a = problem.b = DType::e4m3fn;
  problem.a_source = problem.d = DType::bf16;
  problem.a_scale = {DType::f32, {1, 128}};
  problem.b_scale = {DType::f32, {128, 128}};
  for (const std::string& text : shapes) {
    const auto sizes = words::split(text, 'x');
    const auto n = sizes.size() == 2 ? words::number<std::int64_t>(sizes[0]) : std::nullopt;
    const auto k = sizes.size() == 2 ? words::number<std::int64_t>(sizes[1]) : std::nullopt;
    if (!n || !k) throw std::runtime_error(fmt::format("--shape {}: write NxK", text));
    problem.n = *n, problem.k = *k;
    for (problem.m = 0; const std::int64_t m : rows) {
      problem.m = m;
      const layer::MadeOperands operands = layer::make_operands(problem, 7);
      first.make(problem, old_options, operands);
      second.make(problem, new_options, operands);
      measure(first, second, problem, seconds);
    }
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "two-builds: {}\n", error.what());
  return 1;
}
