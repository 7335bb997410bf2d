// SPDX-License-Identifier: Apache-2.0
// ironcl bench: how fast each device is at each shape, every row with its check's verdict.
#include "host/cli/bench.h"
#include "host/cli/command.h"
#include "host/cli/device_list.h"
#include "host/cli/parse_option.h"
#include "host/cli/ranks_options.h"
#include "host/layer/synthetic.h"
#include "host/report/file.h"
#include "host/report/json.h"

namespace ironcl::cli {
namespace {

class BenchCommand final : public Command {
 public:
  BenchCommand()
      : Command(
            "bench", "Measure shapes on devices; every row is checked first",
            R"(  ironcl bench --shape 4096x4096,7168x2048                    four batch sizes on every device that is there
  ironcl bench --model deepseek-v3 --tp-size 8 --m 1:4096:*4  a model's layers as one of eight devices holds them
  ironcl bench --shape 4096x4096 --m 1024 --device opencl:0 --opt variant=gemm_tiled --opt tile_m=128
  ironcl bench --model qwen3-30b-a3b --tokens 1,8,64,512      whole layers of experts
  ironcl bench --shape 7168x16384 --m 4096 --ranks --device opencl:0,opencl:1 --split row --chunks 1,2,4
  ironcl bench --problem '--src=bf16 --dt=e4m3fn:e4m3fn:bf16 --scale=1x128:128x128 16x1024:1024x3072'
)") {
    add_value(*this, "--problem LINE", problems_, "a problem line, as other commands print it; may be repeated");
    add_number(*this, "--skew", settings_.skew, CLI::Range(0.0, 8.0),
               "with --tokens: exponent of Zipf's law by which tokens choose experts");
    add_flag("--router", settings_.router,
             "with --tokens: the layer's router chooses experts, which is timed too; else ids are given");
    add_value(*this, "--chain LAYERS", chain_,
              "submit the named products of this many layers, each with its own weights, by one call, and\n"
              "wait once, as a decode step does; prints host time per layer")
        ->check(CLI::Range(1, 4096));
    add_flag("--mlp", mlp_,
             "with --chain: gate_up_proj and down_proj of --model (or the two of --shape) as a gated MLP: two\n"
             "products, the activation in the first");
    add_value(*this, "--device URI", uris_, "device URI; may be repeated (default: all devices but models)");
    ranks_.declare(*this);
    add_value(*this, "--chunks LIST", chunks_,
              "with --ranks: cut rows into this many parts, one travels while the next is computed; a list")
        ->delimiter(',')
        ->check(CLI::Range(1, 1 << 20));
    add_key_values(*this, "--opt", backend_options_, "a backend's own option; may be repeated");
    add_accuracy(*this, classes_, true);
    add_number(*this, "--runs", settings_.runs, above_zero(), "minimum number of timed calls");
    add_number(*this, "--min-ms", settings_.min_ms, not_negative(),
               "minimum time of the timed calls, in milliseconds");
    add_number(*this, "--warm-up-ms", settings_.warm_up_ms, not_negative(),
               "milliseconds of untimed calls beforehand");
    add_number(*this, "--rotate-mib", settings_.rotate_mib, CLI::Range(0, 1 << 30),
               "memory through which weights rotate, so that no cache holds them (0: one copy)");
    add_number(*this, "--check-rows", settings_.check_rows, above_zero(), "rows of D to check against the oracle");
    add_option("--seed", settings_.seed, "seed of the operands")->capture_default_str();
    add_value(*this, "--csv FILE", csv_,
              "write the rows as CSV; - is standard output, where no other rows are then printed");
    add_value(*this, "--json FILE", json_, "write the rows as JSON; - as for --csv");
    add_value(*this, "--markdown FILE", markdown_, "write the rows as Markdown; - as for --csv");
  }

  ExitStatus run() override {
    report::check_outputs({csv_, json_, markdown_});
    line_.leave_output(csv_ == "-" || json_ == "-" || markdown_ == "-");
    ranks_.start();
    if (!ranks_.on()) refuse_options(*this, "{} is about ranks; give --ranks too", {"--chunks"});
    if (ranks_.on())
      refuse_options(*this, "ranks take one copy of the weights, given ids and no chain; leave {} out",
                     {"--chain", "--rotate-mib", "--router"});
    if (settings_.router) refuse_options(*this, "a router chooses experts; leave {} out", {"--skew"});
    if (const auto tokens = shapes_.tokens(); !tokens.empty()) return run_experts(tokens);
    refuse_options(*this, "{} is about layers of experts: give --tokens", {"--skew", "--router"});
    if (mlp_ && chain_ == 0) chain_ = 1;
    return chain_ != 0 ? run_chain() : run_products();
  }

