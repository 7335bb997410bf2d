// SPDX-License-Identifier: Apache-2.0
// Timing of calls, and the table that is printed as it grows; layers back to back.
#include "host/cli/bench.h"

#include "backends/words.h"
#include "host/layer/synthetic.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

using report::Cell;
using report::Kind;

enum class Shown { as_kind, percent, four_digits };

struct KnownColumn {
  const char* key;
  const char* heading;
  Kind kind = Kind::integer;
  int width = 0;  ///< In the rows that are printed while measuring.
  Shown shown = Shown::as_kind;
};

/// Every column of any form of the command.
constexpr auto kColumns = std::to_array<KnownColumn>({
    {"device", "device", Kind::text},
    {"layer", "layer", Kind::text},
    {"model", "model", Kind::text},
    {"problem", "problem", Kind::text},
    {"m", "M", Kind::integer, 6},
    {"n", "N", Kind::integer, 6},
    {"k", "K", Kind::integer, 6},
    {"tokens", "T", Kind::integer, 6},
    {"experts", "E", Kind::integer},
    {"hit", "hit", Kind::integer, 5},
    {"rows", "rows", Kind::integer, 6},
    {"layers", "layers", Kind::integer, 7},
    {"split", "split", Kind::text, 6},
    {"ranks", "ranks", Kind::integer},
    {"chunks", "chunks", Kind::integer, 6},
    {"products", "products", Kind::integer, 9},
    {"launches", "launches", Kind::integer, 9},
    {"form", "form", Kind::text, 20},
    {"variant", "variant", Kind::text, 18},
    {"variants", "variants", Kind::text},
    {"accuracy_class", "class", Kind::text, 8},
    {"config", "config", Kind::text},
    {"verdict", "verdict", Kind::text, 12},
    {"bits", "bits", Kind::text, 6},
    {"time_ns", "time", Kind::time, 11},
    {"layer_ns", "time per layer", Kind::time, 14},
    {"spread", "spread", Kind::number, 7, Shown::percent},
    {"time_kind", "kind", Kind::text},
    {"host_ns", "host", Kind::time},
    {"enqueue_ns", "enqueueing", Kind::time, 11},
    {"product_ns", "product", Kind::time, 9},
    {"compute_ns", "rest", Kind::time, 9},
    {"write_ns", "write", Kind::time, 9},
    {"read_ns", "read", Kind::time, 9},
    {"exchange_ns", "exchange", Kind::time, 9},
    {"write_gbytes_per_s", "GB/s written", Kind::number},
    {"read_gbytes_per_s", "GB/s read", Kind::number},
    {"exchange_gbytes_per_s", "GB/s sent", Kind::number, 9, Shown::four_digits},
    {"sent_bytes", "sent", Kind::bytes},
    {"messages", "messages", Kind::integer},
    {"alone_ns", "alone", Kind::time, 9},
    {"alone_product_ns", "product alone", Kind::time},
    {"over_alone", "of alone", Kind::number, 8},
    {"memory", "memory", Kind::text},
    {"gflops", "GFLOP/s", Kind::number, 9, Shown::four_digits},
    {"gbytes_per_s", "GB/s", Kind::number, 8, Shown::four_digits},
    {"of_fma_ceiling", "of FMA", Kind::number, 7},
    {"of_copy_ceiling", "of copy", Kind::number, 7},
    {"max_error_over_bound", "err/bound", Kind::number, 9},
    {"rows_checked", "rows", Kind::integer},
    {"tokens_checked", "checked", Kind::integer},
    {"plan_ns", "plan", Kind::time},
    {"prepare_ns", "prepare", Kind::time},
    {"weights_bytes", "weights", Kind::bytes},
    {"runs", "runs", Kind::integer},
    {"why", "why", Kind::text},
});

const KnownColumn& column(std::string_view key) {
  return *std::find_if(kColumns.begin(), kColumns.end(), [key](const KnownColumn& one) { return one.key == key; });
}

