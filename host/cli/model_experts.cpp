// SPDX-License-Identifier: Apache-2.0
// A layer of experts on the Ironwood model.
#include "host/cli/model.h"

#include <limits>

#include "host/cli/command.h"
#include "host/layer/synthetic.h"
#include "host/report/table.h"

namespace ironcl::cli {
namespace {

constexpr const char* kGrouped[] = {"gmm_v1", "gmm_v2"};
constexpr const char* kFirstProduct = "gate_up";  ///< Of a grouped kernel.
constexpr const char* kFused = "fused_moe";

/// One thing to ask the device about.
struct Question {
  std::string program, product;
  ironcl::GemmDesc desc;
};

std::vector<std::int32_t> ids_of(const ExpertOptions& options) {
  return layer::make_ids(options.tokens, options.experts, options.top_k, options.skew, options.seed);
}

std::vector<Question> questions(const ExpertOptions& options, const ModelOptions& model) {
  const std::vector<std::int32_t> ids = ids_of(options);
  std::vector<std::int32_t> counts(static_cast<std::size_t>(options.experts));
  for (const std::int32_t id : ids) ++counts[static_cast<std::size_t>(id)];
  ModelOptions product = model;
  product.m = options.tokens * options.top_k;
  product.n = 2 * options.intermediate, product.k = options.hidden;
  const auto grouped = [&](ironcl::GemmDesc desc) {
    desc.grouping = IRONCL_GROUPING_CONTIGUOUS;
    desc.matrices = static_cast<std::uint32_t>(options.experts);
    return desc;
  };
  ironcl::GemmDesc gate_up = grouped(model_problem(product));
  gate_up.a_rows = options.tokens;
  product.n = options.hidden, product.k = options.intermediate;
  const ironcl::GemmDesc down = grouped(model_problem(product));
  std::vector<Question> all;
  const auto add = [&](const char* program, const char* name, const ironcl::GemmDesc& desc) {
    if (!options.program.empty() && options.program != program) return;
    all.push_back({.program = program, .product = name, .desc = desc});
    auto& with = all.back().desc.options;
    if (program == std::string_view(kFused)) {
      with.emplace_back("ids", fmt::format("{}", fmt::join(ids, ",")));
    } else {
      with.emplace_back("program", program);
      with.emplace_back("matrix_rows", fmt::format("{}", fmt::join(counts, ",")));
    }
  };
  for (const char* program : kGrouped) {
    add(program, kFirstProduct, gate_up);
    add(program, "down", down);
  }
  add(kFused, "", gate_up);
  return all;
}

double number(const json::object& of, const char* key) { return of.at(key).to_number<double>(); }

/// What XLA does around the products of a grouped kernel, by the bytes that it moves at the HBM's published rate and
/// a launch each, both as the report of a product has them: rows gathered, silu(gate) * up, rows summed. bf16
/// throughout.
json::object between(const ExpertOptions& options, const json::object& report) {
  const double hbm_us = number(report, "hbm_us"),
               launch_ns = number(report.at("assumptions").as_object(), "launch_ns");
  const double bytes_per_us = hbm_us > 0 ? number(report, "hbm_bytes") / hbm_us : 1e300;
  const double rows = 1.0 * options.tokens * options.top_k;
  const double gather = 2 * rows * options.hidden * 2;
  const double activate = 3 * rows * options.intermediate * 2;
  const double combine = (rows + options.tokens) * options.hidden * 2;
  const double bytes = gather + activate + combine;
  return {{"hbm_bytes", bytes}, {"time_us", bytes / bytes_per_us + 3 * (launch_ns * 1e-3)}};
}

/// The answer, or why there is none: fused_moe takes fewer layers than the others, and where it was not asked for it
/// is left out.
json::object ask(const ironcl::Device& device, const ExpertOptions& options, const Question& question, bool trace) {
  const bool fused = question.product.empty();
  const char* const key = fused ? (trace ? "fused_trace" : "fused") : (trace ? "trace" : "model");
  try {
    return json::parse(device.query(key, question.desc)).as_object();
  } catch (const ironcl::Error& error) {
    if (error.status() != IRONCL_UNSUPPORTED || !fused || !options.program.empty()) throw;
    return {{"refused", error.what()}};
  }
}

}  // namespace

void check(const ExpertOptions& options) {
  for (const auto& [size, option] : {std::pair{options.tokens, "--tokens"},
                                     {options.hidden, "--hidden"},
                                     {options.intermediate, "--intermediate"}}) {
    if (size == 0) usage("{} is missing: --experts models a whole layer", option);
  }
  if (options.top_k > options.experts) usage("--top-k {} is more than --experts {}", options.top_k, options.experts);
  if (options.tokens > std::numeric_limits<std::int32_t>::max() / options.top_k)
    usage("--tokens {} by --top-k {}: at most 2^31 - 1 rows", options.tokens, options.top_k);
  const bool known = options.program.empty() || options.program == kFused ||
                     std::find(std::begin(kGrouped), std::end(kGrouped), options.program) != std::end(kGrouped);
  if (!known) usage("--program {} with --experts; gmm_v1, gmm_v2 and fused_moe are accepted", options.program);
}

json::object model_experts(const ironcl::Device& device, const ExpertOptions& options, const ModelOptions& model) {
  const std::vector<std::int32_t> ids = ids_of(options);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(options.experts));
  for (const std::int32_t id : ids) ++counts[static_cast<std::size_t>(id)];
  const auto hit = std::count_if(counts.begin(), counts.end(), [](std::int64_t count) { return count > 0; });
  json::array programs;
  for (const Question& question : questions(options, model)) {
    json::object report = ask(device, options, question, false);
    if (report.contains("refused")) {
      programs.push_back({{"program", question.program}, {"refused", report.at("refused")}});
      continue;
    }
    if (question.product.empty()) {
      programs.push_back({{"program", question.program}, {"time_us", report.at("time_us")}, {"layer", report}});
      continue;
    }
    if (question.product == kFirstProduct) {
      json::object gap = between(options, report);
      programs.push_back({{"program", question.program},
                          {"time_us", gap.at("time_us")},
                          {"products", json::array()},
                          {"between", std::move(gap)}});
    }
    json::object& program = programs.back().as_object();
    report["product"] = question.product;
    program["time_us"] = number(program, "time_us") + number(report, "time_us");
    program.at("products").as_array().push_back(std::move(report));
  }
  return {{"time_kind", "modelled"},
          {"experts", options.experts},
          {"experts_hit", hit},
          {"most_rows", *std::max_element(counts.begin(), counts.end())},
          {"top_k", options.top_k},
          {"tokens", options.tokens},
          {"hidden", options.hidden},
          {"intermediate", options.intermediate},
          {"skew", options.skew},
          {"seed", options.seed},
          {"programs", std::move(programs)}};
}

