// SPDX-License-Identifier: Apache-2.0
// ironcl bench: how fast each device is at each shape, every row with its check's verdict.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "host/cli/bench_chain.h"
#include "host/cli/bench_experts.h"
#include "host/cli/command.h"
#include "host/cli/complaints.h"
#include "host/cli/device_list.h"
#include "host/cli/parse_option.h"
#include "host/cli/progress_line.h"
#include "host/cli/shape_options.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/layer/execution.h"
#include "host/layer/synthetic.h"
#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/print.h"
#include "host/report/render.h"
#include "host/report/table.h"
#include "host/tuning/ceilings.h"
#include "host/tuning/expert_models.h"
#include "host/tuning/statistics.h"

namespace ironcl::cli {
namespace {

namespace json = boost::json;
using report::Kind;

constexpr const char* kExamples =
    R"(  ironcl bench --shape 4096x4096,7168x2048                    four batch sizes on every device that is there
  ironcl bench --model deepseek-v3 --tp-size 8 --m 1:4096:*4  a model's layers as one of eight devices holds them
  ironcl bench --shape 4096x4096 --m 1024 --device opencl:0 --opt variant=gemm_tiled --opt tile_m=128
  ironcl bench --model qwen3-30b-a3b --tokens 1,8,64,512      whole layers of experts, beside a loop over the experts
  ironcl bench --problem '--src=bf16 --dt=e4m3fn:e4m3fn:bf16 --scale=1x128:128x128 16x1024:1024x3072'
)";
constexpr const char* kExitStatus =
    R"(  0  every row's check passed
  1  a check failed; its row says where
  2  usage
  3  bad input, or an output that cannot be written
  4  no device
)";

/// A problem and whose it is.
using Row = MeasuredLayer;

report::Table empty_table() {
  return report::Table({{"device", "device", Kind::text},
                        {"layer", "layer", Kind::text},
                        {"problem", "problem", Kind::text},
                        {"m", "M", Kind::integer},
                        {"n", "N", Kind::integer},
                        {"k", "K", Kind::integer},
                        {"variant", "variant", Kind::text},
                        {"accuracy_class", "class", Kind::text},
                        {"config", "config", Kind::text},
                        {"verdict", "verdict", Kind::text},
                        {"time_ns", "time", Kind::time},
                        {"spread", "spread", Kind::number},
                        {"time_kind", "kind", Kind::text},
                        {"host_ns", "host", Kind::time},
                        {"gflops", "GFLOP/s", Kind::number},
                        {"gbytes_per_s", "GB/s", Kind::number},
                        {"of_fma_ceiling", "of FMA", Kind::number},
                        {"of_copy_ceiling", "of copy", Kind::number},
                        {"max_error_over_bound", "err/bound", Kind::number},
                        {"rows_checked", "rows", Kind::integer},
                        {"plan_ns", "plan", Kind::time},
                        {"prepare_ns", "prepare", Kind::time},
                        {"weights_bytes", "weights", Kind::bytes},
                        {"runs", "runs", Kind::integer},
                        {"why", "why", Kind::text}});
}

class BenchCommand final : public Command {
 public:
  std::string name() const override { return "bench"; }
  std::string summary() const override { return "Measure shapes on devices; every row is checked first"; }

