// SPDX-License-Identifier: Apache-2.0
// ironcl tune: finds the fastest right configuration of each shape on a device and keeps it in tuned tables.
// Next door: host/tuning/search.h (one problem), host/tuning/product.h (its table).

#include <cmath>
#include <csignal>

#include "host/checkpoint/names.h"
#include "host/cli/command.h"
#include "host/cli/device_list.h"
#include "host/cli/parse_option.h"
#include "host/cli/progress_line.h"
#include "host/cli/shape_options.h"
#include "host/layer/synthetic.h"
#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/units.h"
#include "host/tuning/product.h"
#include "host/tuning/search.h"

namespace ironcl::cli {
namespace {

using tuning::Product;

volatile std::sig_atomic_t interrupted = 0;
void interrupt(int) { interrupted = 1; }

double seconds_now() { return report::now_ns() * 1e-9; }

std::string time_text(double ns) { return ns > 0 ? report::human_time(ns) : "-"; }

json::object row_of(const report::Problem& p, const char* verdict) {
  return {{"verdict", verdict}, {"m", p.m}, {"n", p.n}, {"k", p.k}, {"problem", report::to_line(p)}};
}

double number_in(const json::object& member, const char* name) {
  const json::value* found = member.if_contains(name);
  return found != nullptr && found->is_number() ? found->to_number<double>() : 0;
}

/// What is printed, a line per problem while it runs and a summary, and everything as JSON.
class TuneReport {
 public:
  explicit TuneReport(ProgressLine& line) : line_(line) {}

  void heading() const {
    line_.say("{:>6} {:>6} {:>6}  {:<8} {:>10} {:>10} {:>6}  {:<22} {}\n", "M", "N", "K", "", "time", "thumb",
              "ratio", "tried/dropped/wrong", "configuration");
  }

  /// A search came to its end, with or without a winner.
  void found(const report::Problem& problem, const tuning::Space& space, const tuning::Found& found) {
    ++searched_;
    const std::size_t wrong = found.count(tuning::Outcome::wrong);
    const std::size_t failed = found.count(tuning::Outcome::failed) + found.count(tuning::Outcome::refused);
    tried_ += found.trials.size();
    wrong_ += wrong;
    failed_ += failed;
    skipped_ += found.skipped;
    if (found.out_of_time) ++out_of_time_;
    const double thumb = found.rule_of_thumb_time.median;
    json::array dropped, trials;
    std::int64_t dropped_count = 0;
    for (const auto& [why, count] : space.dropped) {
      dropped.push_back({{"why", why}, {"count", count}});
      dropped_count += count;
    }
    const std::string counts = fmt::format("{}/{}/{}{}", found.trials.size(), dropped_count, wrong,
                                           failed == 0 ? "" : fmt::format(" ({} failed)", failed));
    std::string why = "nothing was tried";
    for (const tuning::Trial& trial : found.trials) {
      if (!trial.why.empty())
        why = fmt::format("{}: {}: {}", to_text(trial.configuration), name_of(trial.outcome), trial.why);
      trials.push_back({{"configuration", to_text(trial.configuration)},
                        {"outcome", name_of(trial.outcome)},
                        {"time_ns", trial.time_ns},
                        {"why", trial.why}});
    }
    if (!found.any) ++without_answer_;
    add(problem,
        !found.any                  ? "none"
        : found.beats_rule_of_thumb ? "tuned"
                                    : "kept",
        {{"variant", or_null(found.any, found.winner.variant)},
         {"options", or_null(found.any, options_of(found.winner))},
         {"accuracy_class", or_null(found.any, numerics::name_of(found.winner.accuracy))},
         {"time_ns", or_null(found.any, found.time.median)},
         {"spread", or_null(found.any, found.time.spread())},
         {"time_kind", or_null(found.any, layer::time_kind_name(found.time_kind))},
         {"checked", found.any},
         {"rule_of_thumb", to_text(found.rule_of_thumb)},
         {"rule_of_thumb_ns", or_null(thumb > 0, thumb)},
         {"rule_of_thumb_spread", or_null(thumb > 0, found.rule_of_thumb_time.spread())},
         {"tried", found.trials.size()},
         {"wrong", wrong},
         {"failed", failed},
         {"slow", found.count(tuning::Outcome::slow)},
         {"skipped", found.skipped},
         {"out_of_time", found.out_of_time},
         {"seconds", found.seconds},
         {"dropped", std::move(dropped)},
         {"trials", std::move(trials)}},
        counts, found.any ? to_text(found.winner) : why);
  }