std::string experts_text(const json::object& report) {
  report::Table table({{"program", "kernel", Kind::text},
                       {"product", "product", Kind::text},
                       {"visits", "visits", Kind::integer},
                       {"steps", "steps", Kind::integer},
                       {"weight_bytes", "weights read", Kind::bytes},
                       {"rows_multiplied", "rows of MXU", Kind::integer},
                       {"time_ns", "modelled time", Kind::time},
                       {"bound", "bound", Kind::text},
                       {"mxu_percent", "MXU %", Kind::number}});
  const auto add = [&](const json::value& program, const json::value& product, const json::object& of,
                       const char* visits, const json::object& counts) {
    table.add({program, product, counts.at(visits), of.at("steps"), counts.at("weight_bytes"),
               counts.at("rows_multiplied"), number(of, "time_us") * 1e3, of.at("bound"),
               100 * number(of, "mxu_utilisation")});
  };
  std::string refused;
  for (const json::value& item : report.at("programs").as_array()) {
    const json::object& program = item.as_object();
    const json::value& name = program.at("program");
    if (const json::value* reason = program.if_contains("refused")) {
      refused += fmt::format("{}: {}\n", name.as_string().c_str(), reason->as_string().c_str());
      continue;
    }
    if (const json::value* layer = program.if_contains("layer")) {
      add(name, "layer", layer->as_object(), "experts_visited", layer->as_object());
      continue;
    }
    for (const json::value& product : program.at("products").as_array()) {
      const json::object& of = product.as_object();
      add(name, of.at("product"), of, "visits", of.at("grouped").as_object());
    }
    const json::object& between = program.at("between").as_object();
    table.add(
        {name, "between", nullptr, nullptr, nullptr, nullptr, number(between, "time_us") * 1e3, "memory", nullptr});
    table.add({name, "layer", nullptr, nullptr, nullptr, nullptr, number(program, "time_us") * 1e3, "", nullptr});
  }
  const auto whole = [&](const char* key) { return report.at(key).to_number<std::int64_t>(); };
  return fmt::format(
             "A layer of {} experts, {} per token, hidden {}, intermediate {}; {} tokens, {} rows, skew {} (seed "
             "{}): "
             "{} experts have rows, the most {}.\nEvery time here is modelled, none is measured.\n\n",
             whole("experts"), whole("top_k"), whole("hidden"), whole("intermediate"), whole("tokens"),
             whole("tokens") * whole("top_k"), number(report, "skew"), whole("seed"), whole("experts_hit"),
             whole("most_rows")) +
         report::to_text(table, report::terminal_width()) + refused;
}

json::object experts_trace(const ironcl::Device& device, const ExpertOptions& options, const ModelOptions& model) {
  json::array events;
  json::object other;
  int process = 0;
  for (Question& question : questions(options, model)) {
    question.desc.options.emplace_back("trace_spans", "20000");
    const std::string name = question.program + (question.product.empty() ? std::string() : ", " + question.product);
    json::object trace = ask(device, options, question, true);
    if (trace.contains("refused")) continue;
    for (json::value& event : trace.at("traceEvents").as_array()) {
      event.as_object()["pid"] = process;
      if (event.at("name") == json::value("process_name")) event.at("args").as_object()["name"] = name + ", modelled";
      events.push_back(std::move(event));
    }
    other[name] = std::move(trace.at("otherData"));
    ++process;
  }
  return {{"displayTimeUnit", "ns"}, {"otherData", std::move(other)}, {"traceEvents", std::move(events)}};
}

}  // namespace ironcl::cli
