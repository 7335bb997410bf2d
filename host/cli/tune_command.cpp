// SPDX-License-Identifier: Apache-2.0
// ironcl tune: finds the fastest right configuration of each shape on a device and keeps it in tuned tables.
// Next door: host/tuning/search.h (one problem), host/tuning/product.h (its table), tune_report.h (rows).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/cli/command.h"
#include "host/cli/device_list.h"
#include "host/cli/parse_option.h"
#include "host/cli/progress_line.h"
#include "host/cli/shape_options.h"
#include "host/cli/tune_report.h"
#include "host/layer/synthetic.h"
#include "host/report/file.h"
#include "host/report/table.h"
#include "host/report/units.h"
#include "host/tuning/product.h"
#include "host/tuning/search.h"

namespace ironcl::cli {
namespace {

using report::Kind;
using tuning::Product;

constexpr const char* kRows = "1,2,4,8,16,24,32,48,64,96,128,256,512,1024,1536,2048,3072,4096";

volatile std::sig_atomic_t interrupted = 0;
void interrupt(int) { interrupted = 1; }

double seconds_now() { return report::now_ns() * 1e-9; }

class TuneCommand final : public Command {
 private:
  static constexpr const char* kExamples =
      R"(  ironcl tune --n 4096 --k 7168 --device opencl:0 --budget 120      one weight, 18 batch sizes, two minutes
  ironcl tune --model deepseek-v3 --tp-size 8 --budget 1800           a model's layers as one of eight devices holds them
  ironcl tune --shape 4096x7168 --m 1,16,128 --save tables            the same again goes on where it was interrupted
  ironcl tune --model qwen3-30b-a3b --tokens 1,8,64 --save tables     the products of a layer of experts
  IRONCL_TUNED_DIR=tables ironcl bench --shape 4096x7168              what was found, in use
)";

 public:
  TuneCommand() : Command("tune", "Find the fastest right configuration of each shape on a device", kExamples) {}

  void declare(CLI::App& app) override {
    shapes_.declare(app, "the products of --model's layers of experts");
    app.add_option("--device", uri_, "device URI (default: the first but models)")->option_text("URI");
    add_number(app, "--budget", budget_, above_zero(), "seconds for all problems together");
    app.add_option("--save", folder_, "folder of tuned tables, merged after each problem (default: nothing is saved)")
        ->option_text("DIR");
    app.add_flag("--redo", redo_, "measure again what the folder already has from this device, driver and build");
    add_number(app, "--accuracy", accuracy_, CLI::IsMember({"f32", "tensor14"}),
               "weakest accuracy class that may win: f32 or tensor14");
    add_backend_options(app, options_, "search only where a backend's option has this value; may be repeated");
    add_number(app, "--rotate-mib", rotate_mib_, CLI::Range(0, 1 << 30),
               "memory through which weights rotate, so that no cache holds them");
    add_number(app, "--check-rows", check_rows_, above_zero(),
               "rows of D of each candidate that are checked against the oracle");
    app.add_option("--seed", seed_, "seed of the operands and of the sample of the space")->capture_default_str();
    app.add_option("--json", json_, "write rows and trials as JSON; - is the standard output")->option_text("FILE");
  }

  ExitStatus run() override {
    const std::vector<std::int64_t> tokens = shapes_.tokens();
    if (redo_ && folder_ == "off") usage("--redo is about what a folder has: give --save DIR");
    report::check_outputs({json_}, shapes_.files());
    const Measured measured = tokens.empty() ? shapes_.layers() : Measured{};
    report::check_outputs({json_}, measured.inputs);
    tokens.empty() ? add_layers(measured) : add_experts(tokens);
    const ironcl::Registry registry = ironcl::Registry::discover();
    device_ = real_devices(registry, uri_.empty() ? std::vector<std::string>{} : std::vector{uri_}).front();
    const bool saves = folder_ != "off";
    start_ = seconds_now();
    say("{}: {}\nproblems: {}, in {:.0f} s; tables: {}\n", device_.uri(), device_.name(), todo_.size(), budget_,
        saves ? "merged into " + folder_ + " after each problem"
              : "none, results are only printed (--save DIR keeps them)");
    TuneReport report([this](const std::string& text) { say("{}", text); });
    report.heading();

    const auto previous = std::signal(SIGINT, interrupt);
    for (next_ = 0; next_ < todo_.size() && interrupted == 0; ++next_) {
      if (next_ == 0 || !tuning::of_same_weights(todo_[next_], todo_[next_ - 1])) new_weights();
      tune(todo_[next_], report, saves);
    }
    for (std::size_t rest = next_; rest < todo_.size(); ++rest) report.not_reached(todo_[rest].problem);
    std::signal(SIGINT, previous);
    report.finish(device_, budget_, seconds_now() - start_, interrupted != 0 ? "interrupted" : "");
    if (!measured.left_out.empty()) {
      say("left out: {} layers that cannot be used\n{}", measured.left_out.size(),
          layer::to_text(layer::fold(measured.left_out)));
    }
    if (!json_.empty()) report.write_json(json_, measured.left_out);
    // Ended by the signal, as whoever sent it expects; what was found is saved.
    if (interrupted != 0) {
      std::fflush(nullptr);
      std::raise(SIGINT);
    }
    return report.all_right() ? ExitStatus::ok : ExitStatus::out_of_bounds;
  }

 private:
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    line_.print(fmt::format(text, std::forward<Args>(args)...), json_ == "-");
  }

  void add_layers(const Measured& measured) {
    for (const MeasuredLayer& layer : measured.layers) {
      for (const std::int64_t m : shapes_.rows()) {
        Product product;
        product.problem = layer.problem;
        product.problem.m = product.entry = m;
        add(std::move(product));
      }
    }
  }