 private:
  ExitStatus run_products() {
    const std::vector<MeasuredLayer> rows = all_rows();
    if (ranks_.on())
      return over_ranks(kRanksColumns, [&](const ironcl::Device& device, BenchTable& over) {
        for (const MeasuredLayer& one : rows)
          bench_ranks(ranks_.launch(), device, one, chunks_, ranks_.settings(), settings_, over);
      });
    constexpr BenchColumns kColumns = {
        "device layer problem m n k variant accuracy_class config launches verdict time_ns spread time_kind host_ns "
        "gflops gbytes_per_s of_fma_ceiling of_copy_ceiling max_error_over_bound rows_checked plan_ns prepare_ns "
        "weights_bytes runs why",
        "m n k variant accuracy_class verdict time_ns spread gflops gbytes_per_s of_fma_ceiling of_copy_ceiling "
        "max_error_over_bound"};
    const ExitStatus status = on_devices(kColumns, [&](const ironcl::Device& device, BenchTable& table) {
      table.heading();
      std::string named;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (const std::string& name = rows[i].name; name != named && !name.empty()) line_.say("{}\n", named = name);
        line_.show(
            static_cast<double>(i) / static_cast<double>(rows.size()),
            fmt::format("{}/{} {} on {}, M = {}", i + 1, rows.size(), rows[i].name, device.uri(), rows[i].problem.m));
        measure(device, rows[i], table);
      }
    });
    if (share_over_one_)
      line_.say(
          "shares above 1: of FMA, clocks were higher during the calls than between them; of copy, data came from a "
          "cache (raise --rotate-mib), or was only read, while a copy also writes\n");
    return status;
  }

  ExitStatus run_chain() {
    if (!problems_.empty() || count("--rotate-mib") != 0) usage("--chain takes neither --problem nor --rotate-mib");
    read_shapes();
    for (MeasuredLayer& row : measured_.layers) {
      add_options(row.problem);
      if (!classes_.empty()) row.problem.weakest_accuracy = classes_.front();
    }
    const auto named = [&](const std::string& name, std::size_t place) -> const MeasuredLayer& {
      const auto found = std::ranges::find(measured_.layers, name, &MeasuredLayer::name);
      return found != measured_.layers.end() ? *found : measured_.layers[place];
    };
    if (mlp_ &&
        (measured_.layers.size() < 2 || named("gate_up_proj", 0).problem.n != 2 * named("down_proj", 1).problem.k))
      usage(
          "--mlp takes gate_up_proj [2 I, H] and down_proj [H, I]; give a --model that has them, or --shape "
          "2IxH,HxI");
    return on_devices(kChainColumns, [&](const ironcl::Device& device, BenchTable& table) {
      table.heading();
      for (const std::int64_t rows : shapes_.rows()) {
        if (mlp_)
          bench_mlp(device, named("gate_up_proj", 0), named("down_proj", 1), rows, chain_, settings_, table);
        else
          bench_chain(device, measured_.layers, rows, chain_, settings_, table);
      }
    });
  }

  ExitStatus run_experts(const std::vector<std::int64_t>& all_tokens) {
    if (!problems_.empty()) usage("--tokens and --problem do not go together");
    if (count("--rotate-mib") != 0) usage("--tokens measures one copy of a layer's experts; leave --rotate-mib out");
    const layer::ExpertsForm form = shapes_.experts();
    if (classes_.empty()) classes_ = {numerics::AccuracyClass::f32};
    layer::ExpertsChoices choices{.options = backend_options_};
    const auto source = layer::make_experts(form, settings_.seed);
    if (ranks_.on()) {
      refuse_options(*this, "experts are not cut into chunks; leave {} out", {"--chunks"});
      choices.weakest_accuracy = classes_.front();
      return over_ranks(kRanksExpertsColumns, [&](const ironcl::Device& device, BenchTable& over) {
        for (const std::int64_t tokens : all_tokens) {
          choices.tokens = tokens;
          bench_ranks(ranks_.launch(), device, *source, choices, ranks_.settings(), settings_, over);
        }
      });
    }
    return on_devices(kExpertsColumns, [&](const ironcl::Device& device, BenchTable& table) {
      for (const numerics::AccuracyClass weakest : classes_) {
        line_.say("{}: {} experts of [{}, {}], {} a token{}\n", form.name, form.routing.experts, form.experts.width,
                  form.hidden, form.routing.top_k, form.shared ? ", a shared one" : "");
        table.heading();
        choices.weakest_accuracy = weakest;
        for (const std::int64_t tokens : all_tokens) {
          choices.tokens = tokens;
          bench_experts(device, *source, choices, settings_, table);
        }
      }
    });
  }