std::vector<report::Column> columns_of(std::string_view keys) {
  return words::each(words::split(keys, ' '), [](std::string_view key) -> report::Column {
    const KnownColumn& known = column(key);
    return {known.key, known.heading, known.kind};
  });
}

Cell cell(const BenchRow& row, std::string_view key) {
  const Cell* found = row.if_contains(key);
  return found == nullptr ? Cell() : *found;
}

std::string text_of(const Cell& cell, const KnownColumn& column) {
  const double* number = cell.if_double();
  if (number == nullptr || column.shown == Shown::as_kind) return report::human_text(cell, column.kind);
  return column.shown == Shown::percent ? fmt::format("{:.1f}%", *number * 100) : fmt::format("{:.4g}", *number);
}

/// The texts in columns: numbers right-aligned behind one blank, words left-aligned behind two.
std::string line(const std::vector<std::string_view>& keys, const std::vector<std::string>& texts) {
  std::string line;
  bool number_before = false;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const KnownColumn& known = column(keys[i]);
    const bool number = known.kind != Kind::text;
    if (i != 0) line += !number && number_before ? "  " : " ";
    line += number ? fmt::format("{:>{}}", texts[i], known.width) : fmt::format("{:<{}}", texts[i], known.width);
    number_before = number;
  }
  return line;
}

/// `layers` times what `record` adds, submitted by one call.
struct Chain {
  Sequence sequence;
  Queue queue;
  std::vector<double> enqueueing{};  ///< Of each call the time until its last kernel was enqueued.

  Chain(const Device& device, std::size_t layers, const std::function<void(SequenceDesc&)>& record) : queue(device) {
    SequenceDesc calls;
    for (std::size_t at = 0; at < layers; ++at) record(calls);
    sequence = {device, calls};
  }
  layer::Timing run() {
    const double start = report::now_ns();
    queue.submit(sequence, {});
    enqueueing.push_back(report::now_ns() - start);
    queue.finish();
    return {.host_ns = report::now_ns() - start};
  }
};

/// Times a chain and one wait, of layers of `bytes` each, into its row.
void time_chain(const Device& device, Chain& chain, std::size_t layers, double bytes, const BenchSettings& settings,
                BenchRow& row) {
  const auto run = [&] { return chain.run(); };
  add_launches(row, device, run);
  Timed timed = measure(run, settings);
  timed.kind = IRONCL_TIME_MEASURED;  // By the host, which waits for the whole chain.
  const auto count = static_cast<double>(layers);
  add_times(row, timed, 0, bytes * count, settings.copy_bytes_per_second);
  row["layer_ns"] = timed.host.median / count;
  const auto of_timed = chain.enqueueing.end() - static_cast<std::ptrdiff_t>(timed.host.count);
  row["enqueue_ns"] = tuning::summarize({of_timed, chain.enqueueing.end()}).median / count;
  row["layers"] = static_cast<std::int64_t>(layers);
  // The kernel that runs several of the calls as one.
  if (const std::string variant = chain.sequence.info().variant; !variant.empty()) row["variants"] = variant;
}

}  // namespace

Timed measure(const std::function<layer::Timing()>& run, const BenchSettings& settings,
              const std::function<void(const std::vector<double>& slice, std::uint32_t kind)>& between) {
  constexpr double kSliceNs = 40e6;
  layer::Timing timing = run();
  const std::uint32_t kind = timing.time_kind;
  // A GPU that has been idle raises its clocks over many milliseconds.
  for (double spent = timing.host_ns; kind != IRONCL_TIME_MODELLED && spent < settings.warm_up_ms * 1e6;
       spent += timing.host_ns)
    timing = run();
  std::vector<double> device, host, slice;
  double spent = 0;
  const auto runs = static_cast<std::size_t>(settings.runs);
  double sliced = kSliceNs;
  while (device.size() < runs || (spent < settings.min_ms * 1e6 && device.size() < 100000)) {
    if (sliced >= kSliceNs && between) between(slice, kind);
    if (sliced >= kSliceNs) slice.clear(), sliced = 0;
    timing = run();
    slice.push_back(timing.ns());
    device.push_back(timing.ns());
    host.push_back(timing.host_ns);
    sliced += timing.host_ns;
    spent += timing.host_ns;
  }
  if (between) between(slice, kind);
  return {tuning::summarize(device), tuning::summarize(host), kind};
}