  void declare(CLI::App& app) override {
    app_ = &app;
    shapes_.declare(app);
    app.add_option("--problem", problems_, "a problem line, as other commands print it; may be repeated")
        ->option_text("LINE");
    app.add_option("--tokens", tokens_,
                   "whole layers of experts of --model with so many tokens, in place of single\n"
                   "products: a list, or a range as of --m. Models: " +
                       fmt::format("{}", fmt::join(tuning::models_of_experts(), ", ")))
        ->option_text("LIST");
    app.add_option("--experts", experts_, "with --tokens: so many experts (default: as many as the model has)")
        ->check(CLI::Range(1, 65536));
    app.add_option("--skew", skew_, "with --tokens: the load of the experts follows Zipf's law of this exponent")
        ->check(CLI::Range(0.0, 8.0))
        ->capture_default_str();
    app.add_flag("--no-loop", no_loop_,
                 "with --tokens: without the loop of single plans over the experts that are hit");
    app.add_option("--chain", chain_,
                   "the products named, one after another in so many layers, each with weights of its own: what a\n"
                   "decode step waits for. One wait at the end; the time is the host's, per layer")
        ->check(CLI::Range(1, 4096))
        ->option_text("LAYERS");
    app.add_option("--device", uris_, "device URI; may be repeated (default: every device that is no model)")
        ->option_text("URI");
    add_backend_options(app, options_, "a backend's own option; may be repeated");
    app.add_option("--accuracy", accuracy_,
                   "weakest accuracy class that a device may use (default: f32); tensor14 also\n"
                   "allows hardware that accumulates in about 14 bits; both: one beside the other")
        ->option_text("f32|tensor14|both")
        ->envname("IRONCL_ACCURACY");
    app.add_option("--runs", measure_.runs, "timed calls at the least")->check(above_zero())->capture_default_str();
    app.add_option("--min-ms", measure_.min_ms, "and timed calls until that much time is spent")
        ->check(not_negative())
        ->capture_default_str();
    app.add_option("--warm-up-ms", measure_.warm_up_ms, "calls that are not counted, until clocks are up")
        ->check(not_negative())
        ->capture_default_str();
    app.add_option("--rotate-mib", rotate_mib_,
                   "weights rotate through that much memory, so that no cache holds them (0: one copy)")
        ->check(CLI::Range(0, 1 << 30))
        ->capture_default_str();
    app.add_option("--check-rows", check_rows_, "rows of D that are checked against the oracle")
        ->check(above_zero())
        ->capture_default_str();
    app.add_option("--seed", seed_, "seed of the operands")->capture_default_str();
    app.add_option("--csv", csv_, "write the rows as CSV; - is the standard output, without the running rows")
        ->option_text("FILE");
    app.add_option("--json", json_, "write the rows as JSON; - as for --csv")->option_text("FILE");
    app.add_option("--markdown", markdown_, "write the rows as Markdown; - as for --csv")->option_text("FILE");
    app.footer(footer(kExamples, kExitStatus));
  }