  /// All tokens of a product, then those of the other: its weights are prepared once.
  void add_experts(const std::vector<std::int64_t>& all_tokens) {
    const layer::ExpertsForm form = shapes_.experts();
    std::vector<Product> second;
    for (const std::int64_t tokens : all_tokens) {
      std::vector<Product> both = tuning::products_of(form, tokens);
      add(std::move(both.front()));
      second.push_back(std::move(both.back()));
    }
    for (Product& product : second) add(std::move(product));
  }

  void add(Product product) {
    product.problem.weakest_accuracy = parse_accuracy_option(accuracy_);
    product.problem.options = parse_key_values("--opt", options_);
    todo_.push_back(std::move(product));
  }

  /// Other weights than before: nothing prepared is of use.
  void new_weights() {
    pool_ = layer::WeightsPool();
    made_.reset();
    winners_.of_other_weights();
  }

  /// The operands of a product. Without groups they are the first rows of the most that its weights are tuned for, so
  /// that weights are made up once.
  layer::Operands operands_of(const Product& product) {
    report::Problem most = product.problem;
    const bool grouped = most.grouping != Grouping::none;
    for (const Product& other : todo_)
      if (!grouped && tuning::of_same_weights(product, other)) most.m = std::max(most.m, other.problem.m);
    if (grouped || !made_) made_ = layer::make_operands(most, seed_);
    return grouped ? *made_ : layer::of_first_rows(product.problem, *made_);
  }

  double seconds_left() const { return budget_ - (seconds_now() - start_); }

  /// What is left of the time, shared among the problems that are left.
  double share_of_budget() const {
    double all = 0;
    for (std::size_t i = next_; i < todo_.size(); ++i) all += tuning::share_of(todo_[i].problem);
    return seconds_left() * tuning::share_of(todo_[next_].problem) / all;
  }

  void tune(const Product& product, TuneReport& report, bool saves) {
    const report::Problem& problem = product.problem;
    const tuning::Space space = space_of(problem);
    const tuning::TableKey key = tuning::key_of(product, device_, space);
    std::optional<tuned::Table> table;
    try {
      if (saves) table = tuning::read_table(folder_, key);
    } catch (const std::runtime_error& error) {
      fail(ExitStatus::bad_input, "{}", error.what());
    }
    if (const boost::json::object* ours = table && !redo_ ? tuning::known(*table, product, device_) : nullptr) {
      winners_.remember(problem.m, tuning::configuration_of(*ours));
      report.known(problem, *ours);
      return;
    }
    // A search tries at least the rule of thumb: where not even that ends within the time, it does not begin.
    if (seconds_left() <= (searched_ == 0 ? 0 : first_trial_seconds_)) {
      report.not_reached(problem);
      return;
    }

    const layer::Operands operands = operands_of(product);
    const layer::Expected expected = layer::expect(problem, operands, check_rows_);
    tuning::SearchSettings settings;
    // Of the time after operands and oracle, which cost some too.
    settings.budget_seconds = std::max(share_of_budget(), 1e-3);
    settings.seed = seed_;
    settings.rotate_bytes = rotate_mib_ << 20;
    settings.starts = winners_.starts_for(problem.m);
    settings.stop = [] { return interrupted != 0; };
    settings.progress = [&](const tuning::Progress& progress) { show(problem, progress); };
    const tuning::Found found = tuning::search(device_, problem, operands, expected, space, pool_, settings);
    first_trial_seconds_ = std::max(first_trial_seconds_, found.first_trial_seconds);
    ++searched_;
    if (found.stopped) return report.not_reached(problem);  // half a search is none
    report.found(problem, space, found);
    if (!found.any) return;
    winners_.remember(problem.m, found.winner);
    if (!saves) return;
    tuned::Table entries;
    entries.set(product.entry, tuning::member_of(product, device_, space, found));
    try {
      tuning::merge_into(folder_, key, entries);
    } catch (const std::runtime_error& error) {
      fail(ExitStatus::bad_input, "{}", error.what());
    }
  }

  tuning::Space space_of(const report::Problem& problem) const {
    try {
      return tuning::space_of(device_, problem);
    } catch (const ironcl::Error& error) {
      if (error.status() == IRONCL_INVALID_ARGUMENT && !problem.options.empty())
        usage("--opt: {}: {}", device_.uri(), error.what());
      if (error.status() != IRONCL_UNIMPLEMENTED) throw;
      fail(ExitStatus::no_device, "{} offers nothing to tune: {}", device_.uri(), error.what());
    }
  }

  void show(const report::Problem& problem, const tuning::Progress& progress) {
    line_.show((seconds_now() - start_) / budget_,
               fmt::format("{}/{}  {}x{}x{}  {}: {} tried, best {}", next_ + 1, todo_.size(), problem.m, problem.n,
                           problem.k, progress.stage, progress.tried,
                           progress.best_ns > 0 ? report::human_text(progress.best_ns, Kind::time) : "-"));
  }

  ShapeOptions shapes_{kRows};
  std::string uri_, folder_ = "off", accuracy_ = "f32", json_;
  std::vector<std::string> options_;
  double budget_ = 600;
  bool redo_ = false;
  std::uint64_t rotate_mib_ = 256, seed_ = 1;
  std::int64_t check_rows_ = 16;

  ironcl::Device device_;
  std::vector<Product> todo_;
  std::size_t next_ = 0, searched_ = 0;
  double start_ = 0, first_trial_seconds_ = 0;
  layer::WeightsPool pool_;
  std::optional<layer::MadeOperands> made_;  ///< Of the weights in hand.
  tuning::Winners winners_;
  ProgressLine line_;
};

}  // namespace

std::unique_ptr<Command> make_tune_command() { return std::make_unique<TuneCommand>(); }

}  // namespace ironcl::cli
