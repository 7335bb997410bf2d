// SPDX-License-Identifier: Apache-2.0
// Block-scaled fp8 on a CPU beside what a user would pick instead, in one run: OpenBLAS on weights dequantised to
// f32, and PyTorch where a Python with it is named. Prints the ratios, writes rows as JSON. Called by `./dev bench
// cpu-peers`, which also forces OpenBLAS's core type: its own detection takes new CPUs for old ones.
//
// All sides take turns. A turn is calls that are timed, some 20 ms of them and no fewer than --calls, after some
// milliseconds of calls that are not: the first calls after a pause find threads asleep. There is a pause before each
// turn, since the threads of a BLAS spin for a while after a call and would be in the other's way. Weights rotate
// through more memory than the caches hold, on all sides.
#include <cblas.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <boost/json.hpp>
#define BOOST_PROCESS_USE_STD_FS 1
#include <boost/process.hpp>
#include <chrono>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "backends/numerics/casts.h"
#include "host/layer/execution.h"
#include "host/layer/synthetic.h"
#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/units.h"
#include "host/tuning/ceilings.h"
#include "ironcl_build_id.h"

namespace {

namespace bp = boost::process;

using namespace ironcl;
using numerics::DType;
using report::now_ns;
using report::Problem;
using tuning::Summary;

struct Arguments {
  std::vector<std::int64_t> m = {1, 16, 128, 1024};
  std::vector<std::string> shapes = {"4096x4096", "3072x1024", "7168x2048", "576x7168"};
  std::string device = "opencl:cpu";
  std::string json = "cpu-peers.json";
  std::string torch;  // a Python interpreter that has PyTorch
  int rounds = 5, calls = 5;
  double turn_ms = 20;
  std::uint64_t rotate = std::uint64_t{256} << 20;
  DType x = DType::f32;  ///< What the f32 peers are given; quantising is part of our time.
  DType out = DType::f32;
};

void pause_for_spinning_threads() { std::this_thread::sleep_for(std::chrono::milliseconds(60)); }

/// How long a turn is, on every side: also that of torch_peer.py, which is told.
struct Turn {
  double ns;       ///< Timed calls take this long together,
  int least;       ///< but are so many at the least (fewer where one takes long)
  int most = 500;  ///< and at the most.

  double warm_up_ns() const { return ns / 4; }
  int least_of(double one_ns) const { return one_ns > 100e6 ? 1 : one_ns > 20e6 ? std::min(least, 2) : least; }
};

/// W [n, k] and x [m, k] as f32, dequantised: what an f32 BLAS is given.
class OpenBlas {
 public:
  OpenBlas(const Problem& problem, const layer::Operands& operands, std::uint64_t rotate)
      : m_(problem.m), n_(problem.n), k_(problem.k) {
    std::vector<float> w(static_cast<std::size_t>(n_ * k_));
    std::vector<float> scales(operands.b_scale.size() / numerics::size_of(problem.b_scale.dtype));
    numerics::decode(problem.b, operands.b.data(), w);
    numerics::decode(problem.b_scale.dtype, operands.b_scale.data(), scales);
    const auto& grid = problem.b_scale.grid;
    for (std::int64_t n = 0; n < n_; ++n)
      for (std::int64_t k = 0; k < k_; ++k)
        w[static_cast<std::size_t>(n * k_ + k)] *=
            scales[static_cast<std::size_t>(grid.row_of(n) * grid.scale_cols(k_) + grid.col_of(k))];
    const std::uint64_t copies = std::clamp<std::uint64_t>(rotate / (w.size() * sizeof(float)), 1, 64);
    for (std::uint64_t i = 0; i < copies; ++i) weights_.push_back(w);
    x_.resize(static_cast<std::size_t>(m_ * k_));
    numerics::decode(problem.a_source, operands.a.data(), x_);
    y_.resize(static_cast<std::size_t>(m_ * n_));
  }

  double gemm() {
    const std::vector<float>& w = next();
    const double before = now_ns();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(m_), static_cast<int>(n_),
                static_cast<int>(k_), 1.0f, x_.data(), static_cast<int>(k_), w.data(), static_cast<int>(k_), 0.0f,
                y_.data(), static_cast<int>(n_));
    return now_ns() - before;
  }

  /// M = 1 only.
  double gemv() {
    const std::vector<float>& w = next();
    const double before = now_ns();
    cblas_sgemv(CblasRowMajor, CblasNoTrans, static_cast<int>(n_), static_cast<int>(k_), 1.0f, w.data(),
                static_cast<int>(k_), x_.data(), 1, 0.0f, y_.data(), 1);
    return now_ns() - before;
  }