  using MeasureAll = std::function<void(const ironcl::Device&, BenchTable&)>;

  /// Measures on each requested device, and says its ceilings.
  ExitStatus on_devices(const BenchColumns& columns, const MeasureAll& measure_all) {
    const ironcl::Registry registry = ironcl::Registry::discover();
    BenchTable table(columns, line_);
    for (const ironcl::Device& device : real_devices(registry, uris_)) {
      const tuning::Ceilings ceilings = tuning::ceilings_of(device);
      line_.say("{}: {}{}\n", device.uri(), device.name(),
                ceilings.flops > 0
                    ? fmt::format(", measured ceilings {:.4g} GFLOP/s of f32 multiply-adds, {:.4g} GB/s of copying",
                                  ceilings.flops / 1e9, ceilings.bytes_per_second / 1e9)
                    : std::string());
      settings_.copy_bytes_per_second = ceilings.bytes_per_second;
      measure_all(device, table);
    }
    return written(table);
  }

  /// Measures over ranks, and on rank 0's device alone.
  ExitStatus over_ranks(const BenchColumns& columns, const MeasureAll& measure_all) {
    const ironcl::Registry registry = ironcl::Registry::discover();
    const ironcl::Device device = ranks_.devices(registry, uris_).front();
    line_.say("{} ranks, rank 0 on {}: {}\n", ranks_.launch().size(), device.uri(), device.name());
    BenchTable table(columns, line_);
    table.heading();
    measure_all(device, table);
    return written(table);
  }

  ExitStatus written(const BenchTable& of) {
    const report::Table& table = of.table();
    const auto write = [this](const std::string& file, const std::string& text) {
      if (!file.empty() && ranks_.writes()) report::write_file(file, text);
    };
    write(csv_, report::to_csv(table));
    write(json_, report::to_text(json::object{{"rows", report::to_json(table)},
                                              {"left_out", layer::to_json(layer::fold(measured_.left_out))}}));
    write(markdown_, report::to_markdown(table));
    if (!measured_.left_out.empty())
      line_.say("left out: {} layers that cannot be used\n{}", measured_.left_out.size(),
                layer::to_text(layer::fold(measured_.left_out)));
    return of.passed() ? ExitStatus::ok : ExitStatus::out_of_bounds;
  }

  void read_shapes() {
    measured_ = shapes_.layers();
    report::check_outputs({csv_, json_, markdown_}, measured_.inputs);
  }

  std::vector<MeasuredLayer> all_rows() {
    std::vector<MeasuredLayer> all;
    for (const std::string& line : problems_) {
      all.push_back({{}, or_usage("--problem", [&] { return report::parse_problem(line); })});
      if (all.back().problem.grouping == Grouping::masked)
        usage("--problem: a masked problem does not say how many rows each matrix has; write contiguous");
    }
    if (!problems_.empty() && !shapes_.given()) shapes_.check_unused("--problem says everything of itself");
    if (problems_.empty() || shapes_.given()) {
      read_shapes();
      for (const MeasuredLayer& layer : measured_.layers) {
        for (const std::int64_t m : shapes_.rows()) all.push_back(layer), all.back().problem.m = m;
      }
    }
    std::vector<MeasuredLayer> of_classes;  // Each row once per class, one after the other.
    for (MeasuredLayer& row : all) {
      add_options(row.problem);
      if (classes_.empty()) of_classes.push_back(row);
      for (const numerics::AccuracyClass weakest : classes_) {
        row.problem.weakest_accuracy = weakest;
        of_classes.push_back(row);
      }
    }
    return of_classes;
  }

