// SPDX-License-Identifier: Apache-2.0
// Layers over ranks: calls as a whole by the number of chunks, each phase of them by itself, and one device beside.

#include "backends/words.h"
#include "host/cli/bench.h"
#include "host/layer/synthetic.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

using ranks::Times;

/// What a rank holds on its device.
struct HeldByRank {
  std::uint64_t weights = 0, buffers = 0;
  std::array<char, 64> uri{};
};

/// Medians over the calls of one layer, by rank 0's clock.
struct Figures {
  Timed timed;
  Times phases;  ///< Seconds.
  ranks::Traffic sent;
  std::vector<HeldByRank> held;
};

/// `settings` whose layer is timed on all ranks at once; rank 0 says when there were enough calls.
ranks::SpreadSettings timing(ranks::SpreadSettings settings, const BenchSettings& bench, Figures& figures) {
  settings.again = [&](const ranks::Again& again) {
    const bool first = again.group.rank() == 0;
    const auto tell = [&](std::int32_t more) { return ranks::gathered(again.group, more)[0] != 0; };
    const auto turns = [&](const std::function<Times()>& call, std::vector<Times>& all) -> Timed {
      while (!first && tell(0)) call();
      if (!first) return {};
      const Timed timed = measure(
          [&] {
            tell(1);
            const double start = report::now_ns();
            all.push_back(call());
            return layer::Timing{.host_ns = report::now_ns() - start};
          },
          bench);
      tell(0);
      all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(timed.host.count));
      return timed;
    };
    std::vector<Times> whole, alone;
    HeldByRank mine{again.weights_bytes, again.buffer_bytes};
    std::snprintf(mine.uri.data(), mine.uri.size(), "%s", again.device.uri().c_str());
    const std::vector<HeldByRank> held = ranks::gathered(again.group, mine);
    const ranks::Traffic before = again.group.sent();
    again.run();
    const ranks::Traffic after = again.group.sent();
    const Timed timed = turns(again.run, whole);
    turns(again.phases, alone);
    if (!first) return;
    figures = {timed, {}, {after.messages - before.messages, after.bytes - before.bytes}, held};
    for (double Times::*phase : {&Times::write, &Times::product, &Times::read, &Times::exchange, &Times::compute}) {
      figures.phases.*phase = tuning::summarize(words::each(alone, phase)).median;
    }
  };
  return settings;
}

/// What ranks made and took, beside one device alone: its result `want`, empty where it had none, and its time.
/// Without `expected` the two must be equal.
void add_spread(BenchRow& row, const layer::Substituted& made, const std::optional<layer::Expected>& expected,
                const std::vector<std::byte>& want, const Figures& figures, double flops, double alone_ns) {
  const bool same = made.output.d == want;
  if (!want.empty()) row["bits"] = same ? "equal" : "differ";
  if (expected)
    add_check(row, layer::check(*expected, made.output.d, 0, made.plans));
  else
    row["verdict"] = same ? "pass" : "fail";
  row["variant"] = made.output.variant;
  const auto uri = [](const HeldByRank& one) { return one.uri.data(); };
  add_times(row, figures.timed, flops, 0, 0);
  row["device"] = fmt::format("{}", fmt::join(words::each(figures.held, uri), ","));
  row["ranks"] = std::ssize(figures.held);
  row["product_ns"] = figures.phases.product * 1e9;
  row["exchange_ns"] = figures.phases.exchange * 1e9;
  row["exchange_gbytes_per_s"] = static_cast<double>(figures.sent.bytes) / 1e9 / figures.phases.exchange;
  row["sent_bytes"] = static_cast<double>(figures.sent.bytes);
  row["messages"] = static_cast<std::int64_t>(figures.sent.messages);
  if (alone_ns == 0) return;
  row["alone_ns"] = alone_ns;
  row["over_alone"] = alone_ns / figures.timed.host.median;
}

/// "rank 0: 61120512 B of weights, 61120512 B by the plan, 3 B of buffers; ..."
std::string memory_text(const Figures& figures, const std::function<std::uint64_t(int rank)>& plan) {
  std::string text;
  for (int rank = 0; const HeldByRank& one : figures.held) {
    text += fmt::format("{}rank {}: {} B of weights, {} B by the plan", rank == 0 ? "" : "; ", rank, one.weights,
                        plan(rank));
    if (one.buffers != 0) text += fmt::format(", {} B of buffers", one.buffers);
    ++rank;
  }
  return text;
}

/// Runs `alone`; where the device lacks memory for a whole layer, the table says so and has no figure.
void if_it_fits(const BenchTable& table, const std::function<void()>& alone) {
  try {
    alone();
  } catch (const Error& error) {
    if (error.status() != IRONCL_OUT_OF_DEVICE_MEMORY) throw;
    table.say(fmt::format("one device alone: {}\n", error.what()));
  }
}

}  // namespace

const BenchColumns kRanksColumns = {
    "device layer problem m n k split ranks chunks variant verdict bits time_ns spread product_ns write_ns read_ns "
    "exchange_ns write_gbytes_per_s read_gbytes_per_s exchange_gbytes_per_s sent_bytes messages alone_ns "
    "alone_product_ns over_alone gflops max_error_over_bound rows_checked memory runs why",
    "m n k split chunks verdict bits time_ns spread product_ns write_ns read_ns exchange_ns exchange_gbytes_per_s "
    "alone_ns over_alone max_error_over_bound"};