 private:
  const std::vector<float>& next() { return weights_[next_++ % weights_.size()]; }

  std::int64_t m_, n_, k_;
  std::vector<std::vector<float>> weights_;
  std::vector<float> x_, y_;
  std::size_t next_ = 0;
};

/// torch_peer.py in a child process: a line of sizes in, a line of JSON out.
/// PyTorch's calls: linear in f32 and bf16, _scaled_mm on e4m3fn, _int_mm on int8.
constexpr std::array<std::string_view, 4> kTorch{"f32", "bf16", "scaled", "int"};

class Torch {
 public:
  Torch(const std::string& python, const std::string& script)
      : child_(python, script, environment(), bp::std_in<in_, bp::std_out> out_) {
    std::string line;
    if (!std::getline(out_, line)) throw std::runtime_error(python + " " + script + ": no answer; is PyTorch there?");
    version_ = boost::json::parse(line).at("torch").as_string().c_str();
  }
  Torch(const Torch&) = delete;
  Torch& operator=(const Torch&) = delete;
  ~Torch() {
    std::error_code ignored;  // It may be gone.
    in_.pipe().close();
    child_.wait(ignored);
  }
  const std::string& version() const { return version_; }

  /// What was counted in a turn of one of kTorch.
  struct Counted {
    std::vector<double> ns;  ///< Empty where this PyTorch has no such call.
    std::int64_t calls = 0;  ///< Made in this turn: none where one long call answers for all turns.
  };
  std::array<Counted, kTorch.size()> run(const Problem& problem, const Turn& turn) {
    in_ << fmt::format("{} {} {} {:.0f} {:.0f} {} {}", problem.m, problem.n, problem.k, turn.warm_up_ns(), turn.ns,
                       turn.least, turn.most)
        << std::endl;
    std::string line;
    if (!std::getline(out_, line)) throw std::runtime_error("the PyTorch process ended early");
    const boost::json::value answer = boost::json::parse(line);
    std::array<Counted, kTorch.size()> all;
    for (std::size_t i = 0; i < kTorch.size(); ++i) {
      all[i].ns = boost::json::value_to<std::vector<double>>(answer.at(std::string(kTorch[i]) + "_ns"));
      all[i].calls = answer.at(std::string(kTorch[i]) + "_calls").to_number<std::int64_t>();
    }
    return all;
  }

 private:
  /// Its threads stay where they are, as PoCL's do (`./dev bench`): else two of them, woken for a short call, were
  /// seen to share a core for two ticks of the scheduler.
  static bp::environment environment() {
    bp::environment all = boost::this_process::environment();
    if (all.count("OMP_PROC_BIND") == 0) all["OMP_PROC_BIND"] = "true";
    return all;
  }

  bp::opstream in_;
  bp::ipstream out_;
  bp::child child_;
  std::string version_;
};

Problem layer(const Arguments& arguments, std::int64_t m, std::int64_t n, std::int64_t k) {
  return report::parse_problem(fmt::format("--src={} --dt=e4m3fn:e4m3fn:{} --scale=1x128:128x128 {}x{}:{}x{}",
                                           numerics::name_of(arguments.x), numerics::name_of(arguments.out), m, k, k,
                                           n));
}

/// All that is timed of one shape. A ratio is of one round: what another tenant of the machine does for a second or
/// two hits both sides of it.
struct Times {
  std::vector<double> ironcl, sgemm, sgemv, ratio, of_copy;
  std::array<std::vector<double>, kTorch.size()> torch, ratio_torch;
  std::array<std::int64_t, kTorch.size()> torch_calls{};
};

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// Adds the times of one turn and returns their median.
template <class Call>
double take_turn(std::vector<double>& times, const Turn& turn, const Call& call) {
  pause_for_spinning_threads();
  double last = call();
  double spent = last;
  for (int i = 1; i < turn.most && spent < turn.warm_up_ns(); ++i) spent += last = call();
  const auto first = static_cast<std::ptrdiff_t>(times.size());
  spent = 0;
  for (int i = 0; i < turn.least_of(last) || (i < turn.most && spent < turn.ns); ++i) {
    times.push_back(call());
    spent += times.back();
  }
  return tuning::summarize({times.begin() + first, times.end()}).median;
}