BenchTable::BenchTable(const BenchColumns& columns, ProgressLine& line)
    : table_(columns_of(columns.keys)), shown_(words::split(columns.shown, ' ')), line_(line) {}

void BenchTable::heading() const {
  say(line(shown_, words::each(shown_, [](std::string_view key) { return std::string(column(key).heading); })) +
      "\n");
}

void BenchTable::add(const BenchRow& row) {
  const Cell verdict = cell(row, "verdict");
  passed_ = passed_ && (verdict == "pass" || verdict == "unsupported");
  report::Table::Row cells;
  for (const report::Column& one : table_.columns()) cells.push_back(cell(row, one.key));
  table_.add(std::move(cells));
  // A row without figures ends with its verdict and the reason.
  std::vector<std::string> texts;
  std::size_t filled = 0;
  for (const std::string_view key : shown_) {
    texts.push_back(text_of(cell(row, key), column(key)));
    if (row.contains(key)) filled = texts.size();
  }
  texts.resize(filled);
  const Cell why = cell(row, "why");
  say(fmt::format("{} {}\n", line(shown_, texts), why.is_null() ? "" : std::string(why.get_string())));
}

void BenchTable::attempt(BenchRow row, const std::function<void(BenchRow& row)>& fill) {
  try {
    fill(row);
  } catch (const Error& error) {
    row["verdict"] = error.is_refusal() ? "unsupported" : "error";
    row["why"] = error.what();
  }
  if (!row.empty()) add(row);
}

void add_check(BenchRow& row, const layer::Check& check) {
  row["verdict"] = check.pass ? "pass" : "fail";
  row["max_error_over_bound"] = check.comparison.max_error_over_bound;
  row["rows_checked"] = check.rows_checked;
  row["tokens_checked"] = check.rows_checked;
  row["why"] = check.why;
}

void add_times(BenchRow& row, const Timed& timed, double flops, double bytes, double copy_bytes_per_second) {
  const double ns = timed.device.median;
  row["time_ns"] = ns;
  row["spread"] = timed.device.spread();
  row["time_kind"] = timed.kind == IRONCL_TIME_NONE ? "host" : layer::time_kind_name(timed.kind);
  row["host_ns"] = timed.host.median;
  row["runs"] = static_cast<std::int64_t>(timed.device.count);
  row["gflops"] = flops / ns;
  row["gbytes_per_s"] = bytes / ns;
  if (timed.kind == IRONCL_TIME_MEASURED && copy_bytes_per_second > 0)
    row["of_copy_ceiling"] = bytes / ns * 1e9 / copy_bytes_per_second;
}

void add_launches(BenchRow& row, const Device& device, const std::function<layer::Timing()>& run) {
  const auto so_far = [&] {
    return tuning::answer_of(device, "launches",
                             [](const boost::json::value& count) { return count.to_number<std::int64_t>(); });
  };
  const auto before = so_far();
  if (!before) return;
  run();
  row["launches"] = *so_far() - *before;
}

const BenchColumns kChainColumns = {
    "device m layers products launches form variants verdict layer_ns spread enqueue_ns gbytes_per_s of_copy_ceiling "
    "max_error_over_bound runs why",
    "m layers products launches form verdict layer_ns spread enqueue_ns gbytes_per_s of_copy_ceiling "
    "max_error_over_bound variants"};

