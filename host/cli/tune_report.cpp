// SPDX-License-Identifier: Apache-2.0
#include "host/cli/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "host/layer/execution.h"
#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/table.h"
#include "host/tuning/product.h"

namespace ironcl::cli {
namespace {

namespace json = boost::json;
using report::Kind;
using report::or_null;

std::string time_text(double ns) { return ns > 0 ? report::human_text(ns, Kind::time) : "-"; }

std::string line(const report::Problem& p, const std::string& verdict, double ns, double thumb_ns,
                 const std::string& counts, const std::string& configuration) {
  return fmt::format("{:>6} {:>6} {:>6}  {:<8} {:>10} {:>10} {:>6}  {:<22} {}\n", p.m, p.n, p.k, verdict,
                     time_text(ns), time_text(thumb_ns),
                     ns > 0 && thumb_ns > 0 ? fmt::format("{:.2f}", thumb_ns / ns) : "-", counts,
                     configuration + (p.matrices > 0 ? fmt::format(" ({} matrices)", p.matrices) : ""));
}

json::object row_of(const report::Problem& p, const char* verdict) {
  return {{"verdict", verdict}, {"m", p.m}, {"n", p.n}, {"k", p.k}, {"problem", report::to_line(p)}};
}

double number_in(const json::object& member, const char* name) {
  const json::value* found = member.if_contains(name);
  return found != nullptr && found->is_number() ? found->to_number<double>() : 0;
}

}  // namespace

void TuneReport::heading() const {
  print_(fmt::format("{:>6} {:>6} {:>6}  {:<8} {:>10} {:>10} {:>6}  {:<22} {}\n", "M", "N", "K", "", "time", "thumb",
                     "ratio", "tried/dropped/wrong", "configuration"));
}

void TuneReport::found(const report::Problem& problem, const tuning::Space& space, const tuning::Found& found) {
  ++searched_;
  const std::size_t wrong = found.count(tuning::Outcome::wrong);
  const std::size_t failed = found.count(tuning::Outcome::failed) + found.count(tuning::Outcome::refused);
  tried_ += found.trials.size();
  wrong_ += wrong;
  failed_ += failed;
  skipped_ += found.skipped;
  if (found.out_of_time) ++out_of_time_;
  const double thumb = found.rule_of_thumb_time.median;
  const std::string counts = fmt::format("{}/{}/{}{}", found.trials.size(), space.dropped_count(), wrong,
                                         failed == 0 ? "" : fmt::format(" ({} failed)", failed));
  const char* const verdict = !found.any ? "none" : found.beats_rule_of_thumb ? "tuned" : "kept";
  if (found.any) {
    print_(line(problem, verdict, found.time.median, thumb, counts, to_text(found.winner)));
    if (thumb > 0) ratios_.push_back(thumb / found.time.median);
  } else {
    ++without_answer_;
    std::string why = "nothing was tried";
    for (const tuning::Trial& trial : found.trials)
      if (!trial.why.empty())
        why = fmt::format("{}: {}: {}", to_text(trial.configuration), name_of(trial.outcome), trial.why);
    print_(line(problem, verdict, 0, 0, counts, why));
  }

  json::array dropped, trials;
  for (const auto& [why, count] : space.dropped) dropped.push_back({{"why", why}, {"count", count}});
  for (const tuning::Trial& trial : found.trials)
    trials.push_back({{"configuration", to_text(trial.configuration)},
                      {"outcome", name_of(trial.outcome)},
                      {"time_ns", report::number(trial.time_ns)},
                      {"why", trial.why}});
  json::object row = row_of(problem, verdict);
  row.insert({{"variant", or_null(found.any, found.winner.variant)},
              {"options", or_null(found.any, options_of(found.winner))},
              {"accuracy_class", or_null(found.any, numerics::name_of(found.winner.accuracy))},
              {"time_ns", or_null(found.any, report::number(found.time.median))},
              {"spread", or_null(found.any, report::number(found.time.spread()))},
              {"time_kind", or_null(found.any, layer::time_kind_name(found.time_kind))},
              {"checked", found.any},
              {"rule_of_thumb", to_text(found.rule_of_thumb)},
              {"rule_of_thumb_ns", or_null(thumb > 0, report::number(thumb))},
              {"rule_of_thumb_spread", or_null(thumb > 0, report::number(found.rule_of_thumb_time.spread()))},
              {"tried", found.trials.size()},
              {"wrong", wrong},
              {"failed", failed},
              {"slow", found.count(tuning::Outcome::slow)},
              {"skipped", found.skipped},
              {"out_of_time", found.out_of_time},
              {"seconds", report::number(found.seconds)},
              {"dropped", std::move(dropped)},
              {"trials", std::move(trials)}});
  rows_.push_back(std::move(row));
}

void TuneReport::known(const report::Problem& problem, const json::object& member) {
  ++known_;
  const double ns = number_in(member, "time_ns"), thumb = number_in(member, "rule_of_thumb_ns");
  print_(line(problem, "known", ns, thumb, "-", to_text(tuning::configuration_of(member))));
  if (ns > 0 && thumb > 0) ratios_.push_back(thumb / ns);
  json::object row = row_of(problem, "known");
  for (const auto& field : member) row[field.key()] = field.value();
  rows_.push_back(std::move(row));
}

void TuneReport::not_reached(const report::Problem& problem) {
  not_reached_.push_back(fmt::format("{}{}x{}x{}",
                                     problem.matrices > 0 ? fmt::format("{} of ", problem.matrices) : "", problem.m,
                                     problem.n, problem.k));
  rows_.push_back(row_of(problem, "not reached"));
}

void TuneReport::finish(const ironcl::Device& device, double budget_seconds, double seconds,
                        const std::string& ended) {
  std::string text =
      fmt::format("\n{}{} searched in {:.1f} s of {:.0f}, {} known from before, {} not reached\n",
                  ended.empty() ? "" : ended + ": ", searched_, seconds, budget_seconds, known_, not_reached_.size());
  text +=
      fmt::format("{} candidates tried, {} wrong, {} failed; {} valid ones were skipped{}\n", tried_, wrong_, failed_,
                  skipped_, out_of_time_ == 0 ? "" : fmt::format(" (searches out of time: {})", out_of_time_));
  if (!ratios_.empty()) {
    double logs = 0;
    for (const double ratio : ratios_) logs += std::log(ratio);
    text += fmt::format(
        "tuned against the rule of thumb: {:.2f} times as fast in the geometric mean, {:.2f} at most\n",
        std::exp(logs / static_cast<double>(ratios_.size())), *std::max_element(ratios_.begin(), ratios_.end()));
  }
  constexpr std::size_t kMostNamed = 20;
  if (!not_reached_.empty()) {
    const std::size_t named = std::min(kMostNamed, not_reached_.size());
    text +=
        fmt::format("not reached ({}): {}{}\n",
                    ended.empty() ? "a larger --budget reaches them" : "the same command with --save resumes there",
                    fmt::join(not_reached_.begin(), not_reached_.begin() + static_cast<std::ptrdiff_t>(named), ", "),
                    named == not_reached_.size() ? "" : fmt::format(" and {} more", not_reached_.size() - named));
  }
  print_(text);
  all_ = {{"device", device.uri()},
          {"name", device.name()},
          {"driver", device.props().driver},
          {"build", device.api().build_id},
          {"budget_seconds", budget_seconds},
          {"seconds", report::number(seconds)},
          {"ended", ended}};
}

void TuneReport::write_json(const std::string& path, const std::vector<layer::LeftOut>& left_out) const {
  json::object all = all_;
  all["rows"] = rows_;
  all["left_out"] = layer::to_json(layer::fold(left_out));
  report::write_file(path, report::to_text(all));
}

}  // namespace ironcl::cli