  /// The folder's table has the answer already: our member of its entry.
  void known(const report::Problem& problem, const json::object& member) {
    ++known_;
    add(problem, "known", member, "-", to_text(tuning::configuration_of(member)));
  }

  /// There was no time for it.
  void not_reached(const report::Problem& problem) {
    not_reached_.push_back(fmt::format("{}{}x{}x{}",
                                       problem.matrices > 0 ? fmt::format("{} of ", problem.matrices) : "", problem.m,
                                       problem.n, problem.k));
    rows_.push_back(row_of(problem, "not reached"));
  }

  /// The summary, and it with the rows as JSON. `ended`: why it ended early; empty where it did not.
  json::object finish(const ironcl::Device& device, double budget_seconds, double seconds, const std::string& ended) {
    std::string text = fmt::format("\n{}{} searched in {:.1f} s of {:.0f}, {} known from before, {} not reached\n",
                                   ended.empty() ? "" : ended + ": ", searched_, seconds, budget_seconds, known_,
                                   not_reached_.size());
    text += fmt::format("{} candidates tried, {} wrong, {} failed; {} valid ones were skipped{}\n", tried_, wrong_,
                        failed_, skipped_,
                        out_of_time_ == 0 ? "" : fmt::format(" (searches out of time: {})", out_of_time_));
    if (!ratios_.empty()) {
      double logs = 0;
      for (const double ratio : ratios_) logs += std::log(ratio);
      text += fmt::format(
          "tuned against the rule of thumb: {:.2f} times as fast in the geometric mean, {:.2f} at most\n",
          std::exp(logs / static_cast<double>(ratios_.size())), *std::max_element(ratios_.begin(), ratios_.end()));
    }
    constexpr std::size_t kMostNamed = 20;
    if (!not_reached_.empty())
      text +=
          fmt::format("not reached ({}): {}\n",
                      ended.empty() ? "a larger --budget reaches them" : "the same command with --save resumes there",
                      checkpoint::list_names(not_reached_, kMostNamed));
    line_.print(text);
    return {{"device", device.uri()},
            {"name", device.name()},
            {"driver", device.props().driver},
            {"build", device.api().build_id},
            {"budget_seconds", budget_seconds},
            {"seconds", seconds},
            {"ended", ended},
            {"rows", std::move(rows_)}};
  }

  /// No problem was searched without finding a configuration that is right.
  bool all_right() const noexcept { return without_answer_ == 0; }

 private:
  /// Prints the line of a problem whose row has `members`, and keeps the row.
  void add(const report::Problem& p, const char* verdict, const json::object& members, const std::string& counts,
           const std::string& configuration) {
    const double ns = number_in(members, "time_ns"), thumb = number_in(members, "rule_of_thumb_ns");
    const double ratio = ns > 0 && thumb > 0 ? thumb / ns : 0;
    if (ratio > 0) ratios_.push_back(ratio);
    line_.say("{:>6} {:>6} {:>6}  {:<8} {:>10} {:>10} {:>6}  {:<22} {}\n", p.m, p.n, p.k, verdict, time_text(ns),
              time_text(thumb), ratio > 0 ? fmt::format("{:.2f}", ratio) : "-", counts,
              configuration + (p.matrices > 0 ? fmt::format(" ({} matrices)", p.matrices) : ""));
    json::object row = row_of(p, verdict);
    for (const auto& member : members) row[member.key()] = member.value();
    rows_.push_back(std::move(row));
  }