void bench_chain(const Device& device, const std::vector<MeasuredLayer>& products, std::int64_t rows,
                 std::size_t layers, const BenchSettings& settings, BenchTable& table) {
  table.attempt({{"device", device.uri()}, {"m", rows}}, [&](BenchRow& row) {
    std::vector<layer::Execution> calls;
    std::vector<layer::MadeOperands> operands;
    std::vector<report::Problem> problems;
    double bytes = 0;
    for (const MeasuredLayer& product : products) {
      report::Problem& problem = problems.emplace_back(product.problem);
      problem.m = rows;
      operands.push_back(layer::make_operands(problem, settings.seed + calls.size()));
      calls.emplace_back(device, problem, operands.back(), layer::ExecutionSettings{.copies = layers});
      bytes += tuning::least_bytes_of(problem);
    }
    const auto variant = [](const layer::Execution& call) { return std::string(call.plan().info().variant); };
    row["variants"] = fmt::format("{}", fmt::join(words::each(calls, variant), ", "));
    Chain chain(device, layers, [&](SequenceDesc& into) {
      for (layer::Execution& call : calls) call.record(into);
    });
    layer::Check worst;
    worst.pass = true;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      layer::Check check =
          calls[i].check(layer::expect(problems[i], operands[i], settings.check_rows), [&] { return chain.run(); });
      if (!check.pass) check.why = fmt::format("{}: {}", report::to_line(problems[i]), check.why);
      const double error = check.comparison.max_error_over_bound;
      if (worst.pass && (!check.pass || error > worst.comparison.max_error_over_bound)) worst = std::move(check);
    }
    add_check(row, worst);
    time_chain(device, chain, layers, bytes, settings, row);
    row["products"] = static_cast<std::int64_t>(products.size());
  });
}

void bench_mlp(const Device& device, const MeasuredLayer& gate_up, const MeasuredLayer& then, std::int64_t rows,
               std::size_t layers, const BenchSettings& settings, BenchTable& table) {
  const BenchRow begin = {{"device", device.uri()}, {"m", rows}, {"form", "two products"}, {"products", 2}};
  table.attempt(begin, [&](BenchRow& row) {
    report::Problem both = gate_up.problem, down = then.problem;
    both.m = down.m = rows;
    both.n /= 2;
    both.activation = numerics::Activation::silu;
    const bool codes =
        layer::hands_on_codes(&device, rows, static_cast<double>(rows), gate_up.problem.weakest_accuracy);
    both.d = codes ? down.a : numerics::DType::f32;
    if (codes) both.d_scale = {numerics::DType::f32, {1, down.a_scale.grid.group_cols}};
    down.a_source = codes ? numerics::DType::none : numerics::DType::f32;
    const layer::MadeOperands of_both = layer::make_operands(both, settings.seed),
                              of_down = layer::make_operands(down, settings.seed + 1);
    layer::Runner runner(device, layer::graph_of(both, down), rows);
    for (std::size_t copy = 0; copy < layers; ++copy) {
      runner.prepare(0, of_both.b, of_both.b_scale);
      runner.prepare(1, of_down.b, of_down.b_scale);
    }
    const std::vector<layer::Brought> brought = {{"x", of_both.a}};
    layer::Oracle oracle(
        [&](const layer::ProductOp& op, std::int64_t) {
          const layer::MadeOperands& of = op.matrix == layer::Projection::down ? of_down : of_both;
          return layer::StackedMatrices{op.problem.b_rows(), op.problem.k, of.b, of.b_scale};
        },
        rows, brought);
    layer::Execution call(device, runner, rows, brought);
    const std::vector<layer::PlanInfo> plans = runner.plans();
    row["variants"] = plans[0].variant + ", " + plans[1].variant;
    Chain chain(device, layers, [&](SequenceDesc& into) { call.record(into); });
    add_check(row, call.check(layer::expect(std::move(oracle), runner.graph(), settings.check_rows),
                              [&] { return chain.run(); }));
    time_chain(device, chain, layers, tuning::least_bytes_of(both) + tuning::least_bytes_of(down), settings, row);
  });
}

}  // namespace ironcl::cli