  void add_options(report::Problem& problem) const {
    problem.options.insert(problem.options.end(), backend_options_.begin(), backend_options_.end());
  }

  /// Checks and times one problem. A device's refusal is a row, not a failure.
  void measure(const ironcl::Device& device, const MeasuredLayer& of, BenchTable& table) {
    const report::Problem& problem = of.problem;
    const BenchRow begin = {{"device", device.uri()}, {"layer", of.name}, {"problem", report::to_line(problem)},
                            {"m", problem.m},         {"n", problem.n},   {"k", problem.k}};
    table.attempt(begin, [&](BenchRow& row) {
      const layer::MadeOperands operands = layer::make_operands(problem, settings_.seed);
      std::optional<layer::Execution> execution;
      try {
        execution.emplace(device, problem, operands,
                          layer::ExecutionSettings{.rotate_bytes = settings_.rotate_mib << 20});
      } catch (const ironcl::Error& error) {
        if (error.status() != IRONCL_INVALID_ARGUMENT || problem.options.empty()) throw;
        usage("--opt: {}: {}", device.uri(), error.what());
      }
      const ironcl_op_info info = execution->plan().info();
      report::Problem in_f32 = problem;
      in_f32.weakest_accuracy = numerics::AccuracyClass::f32;
      const std::string plan = fmt::format("{} {} {} {} {}", device.uri(), report::to_line(in_f32),
                                           info.accuracy_class, info.variant, info.tuning);
      if (plan == last_plan_) {
        line_.say("{:>6} {:>6} {:>6}  {:<18} in both classes\n", problem.m, problem.n, problem.k, info.variant);
        return row.clear();
      }
      last_plan_ = plan;
      row["variant"] = info.variant;
      row["config"] = info.tuning;
      row["accuracy_class"] = numerics::name_of(static_cast<numerics::AccuracyClass>(info.accuracy_class));
      row["plan_ns"] = execution->plan_ns();
      row["prepare_ns"] = execution->prepare_ns();
      row["weights_bytes"] = static_cast<double>(execution->runner().weights_bytes());
      add_check(row, execution->check(layer::expect(problem, operands, settings_.check_rows)));
      // The device's multiply-adds are measured between slices of calls: both sides of the share have the same clocks
      // and neighbours.
      const double flops = tuning::flops_of(problem);
      std::vector<double> fma_shares;
      double ceiling = 0;
      const auto between = [&](const std::vector<double>& slice, std::uint32_t kind) {
        if (slice.empty()) {
          ceiling = kind == IRONCL_TIME_MEASURED ? tuning::fma_flops_now(device) : 0;
          return;
        }
        if (const double next = ceiling > 0 ? tuning::fma_flops_now(device) : 0; next > 0) {
          fma_shares.push_back(flops / tuning::summarize(slice).median * 1e9 / ((ceiling + next) / 2));
          ceiling = next;
        }
      };
      const auto run = [&execution] { return execution->run(); };
      add_launches(row, device, run);
      const Timed timed = cli::measure(run, settings_, between);
      add_times(row, timed, flops, tuning::least_bytes_of(problem), settings_.copy_bytes_per_second);
      if (!fma_shares.empty()) row["of_fma_ceiling"] = tuning::summarize(fma_shares).median;
      for (const char* share : {"of_fma_ceiling", "of_copy_ceiling"})
        if (row.contains(share) && row.at(share).get_double() > 1) share_over_one_ = true;
    });
  }

  ShapeOptions shapes_{*this, "whole layers of experts of --model"};
  Measured measured_;  ///< What the shapes' options name.
  std::vector<std::string> problems_, uris_;
  Options backend_options_;
  std::size_t chain_ = 0;  ///< Layers; 0: each product by itself.
  bool mlp_ = false;
  RanksOptions ranks_;
  std::vector<int> chunks_ = {1};
  std::vector<numerics::AccuracyClass> classes_;  ///< Empty: as the problems say.
  BenchSettings settings_;
  std::string csv_, json_, markdown_;
  std::string last_plan_;  ///< Of the previous row, in class f32: a plan of both classes is measured once.
  ProgressLine line_;
  bool share_over_one_ = false;
};

}  // namespace

std::shared_ptr<Command> make_bench_command() { return std::make_shared<BenchCommand>(); }

}  // namespace ironcl::cli