boost::json::object measure(const Arguments& arguments, const Device& device, Torch* torch, const Problem& problem) {
  const layer::MadeOperands operands = layer::make_operands(problem, 20250601);
  layer::Execution execution(device, problem, operands, {.rotate_bytes = arguments.rotate});
  const layer::Check check = execution.check(layer::expect(problem, operands, 8));
  OpenBlas openblas(problem, operands, arguments.rotate);

  const double flop = tuning::flops_of(problem);
  const Turn turn{.ns = arguments.turn_ms * 1e6, .least = arguments.calls};
  Times times;
  for (int round = 0; round < arguments.rounds; ++round) {
    // The threads of PyTorch's OpenMP spin longest: 200 ms after a call.
    if (torch != nullptr && round != 0) std::this_thread::sleep_for(std::chrono::milliseconds(250));
    const double ours = take_turn(times.ironcl, turn, [&] { return execution.run().host_ns; });
    // One row reads its weights from memory and does little else.
    if (const double copied = problem.m == 1 ? tuning::copy_rate_now(device) : 0; copied > 0)
      times.of_copy.push_back(tuning::least_bytes_of(problem) / ours * 1e9 / copied);
    double theirs = take_turn(times.sgemm, turn, [&] { return openblas.gemm(); });
    if (problem.m == 1) theirs = std::min(theirs, take_turn(times.sgemv, turn, [&] { return openblas.gemv(); }));
    times.ratio.push_back(theirs / ours);
    if (torch != nullptr) {
      pause_for_spinning_threads();
      const auto theirs_now = torch->run(problem, turn);
      for (std::size_t i = 0; i < kTorch.size(); ++i) {
        const auto& [ns, calls] = theirs_now[i];
        append(times.torch[i], ns);
        times.torch_calls[i] += calls;
        if (!ns.empty()) times.ratio_torch[i].push_back(tuning::summarize(ns).median / ours);
      }
    }
  }

  const Summary ours = tuning::summarize(times.ironcl);
  const Summary sgemm = tuning::summarize(times.sgemm), sgemv = tuning::summarize(times.sgemv);
  const double openblas_ns = sgemv.count != 0 ? std::min(sgemm.median, sgemv.median) : sgemm.median;
  const ironcl_op_info info = execution.plan().info();
  boost::json::object row{{"m", problem.m},
                          {"n", problem.n},
                          {"k", problem.k},
                          {"problem", report::to_line(problem)},
                          {"variant", info.variant},
                          {"config", info.tuning},
                          {"verdict", check.pass ? "pass" : "fail"},
                          {"max_error_over_bound", report::number(check.comparison.max_error_over_bound)},
                          {"rows_checked", check.rows_checked},
                          {"ironcl_ns", ours.median},
                          {"ironcl_spread", ours.spread()},
                          {"ironcl_calls", ours.count},
                          {"openblas_ns", openblas_ns},
                          {"openblas_spread", sgemm.spread()},
                          {"sgemm_ns", sgemm.median},
                          {"sgemm_calls", sgemm.count},
                          {"ratio", tuning::summarize(times.ratio).median},
                          {"gflops", flop / ours.median},
                          {"openblas_gflops", flop / openblas_ns},
                          {"prepare_ns", execution.prepare_ns()},
                          {"plan_ns", execution.plan_ns()},
                          {"weights_bytes", execution.weights_bytes()},
                          {"openblas_weights_bytes", problem.n * problem.k * 4}};
  if (sgemv.count != 0) {
    row["sgemv_ns"] = sgemv.median;
    row["sgemv_calls"] = sgemv.count;
  }
  if (!times.of_copy.empty()) row["of_copy_rate"] = tuning::summarize(times.of_copy).median;
  for (std::size_t i = 0; i < kTorch.size(); ++i) {
    if (times.torch[i].empty()) continue;
    const std::string name = "torch_" + std::string(kTorch[i]);
    row[name + "_ns"] = tuning::summarize(times.torch[i]).median;
    row[name + "_calls"] = times.torch_calls[i];
    row["ratio_" + name] = tuning::summarize(times.ratio_torch[i]).median;
  }
  if (!check.pass) row["why"] = check.why;
  return row;
}