  ExitStatus run() override {
    report::check_outputs({csv_, json_, markdown_}, shapes_.files());
    if (!tokens_.empty()) return run_experts(app_->count("--rotate-mib") != 0);
    if (experts_ != 0 || skew_ != 0 || no_loop_)
      throw CommandError(ExitStatus::usage,
                         "--experts, --skew and --no-loop are about layers of experts: give --tokens");
    if (chain_ != 0) return run_chain();
    const std::vector<Row> rows = all_rows();
    report::check_outputs({csv_, json_, markdown_}, inputs_);
    const ironcl::Registry registry = ironcl::Registry::discover();
    report::Table table = empty_table();
    bool pass = true;
    for (const ironcl::Device& device : devices(registry)) {
      const tuning::Ceilings ceilings = tuning::ceilings_of(device);
      say("{}: {}{}\n", device.uri(), device.name(),
          ceilings.flops > 0
              ? fmt::format(", measured ceilings {:.4g} GFLOP/s of f32 multiply-adds, {:.4g} GB/s of copying",
                            ceilings.flops / 1e9, ceilings.bytes_per_second / 1e9)
              : std::string());
      print_heading();
      std::string named;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (const std::string& name = rows[i].name; name != named && !name.empty()) say("{}\n", named = name);
        line_.show(
            static_cast<double>(i) / static_cast<double>(rows.size()),
            fmt::format("{}/{} {} on {}, M = {}", i + 1, rows.size(), rows[i].name, device.uri(), rows[i].problem.m));
        pass = measure(device, ceilings, rows[i], table) && pass;
      }
    }
    if (share_over_one_) {
      say("a share over 1: of FMA, the clocks were higher in the row's calls than between them; of copy, data came "
          "from a "
          "cache (a larger --rotate-mib) or was read only, while a copy writes too\n");
    }
    if (!left_out_.empty())
      say("left out: {} layers that cannot be used\n{}", left_out_.size(), layer::to_text(layer::fold(left_out_)));
    write(table);
    return pass ? ExitStatus::ok : ExitStatus::out_of_bounds;
  }

 private:
  ExitStatus run_chain() {
    if (!problems_.empty() || app_->count("--rotate-mib") != 0)
      throw CommandError(ExitStatus::usage, "--chain takes neither --problem nor --rotate-mib");
    Measured measured = shapes_.layers();
    left_out_ = std::move(measured.left_out);
    const KeyValues options = parse_key_values("--opt", options_);
    for (Row& row : measured.layers) {
      row.problem.options.insert(row.problem.options.end(), options.begin(), options.end());
      if (!accuracy_.empty()) row.problem.weakest_accuracy = parse_accuracies_option(accuracy_).front();
    }
    ChainBench settings{.layers = chain_,
                        .rows = shapes_.rows(),
                        .runs = measure_.runs,
                        .min_ms = measure_.min_ms,
                        .warm_up_ms = measure_.warm_up_ms,
                        .check_rows = check_rows_,
                        .seed = seed_};
    const ironcl::Registry registry = ironcl::Registry::discover();
    report::Table table = chain_table();
    bool pass = true;
    for (const ironcl::Device& device : devices(registry)) {
      settings.copy_bytes_per_second = tuning::ceilings_of(device).bytes_per_second;
      say("{}: {}, copies {:.4g} GB/s\n", device.uri(), device.name(), settings.copy_bytes_per_second / 1e9);
      pass = bench_chain(device, measured.layers, settings, table,
                         [this](const std::string& line) { say("{}", line); }) &&
             pass;
    }
    write(table);
    return pass ? ExitStatus::ok : ExitStatus::out_of_bounds;
  }

  ExitStatus run_experts(bool rotates) {
    if (!problems_.empty()) throw CommandError(ExitStatus::usage, "--tokens and --problem do not go together");
    if (rotates)
      throw CommandError(ExitStatus::usage,
                         "--tokens measures one copy of a layer's experts; leave --rotate-mib out");
    shapes_.check_only_model();
    ExpertsBench settings;
    for (const std::string& text : tokens_)
      for (const std::int64_t tokens : parse_sizes("--tokens", text)) settings.tokens.push_back(tokens);
    layer::ExpertsForm form;
    try {
      form = tuning::experts_of(shapes_.model(), shapes_.tp_size(), experts_);
    } catch (const std::invalid_argument& error) {
      throw CommandError(ExitStatus::usage, fmt::format("--model: {}", error.what()));
    }
    settings.skew = skew_;
    settings.loop = !no_loop_;
    settings.measure = measure_;
    settings.check_tokens = check_rows_;
    settings.seed = seed_;
    std::vector<numerics::AccuracyClass> classes = {settings.weakest_accuracy};
    if (!accuracy_.empty()) classes = parse_accuracies_option(accuracy_);
    settings.options = parse_key_values("--opt", options_);
    const ironcl::Registry registry = ironcl::Registry::discover();
    report::Table table = experts_table();
    bool pass = true;
    for (const ironcl::Device& device : devices(registry)) {
      settings.copy_bytes_per_second = tuning::ceilings_of(device).bytes_per_second;
      say("{}: {}, copies {:.4g} GB/s\n", device.uri(), device.name(), settings.copy_bytes_per_second / 1e9);
      for (const numerics::AccuracyClass weakest : classes) {
        settings.weakest_accuracy = weakest;
        pass = bench_experts(device, form, settings, table, [this](const std::string& line) { say("{}", line); }) &&
               pass;
      }
    }
    write(table);
    return pass ? ExitStatus::ok : ExitStatus::out_of_bounds;
  }

  void write(const report::Table& table) const {
    if (!csv_.empty()) report::write_file(csv_, report::to_csv(table));
    if (!json_.empty())
      report::write_file(json_, report::to_text(json::object{{"rows", report::to_json(table)},
                                                             {"left_out", to_json(layer::fold(left_out_))}}));
    if (!markdown_.empty()) report::write_file(markdown_, report::to_markdown(table));
  }

  std::vector<Row> all_rows() {
    std::vector<Row> all;
    for (const std::string& line : problems_) {
      try {
        all.push_back({{}, report::parse_problem(line)});
        if (all.back().problem.grouping == Grouping::masked)
          throw report::ProblemError(
              "how many rows each matrix of a masked problem has is not said; write contiguous");
      } catch (const report::ProblemError& error) {
        throw CommandError(ExitStatus::usage, fmt::format("--problem: {}", error.what()));
      }
    }
    if (!problems_.empty() && !shapes_.given()) shapes_.check_unused("--problem says everything of itself");
    if (problems_.empty() || shapes_.given()) {
      const std::vector<std::int64_t> batches = shapes_.rows();
      Measured measured = shapes_.layers();
      left_out_ = std::move(measured.left_out);
      inputs_ = std::move(measured.inputs);
      for (const MeasuredLayer& layer : measured.layers) {
        for (const std::int64_t m : batches) all.push_back(layer), all.back().problem.m = m;
      }
    }
    const KeyValues options = parse_key_values("--opt", options_);
    if (!accuracy_.empty()) all = of_each_class(all, parse_accuracies_option(accuracy_));
    for (Row& row : all) row.problem.options.insert(row.problem.options.end(), options.begin(), options.end());
    return all;
  }

  /// Each row once for every class, one beside the other.
  static std::vector<Row> of_each_class(const std::vector<Row>& rows,
                                        const std::vector<numerics::AccuracyClass>& classes) {
    std::vector<Row> all;
    for (const Row& row : rows)
      for (const numerics::AccuracyClass weakest : classes)
        all.push_back(row), all.back().problem.weakest_accuracy = weakest;
    return all;
  }

  std::vector<ironcl::Device> devices(const ironcl::Registry& registry) const {
    std::vector<ironcl::Device> all = find_devices(registry, uris_);
    if (uris_.empty())
      std::erase_if(all, [](const auto& device) { return device.props().type == IRONCL_DEVICE_MODEL; });
    if (all.empty()) throw CommandError(ExitStatus::no_device, why_no_devices(registry));
    return all;
  }

  /// The running rows: not among what goes to the standard output by '-'.
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    line_.clear();
    const std::string line = fmt::format(text, std::forward<Args>(args)...);
    if (csv_ == "-" || json_ == "-" || markdown_ == "-") return report::print_error_text(line);
    report::print_text(line);
    report::flush_output();
  }

  void print_heading() {
    say("{:>6} {:>6} {:>6}  {:<18} {:<8} {:<12} {:>11} {:>7} {:>9} {:>8} {:>7} {:>7} {:>9}\n", "M", "N", "K",
        "variant", "class", "verdict", "time", "spread", "GFLOP/s", "GB/s", "of FMA", "of copy", "err/bound");
  }

  /// Checks and times one problem; false where its check failed. A device that refuses it makes a row, not a failure.
  bool measure(const ironcl::Device& device, const tuning::Ceilings& ceilings, const Row& of, report::Table& table) {
    const report::Problem& problem = of.problem;
    const auto refuse = [&](const std::string& verdict, const std::string& why) {
      std::vector<report::Cell> row(table.columns().size());
      row[0] = device.uri();
      row[1] = of.name;
      row[2] = report::to_line(problem);
      row[3] = problem.m;
      row[4] = problem.n;
      row[5] = problem.k;
      row[9] = verdict;
      row.back() = why;
      table.add(std::move(row));
      say("{:>6} {:>6} {:>6}  {:<18} {:<8} {:<12} {}\n", problem.m, problem.n, problem.k, "-", "-", verdict, why);
    };
    try {
      const layer::MadeOperands operands = layer::make_operands(problem, seed_);
      layer::Execution execution(device, problem, operands, {.rotate_bytes = rotate_mib_ << 20});
      const ironcl_op_info info = execution.plan().info();
      report::Problem in_f32 = problem;
      in_f32.weakest_accuracy = numerics::AccuracyClass::f32;
      const std::string plan = fmt::format("{} {} {} {} {}", device.uri(), report::to_line(in_f32),
                                           info.accuracy_class, info.variant, info.tuning);
      if (plan == last_plan_) {
        say("{:>6} {:>6} {:>6}  {:<18} in both classes\n", problem.m, problem.n, problem.k, info.variant);
        return true;
      }
      last_plan_ = plan;
      const layer::Check check = execution.check(layer::expect(problem, operands, check_rows_));
      // Calls in slices with the device's multiply-adds measured between them: both sides of the share have the same
      // clocks and the same neighbours.
      std::vector<double> fma_shares;
      double ceiling = 0;
      const Timed timed =
          cli::measure(execution, measure_, [&](const std::vector<double>& slice, std::uint32_t kind) {
            if (slice.empty()) {
              ceiling = is_measured(kind) ? tuning::fma_flops_now(device) : 0;
              return;
            }
            if (const double next = ceiling > 0 ? tuning::fma_flops_now(device) : 0; next > 0) {
              fma_shares.push_back(tuning::flops_of(problem) / tuning::summarize(slice).median * 1e9 /
                                   ((ceiling + next) / 2));
              ceiling = next;
            }
          });
      add_row(device, ceilings, of, execution, check, timed, fma_shares, table);
      return check.pass;
    } catch (const ironcl::Error& error) {
      if (error.status() == IRONCL_INVALID_ARGUMENT && !problem.options.empty())
        throw CommandError(ExitStatus::usage, fmt::format("--opt: {}: {}", device.uri(), error.what()));
      const bool unsupported = error.status() == IRONCL_UNSUPPORTED;
      refuse(unsupported ? "unsupported" : "error", error.what());
      return unsupported;
    }
  }

  void add_row(const ironcl::Device& device, const tuning::Ceilings& ceilings, const Row& of,
               const layer::Execution& execution, const layer::Check& check, const Timed& timed,
               const std::vector<double>& fma_shares, report::Table& table) {
    const report::Problem& problem = of.problem;
    const tuning::Summary& time = timed.device;
    const double gflops = tuning::flops_of(problem) / time.median;
    const double rate = tuning::least_bytes_of(problem) / time.median * 1e9;
    report::Cell of_flops, of_copy;
    if (!fma_shares.empty()) of_flops = tuning::summarize(fma_shares).median;
    if (is_measured(timed.kind) && ceilings.bytes_per_second > 0) of_copy = rate / ceilings.bytes_per_second;
    for (const report::Cell& share : {of_flops, of_copy})
      if (const auto* value = std::get_if<double>(&share); value != nullptr && *value > 1) share_over_one_ = true;
    const ironcl_op_info info = execution.plan().info();
    const std::string verdict = check.pass ? "pass" : "fail";
    const std::string accuracy(numerics::name_of(static_cast<numerics::AccuracyClass>(info.accuracy_class)));
    table.add({device.uri(),
               of.name,
               report::to_line(problem),
               problem.m,
               problem.n,
               problem.k,
               std::string(info.variant),
               accuracy,
               std::string(info.tuning),
               verdict,
               time.median,
               time.spread(),
               layer::call_kind_name(timed.kind),
               timed.host.median,
               gflops,
               rate / 1e9,
               of_flops,
               of_copy,
               check.comparison.max_error_over_bound,
               check.rows_checked,
               execution.plan_ns(),
               execution.prepare_ns(),
               static_cast<double>(execution.weights_bytes()),
               static_cast<std::int64_t>(time.count),
               check.why});
    say("{:>6} {:>6} {:>6}  {:<18} {:<8} {:<12} {:>11} {:>6.1f}% {:>9.4g} {:>8.4g} {:>7} {:>7} {:>9} {}\n", problem.m,
        problem.n, problem.k, info.variant, accuracy, verdict, report::human_text(time.median, Kind::time),
        time.spread() * 100, gflops, rate / 1e9, report::human_text(of_flops, Kind::number),
        report::human_text(of_copy, Kind::number),
        report::human_text(check.comparison.max_error_over_bound, Kind::number), check.why);
  }

  const CLI::App* app_ = nullptr;
  ShapeOptions shapes_;
  std::vector<std::filesystem::path> inputs_;  ///< Files of a checkpoint.
  std::vector<layer::LeftOut> left_out_;       ///< Layers of a checkpoint.
  std::vector<std::string> problems_, uris_, options_, tokens_;
  std::int64_t experts_ = 0;  ///< 0: as many as the model has.
  double skew_ = 0;
  std::size_t chain_ = 0;  ///< Layers; 0: each product by itself.
  bool no_loop_ = false;
  std::string accuracy_;  ///< Empty: as the problems say.
  MeasureSettings measure_;
  std::uint64_t rotate_mib_ = 256;
  std::int64_t check_rows_ = 8;
  std::uint64_t seed_ = 1;
  std::string csv_, json_, markdown_;
  std::string last_plan_;  ///< Of the row before, in class f32: one that serves both classes is measured once.
  ProgressLine line_;
  bool share_over_one_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace ironcl::cli
