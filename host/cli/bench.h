// SPDX-License-Identifier: Apache-2.0
// What the forms of `ironcl bench` share: settings, the timing of calls, and a table whose rows are printed as they
// come. Next door: bench_command.cpp (options; single products), bench_experts.cpp.
#pragma once

#include "host/cli/progress_line.h"
#include "host/cli/shape_options.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/layer/execution.h"
#include "host/layer/experts_source.h"
#include "host/ranks/spread.h"
#include "host/report/table.h"
#include "host/tuning/ceilings.h"

namespace ironcl::cli {

struct BenchSettings {
  int runs = 9;                          ///< Timed calls at the least,
  double min_ms = 50, warm_up_ms = 200;  ///< and until that much time is spent; after calls that are not counted.
  std::uint64_t rotate_mib = 256;        ///< Memory through which weights of single products rotate.
  std::int64_t check_rows = 8;
  std::uint64_t seed = 1;
  double copy_bytes_per_second = 0;  ///< Of the device that is measured; 0: not known.
  bool router = false;               ///< Layers of experts choose by their routers, not by given ids.
  double skew = 0;                   ///< Of layers of experts: exponent of Zipf's law for the load; 0: even.
};

struct Timed {
  tuning::Summary device, host;
  std::uint32_t kind = IRONCL_TIME_NONE;  ///< Only measured times are set against a ceiling that was measured.
};

/// Times `run`. `between` comes after the warm-up with an empty slice, then after every 40 ms with their times.
Timed measure(const std::function<layer::Timing()>& run, const BenchSettings& settings,
              const std::function<void(const std::vector<double>& slice, std::uint32_t kind)>& between = {});

/// The keys of a table's columns, separated by blanks; and of those of the running lines, which end with "why".
struct BenchColumns {
  std::string_view keys, shown;
};
extern const BenchColumns kChainColumns, kExpertsColumns, kRanksColumns, kRanksExpertsColumns;

/// A row by the keys of its columns; what it lacks stays empty.
using BenchRow = boost::json::object;

class BenchTable {
 public:
  /// `line` outlives it.
  BenchTable(const BenchColumns& columns, ProgressLine& line);

  void heading() const;
  void add(const BenchRow& row);
  /// Adds the row that `fill` completes, or, where the device refuses or fails, what it says. An emptied row is not
  /// added.
  void attempt(BenchRow row, const std::function<void(BenchRow& row)>& fill);
  bool passed() const noexcept { return passed_; }  ///< No check failed, and no device.
  void say(const std::string& text) const { line_.print(text); }
  const report::Table& table() const noexcept { return table_; }

 private:
  report::Table table_;
  bool passed_ = true;
  std::vector<std::string_view> shown_;
  ProgressLine& line_;
};

/// Adds a check's verdict, errors and number of rows.
void add_check(BenchRow& row, const layer::Check& check);
/// Adds times, and rates of a call that does so many operations and moves so many bytes; the share of the device's
/// copy rate where that is known.
void add_times(BenchRow& row, const Timed& timed, double flops, double bytes, double copy_bytes_per_second);

/// Adds how many kernels one more call of `run` launches, where the device's plugin counts them.
void add_launches(BenchRow& row, const Device& device, const std::function<layer::Timing()>& run);

/// The products of `layers` layers, each with a copy of the weights, so that none come from a cache: recorded, and
/// submitted by one call, as a decode step runs them; what that left of each is checked first.
void bench_chain(const Device& device, const std::vector<MeasuredLayer>& products, std::int64_t rows,
                 std::size_t layers, const BenchSettings& settings, BenchTable& table);

/// The gated MLP of gate and up, as one product with the activation, and `down`, for `rows` rows, over `layers`
/// copies of the weights in turns, back to back.
void bench_mlp(const Device& device, const MeasuredLayer& gate_up, const MeasuredLayer& down, std::int64_t rows,
               std::size_t layers, const BenchSettings& settings, BenchTable& table);

/// Bytes of codes and scales of an expert's three matrices.
std::uint64_t expert_bytes(const layer::ExpertsForm& form, const layer::GatedForm& expert);
/// Operations of a call, two per multiply-add, without the router's.
double flops_of(const layer::ExpertsForm& form, std::int64_t tokens);

/// A layer of experts with so many tokens, which are others in each of a few calls, so that weights come from memory.
void bench_experts(const Device& device, const layer::ExpertsSource& source, const layer::ExpertsChoices& choices,
                   const BenchSettings& settings, BenchTable& table);

/// A layer over ranks in each number of chunks, beside itself on `device` alone.
void bench_ranks(ranks::Launch& launch, const Device& device, const MeasuredLayer& of, const std::vector<int>& chunks,
                 const ranks::SpreadSettings& split, const BenchSettings& settings, BenchTable& table);
/// Times a layer of experts, each of whose calls routes as the input says.
void bench_ranks(ranks::Launch& launch, const Device& device, const layer::ExpertsSource& source,
                 const layer::ExpertsChoices& choices, const ranks::SpreadSettings& split,
                 const BenchSettings& settings, BenchTable& table);

}  // namespace ironcl::cli