void print(const boost::json::object& row) {
  const auto number = [&](const char* key) { return row.contains(key) ? row.at(key).to_number<double>() : 0.0; };
  const auto optional = [&](const char* key) {
    return row.contains(key) ? fmt::format("{:>8.2f}", number(key)) : fmt::format("{:>8}", "-");
  };
  fmt::print("{:>5} {:>6} {:>6}  {:<18} {:<5} {:>10.3f} {:>8.1f} {:>10.3f} {:>8.1f} {:>8.2f} {} {} {} {} {}\n",
             number("m"), number("n"), number("k"), row.at("variant").as_string().c_str(),
             row.at("verdict").as_string().c_str(), number("ironcl_ns") / 1e6, number("gflops"),
             number("openblas_ns") / 1e6, number("openblas_gflops"), number("ratio"), optional("ratio_torch_f32"),
             optional("ratio_torch_bf16"), optional("ratio_torch_scaled"), optional("ratio_torch_int"),
             optional("of_copy_rate"));
  std::fflush(stdout);
}

int run(const Arguments& arguments, const std::string& torch_script) {
  const Registry registry = Registry::discover();
  const Device device = registry.device(arguments.device);
  std::optional<Torch> torch;
  if (!arguments.torch.empty()) torch.emplace(arguments.torch, torch_script);

  fmt::print("{} against OpenBLAS ({}, {} threads){}\n", device.name(), openblas_get_corename(),
             openblas_get_num_threads(), torch ? " and PyTorch " + torch->version() : std::string());
  fmt::print("{:>5} {:>6} {:>6}  {:<18} {:<5} {:>10} {:>8} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "M",
             "N", "K", "variant", "check", "ironcl ms", "GFLOP/s", "OpenBLAS", "GFLOP/s", "ratio", "torch32",
             "torch16", "scaled8", "int8", "of copy");
  boost::json::array rows;
  bool pass = true;
  for (const std::string& shape : arguments.shapes) {
    std::int64_t n = 0, k = 0;
    char x = 0;
    std::istringstream text(shape);
    if (!(text >> n >> x >> k) || x != 'x' || n < 1 || k < 1)
      throw std::invalid_argument("--shapes: '" + shape + "' is not NxK, such as 4096x4096");
    for (const std::int64_t m : arguments.m) {
      boost::json::object row = measure(arguments, device, torch ? &*torch : nullptr, layer(arguments, m, n, k));
      pass = pass && row.at("verdict") == "pass";
      print(row);
      rows.push_back(std::move(row));
    }
  }
  boost::json::object all{{"device", device.name()},
                          {"driver", device.props().driver},
                          {"build", IRONCL_BUILD_ID},
                          {"openblas_core", openblas_get_corename()},
                          {"openblas_threads", openblas_get_num_threads()},
                          {"torch", torch ? boost::json::value(torch->version()) : boost::json::value(nullptr)},
                          {"rounds", arguments.rounds},
                          {"turn_ms", arguments.turn_ms},
                          {"rotate_bytes", arguments.rotate},
                          {"rows", std::move(rows)}};
  report::write_file(arguments.json, report::to_text(all));
  fmt::print(
      "ratio: how many times faster than the peer (host time, enqueue to finish; the median of the rounds' ratios); "
      "of copy: of the bytes that a copy reads and writes, measured after each of our turns. "
      "Rows in {}\n",
      arguments.json);
  return pass ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  std::string torch_script = "bench/torch_peer.py";
  CLI::App app("Block-scaled fp8 on a CPU beside OpenBLAS and PyTorch, in one run");
  app.add_option("--m", arguments.m, "Batch sizes")->delimiter(',')->capture_default_str();
  app.add_option("--shapes", arguments.shapes, "Weights as NxK")->delimiter(',')->capture_default_str();
  app.add_option("--device", arguments.device, "Device URI")->capture_default_str();
  app.add_option("--json", arguments.json, "Where the rows go")->capture_default_str();
  app.add_option("--torch", arguments.torch, "A Python interpreter that has PyTorch");
  std::string x = "f32", out = "f32";
  app.add_option("--x-dtype", x, "What the activations come in, f32 or bf16; quantised in the plan")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  app.add_option("--out-dtype", out, "Type of the result")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  app.add_option("--torch-script", torch_script, "torch_peer.py")->capture_default_str();
  app.add_option("--rounds", arguments.rounds, "Turns of each side")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option(
         "--turn-ms", arguments.turn_ms,
         "Timed calls of a turn take so long together (at most 500), after a quarter as long that is not counted")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--calls", arguments.calls, "Timed calls a turn at the least, but two above 20 ms, one above 100 ms")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  arguments.x = *numerics::parse_dtype(x);
  arguments.out = *numerics::parse_dtype(out);
  try {
    return run(arguments, torch_script);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cpu_peers: {}\n", error.what());
    return 2;
  }
}