void bench_ranks(ranks::Launch& launch, const Device& device, const MeasuredLayer& of, const std::vector<int>& chunks,
                 const ranks::SpreadSettings& split, const BenchSettings& settings, BenchTable& table) {
  const report::Problem& problem = of.problem;
  const BenchRow begin = {{"layer", of.name},
                          {"problem", report::to_line(problem)},
                          {"m", problem.m},
                          {"n", problem.n},
                          {"k", problem.k}};
  table.attempt(begin, [&](BenchRow& row) {
    const layer::MadeOperands operands = layer::make_operands(problem, settings.seed);
    const ranks::Whole whole = ranks::whole_of(problem, operands);
    const ranks::Choices choices = ranks::choices_for(of.name, whole.problem, split);
    const bool by_rows = choices.split == ranks::Split::row;
    const ranks::Shards shards = ranks::shard(whole.problem, launch.size(), choices);
    Figures alone;
    std::vector<std::byte> want;
    std::optional<layer::Expected> expected;
    launch.together("one device alone", "", [&] {
      if (!launch.speaks()) return;
      if_it_fits(table, [&] {
        ranks::Launch one({device});
        want = ranks::SpreadLayers(one, timing({}, settings, alone)).run("", problem, operands).output.d;
      });
      if (by_rows) want = ranks::serial_sum(device, whole, shards, operands.a);
      // A k cut inside a group computes another function, which `compare` judges; here it equals the serial sum.
      if (!by_rows || shards.cols.ragged().empty()) expected = layer::expect(problem, operands, settings.check_rows);
    });
    row["split"] = by_rows ? "row" : "column";
    if (!alone.held.empty()) row["alone_product_ns"] = alone.phases.product * 1e9;
    std::string memory;
    for (const int count : chunks) {
      Figures figures;
      ranks::SpreadSettings some = timing(split, settings, figures);
      some.chunks = count;
      const layer::Substituted made = ranks::SpreadLayers(launch, std::move(some)).run(of.name, problem, operands);
      if (!launch.speaks()) continue;
      BenchRow one = row;
      add_spread(one, made, expected, want, figures, tuning::flops_of(problem),
                 (alone.phases.write + alone.phases.product + alone.phases.read) * 1e9);
      const auto copies = [&](const char* ns, const char* rate, double seconds, std::size_t bytes) {
        one[ns] = seconds * 1e9;
        one[rate] = static_cast<double>(bytes) / 1e9 / seconds;
      };
      copies("write_ns", "write_gbytes_per_s", figures.phases.write,
             layer::bytes_of_matrix(layer::plan_quantizes(problem) ? problem.a_source : problem.a, problem.m,
                                    shards.cols_of(0).size()));
      copies("read_ns", "read_gbytes_per_s", figures.phases.read,
             layer::bytes_of_matrix(by_rows && shards.active().size() > 1 ? numerics::DType::f32 : problem.d,
                                    problem.m, shards.width(0)));
      one["chunks"] = static_cast<std::int64_t>(count);
      one["memory"] = memory =
          memory_text(figures, [&](int rank) { return ranks::bytes_of_part(whole.problem, shards, rank); });
      table.add(one);
    }
    table.say(memory + "\n");
    row.clear();
  });
}

const BenchColumns kRanksExpertsColumns = {
    "device model tokens experts hit rows ranks variant verdict bits time_ns spread product_ns compute_ns "
    "exchange_ns exchange_gbytes_per_s sent_bytes messages alone_ns over_alone gflops max_error_over_bound "
    "tokens_checked memory runs why",
    "tokens hit rows verdict bits time_ns spread product_ns compute_ns exchange_ns exchange_gbytes_per_s alone_ns "
    "over_alone max_error_over_bound"};

void bench_ranks(ranks::Launch& launch, const Device& device, const layer::ExpertsSource& source,
                 const layer::ExpertsChoices& choices, const ranks::SpreadSettings& split,
                 const BenchSettings& settings, BenchTable& table) {
  const layer::ExpertsForm& form = source.form();
  const BenchRow begin = {{"model", form.name}, {"tokens", choices.tokens}, {"experts", form.routing.experts}};
  table.attempt(begin, [&](BenchRow& row) {
    const layer::ExpertsInput input = layer::make_experts_input(form, choices.tokens, settings.skew, settings.seed);
    std::vector<std::byte> want;
    double alone_ns = 0;
    std::optional<layer::Expected> expected;
    launch.together("one device alone", "", [&] {
      if (!launch.speaks()) return;
      if_it_fits(table, [&] {
        layer::Runner experts = layer::experts_on(device, source, choices);
        layer::Execution call(device, experts, input);
        want = call.compute().d;
        alone_ns = measure([&] { return call.run(); }, settings).host.median;
      });
      expected = layer::expect(layer::oracle_of(source, input), layer::graph_of(form, choices, &device),
                               settings.check_rows);
    });
    Figures figures;
    const layer::Substituted made =
        ranks::SpreadLayers(launch, timing(split, settings, figures)).run(source, input, choices);
    if (!launch.speaks()) return row.clear();
    add_spread(row, made, expected, want, figures, flops_of(form, choices.tokens), alone_ns);
    row["hit"] = form.routing.experts - std::ssize(layer::unchosen_experts(form, *input.routed));
    row["rows"] = choices.tokens * form.routing.top_k;
    row["compute_ns"] = figures.phases.compute * 1e9;
    const ranks::Partition share = ranks::Partition::even("experts", form.experts.count, launch.size());
    const std::string memory = memory_text(figures, [&](int rank) {
      const std::uint64_t everywhere = (form.shared ? expert_bytes(form, *form.shared) : 0) +
                                       layer::bytes_of_matrix(form.router.code, form.logits(), form.hidden);
      const std::int64_t experts = share.ranges[static_cast<std::size_t>(rank)].size();
      return everywhere + static_cast<std::uint64_t>(experts) * expert_bytes(form, form.experts);
    });
    row["memory"] = memory;
    table.say(memory + "\n");
  });
}

}  // namespace ironcl::cli
