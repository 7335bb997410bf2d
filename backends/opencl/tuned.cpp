// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/tuned.h"

#include <boost/regex.hpp>

namespace ironcl::opencl {
namespace {

using backend::GemmDesc;

/// "pthread-skylake-avx512" of "pthread-skylake-avx512-AMD EPYC": PoCL joins its driver, LLVM's name of the CPU,
/// which is in lower case, and the maker's name of it. Empty where a name is not of this form.
std::string pocl_architecture(const std::string& name) {
  static const boost::regex form("((?:pthread|cpu|basic|cpu-minimal)-[a-z0-9][a-z0-9_.-]*?)-(?:[A-Z]|[0-9]+th ).*");
  boost::smatch match;
  try {
    return boost::regex_match(name, match, form) ? match[1].str() : std::string();
  } catch (const std::runtime_error&) {  // It gave up: no name that a driver means.
    return {};
  }
}

/// What is multiplied, without the accuracy class. Both types of fp8 take the same time; a kernel that reads half of
/// the bytes, or twice or four times as many, is tuned by itself.
std::string multiplied(const GemmDesc& desc) {
  if (desc.b == backend::DType::i8) return "int8_w8a8";
  const std::string bits = std::to_string(numerics::bits_of(desc.b));
  const std::string kind = numerics::is_float(desc.b) ? std::string(numerics::name_of(desc.b)) : "fp" + bits;
  return kind + "_w" + bits + (numerics::is_quantized(desc.a) ? "a8" : "a16");
}

/// Whether more than a quarter of the rows that tiles of this height compute is padding.
bool pads_too_much(std::int64_t rows, std::int64_t m) { return m > 0 && 3 * numerics::round_up(m, rows) > 4 * m; }

/// Whether a few rows take a second tile of this height where the rows of the entry took one: each tile reads all
/// weights, which for few rows is most of the time.
bool takes_a_second_tile(std::int64_t rows, std::int64_t entry_m, std::int64_t m) {
  constexpr std::int64_t kFewRows = 32;
  return m <= kFewRows && entry_m <= rows && m > rows;
}

/// Whether an entry of this class, by name, is worth less than the caller allows; so is one of a class that this
/// build does not know. No name is f32: of tables that were made before there were others.
bool is_weaker(const std::string& entry, backend::AccuracyClass weakest) {
  const auto known = numerics::parse_accuracy(entry);
  return known ? *known > weakest : !entry.empty();
}

/// The tuning of a configuration, its missing tunables from the rule of thumb; empty where a name or value is
/// unknown.
std::optional<Tuning> tuning_of(const tuned::Entry& entry, const Variant& variant, const Features& features,
                                const Problem& problem) {
  Tuning tuning = variant.rule_of_thumb(features, problem.priced());
  for (const auto& [name, text] : entry.options) {
    const Tunable* tunable = find_tunable(variant, name);
    const auto value = tunable != nullptr ? value_of(*tunable, text) : std::nullopt;
    if (!value) return std::nullopt;
    tuning[name] = *value;
  }
  return tuning;
}

/// What a CPU's names have behind them for the unit that its fastest kernels use. CPUID alone is not asked: where a
/// driver or the system refuses the unit, the kernels of CPUs without it run.
std::string unit_of(const SelectionContext& selection) {
  const Features& f = selection.features;
  if (f.type != backend::DeviceType::cpu) return "";
  const auto works = [&](const char* name) {
    const Variant* variant = find_variant(name, selection.variants);
    return variant != nullptr && selection.why_not(*variant).empty();
  };
  if (f.amx_why_not.empty() && works("gemm_amx")) return "-amx";
  // Measured, so the rate of an equal is not quite 1.
  if (f.dot_products_why_not.empty() && f.dot_products_of_bf16 > 0.75 && works("gemm_bf16")) return "-bf16";
  return "";
}

}  // namespace

std::shared_ptr<const tuned::Tables> read_tables(const std::vector<TunedTable>& texts, backend::Log* log) {
  const auto tables = std::make_shared<tuned::Tables>();
  const auto warn = [&](const std::string& text) {
    if (log != nullptr) log->write(backend::LogLevel::warn, "opencl: " + text + "; it is skipped");
  };
  for (const TunedTable& table : texts) {
    const auto key = tuned::parse_file_name(table.file_name);
    if (!key) {
      warn("tuned table " + table.file_name + ": not a name of the form " +
           tuned::file_name({4096, 7168, "DEVICE", "fp8_w8a8", 128, 128}) + " or " +
           tuned::file_name({768, 0, "DEVICE", "fp8_w8a8", 128, 128, 128}));
      continue;
    }
    try {
      tables->add(*key, tuned::Table::parse(table.text));
    } catch (const std::invalid_argument& error) {
      warn(table.file_name + ": " + error.what());
    }
  }
  return tables;
}

std::vector<std::string> device_classes(const SelectionContext& selection) {
  const Features& features = selection.features;
  std::vector<std::string> classes;
  const auto add = [&](const std::string& name) {
    const std::string clean = tuned::sanitize(name);
    if (!clean.empty() && std::find(classes.begin(), classes.end(), clean) == classes.end()) classes.push_back(clean);
  };
  // One GPU under two drivers is two devices; PoCL's names of CPUs already say that they are PoCL's.
  const bool pocl_gpu =
      features.type == backend::DeviceType::gpu && features.platform == "Portable Computing Language";
  // A CPU with the unit has the names of one without, and other kernels are its fastest.
  const std::string unit = unit_of(selection);
  add((pocl_gpu ? "pocl-" : "") + features.name + unit);
  if (const std::string architecture = pocl_architecture(features.name); !architecture.empty())
    add(architecture + unit);
  add((pocl_gpu ? "pocl-" : "") + features.vendor + unit);
  add(features.type == backend::DeviceType::cpu   ? "cpu" + unit
      : features.type == backend::DeviceType::gpu ? "gpu"
                                                  : "accelerator");
  return classes;
}

std::string table_dtype(const GemmDesc& desc) {
  if (desc.weakest_accuracy == backend::AccuracyClass::f32) return multiplied(desc);
  return multiplied(desc) + "_" + std::string(numerics::name_of(desc.weakest_accuracy));
}

std::optional<Tuned> find_tuned(const tuned::Tables& tables, const SelectionContext& selection,
                                const Problem& problem) {
  if (tables.empty()) return std::nullopt;
  const bool grouped = problem.selected().grouped();
  const Features& features = selection.features;
  const std::vector<std::string> devices = device_classes(selection);
  const std::string own = table_dtype(problem), plain = multiplied(problem);
  std::vector<std::pair<tuned::Tables::Found, bool>> choices;  // And whether its table is of the problem's own class.
  const auto look_up = [&](const std::string& dtype, std::int64_t group_rows, std::int64_t group_cols) {
    const auto take = [&](std::vector<tuned::Tables::Found> more) {
      for (tuned::Tables::Found& choice : more) choices.emplace_back(std::move(choice), dtype == own);
    };
    if (!grouped) return take(tables.find(devices, problem.m, problem.n, problem.k, dtype, group_rows, group_cols));
    tuned::Tables::Product product{problem.matrices,
                                   problem.k,
                                   true,
                                   problem.n,
                                   problem.k,
                                   problem.expected_rows != 0
                                       ? static_cast<double>(problem.expected_rows)
                                       : tuned::rows_per_active_expert(problem.m, 1, problem.matrices)};
    const auto as = [&](std::int64_t width, bool down) {
      product.width = width;
      product.down = down;
      take(tables.find(devices, product, dtype, group_rows, group_cols));
    };
    if (problem.masked() && problem.expected_rows == 0) return;  // How many rows there will be nobody knows.
    if (!problem.gathers()) as(problem.k, true);
    if (problem.n % 2 == 0) as(problem.n / 2, false);
    as(problem.n, false);
  };
  const numerics::ScaleGrid grid = problem.b_scale.grid.resolved(problem.n, problem.k);
  for (const std::string& dtype : own == plain ? std::vector{own} : std::vector{own, plain}) {
    look_up(dtype, grid.group_rows, grid.group_cols);
    // A kernel sees K groups, not blocks: what is good for blocks of 128 is good for wider ones.
    if (problem.k_group == 128 && (grid.group_rows != 128 || grid.group_cols != 128)) look_up(dtype, 128, 128);
  }
  for (const auto& [found, of_own_class] : choices) {
    const std::int64_t units = found.entry.compute_units, here = features.compute_units;
    if (units != 0 && (units > 2 * here || here > 2 * units)) continue;
    const Variant* variant = find_variant(found.entry.variant, selection.variants);
    if (variant == nullptr || is_weaker(found.entry.accuracy_class, problem.weakest_accuracy)) continue;
    const auto tuning = tuning_of(found.entry, *variant, features, problem);
    if (!tuning || ask(selection, *variant, *tuning, problem)) continue;
    if (found.entry.is_rule_of_thumb) return std::nullopt;
    const std::int64_t rows = variant->tile(*tuning).rows;
    if (!grouped && found.m != problem.m &&
        (pads_too_much(rows, problem.m) || takes_a_second_tile(rows, found.m, problem.m)))
      continue;
    return Tuned{variant, *tuning, found.source, of_own_class};
  }
  return std::nullopt;
}

}  // namespace ironcl::opencl