  ProgressLine& line_;
  json::array rows_;
  std::vector<double> ratios_;  ///< Rule of thumb over tuned, of what was searched now or before.
  std::vector<std::string> not_reached_;
  std::size_t searched_ = 0, known_ = 0, without_answer_ = 0, out_of_time_ = 0;
  std::size_t tried_ = 0, wrong_ = 0, failed_ = 0, skipped_ = 0;
};

class TuneCommand final : public Command {
 public:
  TuneCommand()
      : Command(
            "tune", "Find the fastest right configuration of each shape on a device",
            R"(  ironcl tune --n 4096 --k 7168 --device opencl:0 --budget 120      one weight, 18 batch sizes, two minutes
  ironcl tune --model deepseek-v3 --tp-size 8 --budget 1800           a model's layers as one of eight devices holds them
  ironcl tune --shape 4096x7168 --m 1,16,128 --save tables            the same again goes on where it was interrupted
  ironcl tune --model qwen3-30b-a3b --tokens 1,8,64 --save tables     the products of a layer of experts
  IRONCL_TUNED_DIR=tables ironcl bench --shape 4096x7168              what was found, in use
)") {
    add_value(*this, "--device URI", uri_, "device URI (default: the first but models)");
    add_number(*this, "--budget", budget_, above_zero(), "seconds for all problems together");
    add_value(*this, "--save DIR", folder_,
              "folder of tuned tables, merged after each problem (default: nothing is saved)");
    add_flag("--redo", redo_, "measure again what the folder already has from this device, driver and build");
    add_number(*this, "--accuracy", accuracy_, CLI::IsMember({"f32", "tensor14"}),
               "weakest accuracy class that may win: f32 or tensor14");
    add_key_values(*this, "--opt", backend_options_,
                   "search only where a backend's option has this value; may be repeated");
    add_number(*this, "--rotate-mib", rotate_mib_, CLI::Range(0, 1 << 30),
               "memory through which weights rotate, so that no cache holds them");
    add_number(*this, "--check-rows", check_rows_, above_zero(),
               "rows of D of each candidate that are checked against the oracle");
    add_option("--seed", seed_, "seed of the operands and of the sample of the space")->capture_default_str();
    add_value(*this, "--json FILE", json_, "write rows and trials as JSON; - is the standard output");
  }

  ExitStatus run() override {
    const std::vector<std::int64_t> tokens = shapes_.tokens();
    if (redo_ && folder_ == "off") usage("--redo is about what a folder has: give --save DIR");
    report::check_outputs({json_});
    const Measured measured = tokens.empty() ? shapes_.layers() : Measured{};
    report::check_outputs({json_}, measured.inputs);
    tokens.empty() ? add_layers(measured) : add_experts(tokens);
    const ironcl::Registry registry = ironcl::Registry::discover();
    device_ = real_devices(registry, uri_.empty() ? std::vector<std::string>{} : std::vector{uri_}).front();
    const bool saves = folder_ != "off";
    start_ = seconds_now();
    line_.leave_output(json_ == "-");
    line_.say("{}: {}\nproblems: {}, in {:.0f} s; tables: {}\n", device_.uri(), device_.name(), todo_.size(), budget_,
              saves ? "merged into " + folder_ + " after each problem"
                    : "none, results are only printed (--save DIR keeps them)");
    TuneReport report(line_);
    report.heading();

    const auto previous = std::signal(SIGINT, interrupt);
    for (next_ = 0; next_ < todo_.size() && interrupted == 0; ++next_) {
      if (next_ == 0 || !tuning::of_same_weights(todo_[next_], todo_[next_ - 1])) {  // nothing prepared is of use
        pool_ = layer::WeightsPool();
        made_.reset();
        winners_.of_other_weights();
      }
      tune(todo_[next_], report, saves);
    }
    for (std::size_t rest = next_; rest < todo_.size(); ++rest) report.not_reached(todo_[rest].problem);
    std::signal(SIGINT, previous);
    const std::string ended = interrupted != 0 ? "interrupted" : "";
    json::object all = report.finish(device_, budget_, seconds_now() - start_, ended);
    if (!measured.left_out.empty())
      line_.say("left out: {} layers that cannot be used\n{}", measured.left_out.size(),
                layer::to_text(layer::fold(measured.left_out)));
    all["left_out"] = layer::to_json(layer::fold(measured.left_out));
    if (!json_.empty()) report::write_file(json_, report::to_text(all));
    // Ended by the signal, as whoever sent it expects; what was found is saved.
    if (interrupted != 0) {
      std::fflush(nullptr);
      std::raise(SIGINT);
    }
    return report.all_right() ? ExitStatus::ok : ExitStatus::out_of_bounds;
  }

 private:
  void add_layers(const Measured& measured) {
    for (const MeasuredLayer& layer : measured.layers) {
      for (const std::int64_t m : shapes_.rows()) {
        Product product{.problem = layer.problem, .entry = m};
        product.problem.m = m;
        add(std::move(product));
      }
    }
  }

  /// All tokens of a product, then those of the other: its weights are prepared once.
  void add_experts(const std::vector<std::int64_t>& all_tokens) {
    const layer::ExpertsForm form = shapes_.experts();
    for (const std::int64_t tokens : all_tokens)
      for (Product& product : tuning::products_of(form, tokens)) add(std::move(product));
    std::ranges::stable_sort(todo_, {}, &Product::down);
  }

  void add(Product product) {
    product.problem.weakest_accuracy = *numerics::parse_accuracy(accuracy_);
    product.problem.options = backend_options_;
    todo_.push_back(std::move(product));
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
    const tuned::Key key = tuning::key_of(product, device_, space);
    std::optional<tuned::Table> table;
    if (saves) table = tuning::read_table(folder_, key);
    if (const json::object* ours = table && !redo_ ? tuning::known(*table, product, device_) : nullptr) {
      winners_.remember(problem.m, tuning::configuration_of(*ours));
      report.known(problem, *ours);
      return;
    }
    // A search tries at least the rule of thumb: where not even that ends within the time, it does not begin.
    if (seconds_left() <= first_trial_seconds_) {
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
    settings.progress = [&](const tuning::Progress& progress) {
      line_.show((seconds_now() - start_) / budget_,
                 fmt::format("{}/{}  {}x{}x{}  {}: {} tried, best {}", next_ + 1, todo_.size(), problem.m, problem.n,
                             problem.k, progress.stage, progress.tried, time_text(progress.best_ns)));
    };
    const tuning::Found found = tuning::search(device_, problem, operands, expected, space, pool_, settings);
    first_trial_seconds_ = std::max(first_trial_seconds_, found.first_trial_seconds);
    if (found.stopped) return report.not_reached(problem);  // half a search is none
    report.found(problem, space, found);
    if (!found.any) return;
    winners_.remember(problem.m, found.winner);
    if (!saves) return;
    tuned::Table entries;
    entries.set(product.entry, tuning::member_of(product, device_, space, found));
    tuning::merge_into(folder_, key, entries);
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

  ShapeOptions shapes_{*this,
                       "the products of --model's layers of experts",
                       {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096}};
  std::string uri_, folder_ = "off", accuracy_ = "f32", json_;
  Options backend_options_;
  double budget_ = 600;
  bool redo_ = false;
  std::uint64_t rotate_mib_ = 256, seed_ = 1;
  std::int64_t check_rows_ = 16;

  ironcl::Device device_;
  std::vector<Product> todo_;
  std::size_t next_ = 0;
  double start_ = 0, first_trial_seconds_ = 0;  ///< Of the longest first trial so far.
  layer::WeightsPool pool_;
  std::optional<layer::MadeOperands> made_;  ///< Of the weights in hand.
  tuning::Winners winners_;
  ProgressLine line_;
};

}  // namespace

std::shared_ptr<Command> make_tune_command() { return std::make_shared<TuneCommand>(); }

}  // namespace ironcl::cli
