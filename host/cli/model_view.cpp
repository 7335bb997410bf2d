// SPDX-License-Identifier: Apache-2.0
// Text from the JSON of the Ironwood model.
#include "host/cli/model.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <vector>

#include "host/report/table.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

namespace json = boost::json;

double number(const json::value& value) { return value.to_number<double>(); }
std::int64_t whole(const json::value& value) { return value.to_number<std::int64_t>(); }
std::string time_text(const json::value& microseconds) { return report::human_time(number(microseconds) * 1e3); }
std::string bytes_text(const json::value& bytes) { return report::human_bytes(number(bytes)); }

std::string text_of(const json::value& value) {
  if (value.is_null()) return "none";
  return value.is_string() ? std::string(value.as_string()) : json::serialize(value);
}

std::string list_text(const json::value& values) {
  std::vector<std::string> texts;
  for (const json::value& value : values.as_array()) texts.push_back(text_of(value));
  return fmt::format("{}", fmt::join(texts, ","));
}

std::string fits_text(const json::object& against, const char* name, const char* words) {
  const json::object& limit = against.at(name).as_object();
  return fmt::format("{} {} {}", words, bytes_text(limit.at("limit_bytes")),
                     limit.at("footprint").as_bool() ? "fits" : "does not fit");
}

}  // namespace

std::string model_text(const json::object& r) {
  const json::object& problem = r.at("problem").as_object();
  const json::object& busy = r.at("busy_us").as_object();
  const json::object& vmem = r.at("vmem").as_object();
  const json::object& fetches = r.at("fetches").as_object();
  const json::object& assume = r.at("assumptions").as_object();
  std::string text = fmt::format(
      "{}, one TensorCore. Every time here is modelled, none is measured.\n\n"
      "problem    m={} n={} k={}, x {}{} ({}), w {} ({}), out {}\n"
      "kernel     {}, blocks {} from {}, {} mode, {} program, {} buffer{}, save_x_q {}, save_acc {}\n"
      "grid       {} = {} steps\n"
      "fetches    x {}, w {}, x_scale {}, w_scale {}; stores {}; {} of HBM traffic\n",
      text_of(r.at("tpu_name")), whole(problem.at("m")), whole(problem.at("n")), whole(problem.at("k")),
      text_of(problem.at("x_dtype")), problem.at("quantize_activations").as_bool() ? " quantised in the kernel" : "",
      text_of(problem.at("x_block")), text_of(problem.at("w_dtype")), text_of(problem.at("w_block")),
      text_of(problem.at("out_dtype")), text_of(problem.at("kernel")), list_text(r.at("kernel_blocks")),
      text_of(r.at("blocks_from")), text_of(r.at("mode")), text_of(r.at("program")), whole(r.at("buffers")),
      whole(r.at("buffers")) == 1 ? "" : "s", r.at("save_x_q").as_bool() ? "on" : "off",
      r.at("save_acc").as_bool() ? "on" : "off", list_text(r.at("grid")), whole(r.at("steps")),
      whole(fetches.at("x")), whole(fetches.at("w")), whole(fetches.at("x_scale")), whole(fetches.at("w_scale")),
      whole(r.at("writes").as_object().at("out")), bytes_text(r.at("hbm_bytes")));
  text += fmt::format(
      "time       {} ({} bound), {:.1f} % of the MXU's peak\n"
      "floors     MXU at its peak {}, HBM at its peak {}\n"
      "busy       MXU {}, vector unit {}, HBM {}\n",
      time_text(r.at("time_us")), text_of(r.at("bound")), 100 * number(r.at("mxu_utilisation")),
      time_text(r.at("compute_us")), time_text(r.at("hbm_us")), time_text(busy.at("mxu")), time_text(busy.at("vpu")),
      time_text(busy.at("hbm")));
  const json::object& against = vmem.at("against").as_object();
  text += fmt::format(
      "VMEM       {} true footprint, {} by the published formula, limit {}\n"
      "           {}; {}; {}\n"
      "assumed    launch {}, MXU efficiency {}, HBM efficiency {}, DMA latency {} ns, step overhead {} ns,\n"
      "           clock {:.2f} GHz, vector unit {:.2f} Tera-operations/s\n",
      bytes_text(vmem.at("footprint_bytes")), bytes_text(vmem.at("formula_bytes")),
      bytes_text(vmem.at("limit_bytes")), fits_text(against, "physical", "physical"),
      fits_text(against, "upstream_cap", "upstream's cap"),
      fits_text(against, "default_scoped", "default scoped limit"),
      report::human_time(number(assume.at("launch_ns"))), number(assume.at("mxu_efficiency")),
      number(assume.at("hbm_efficiency")), number(assume.at("dma_latency_ns")), number(assume.at("step_overhead_ns")),
      number(assume.at("clock_hz")) * 1e-9, number(assume.at("vpu_ops_per_s")) * 1e-12);
  for (const json::value& note : r.at("notes").as_array()) text += fmt::format("note       {}\n", text_of(note));
  return text;
}

std::string search_text(const json::object& r) {
  using report::Kind;
  report::Table table({{"kernel_blocks", "blocks B,O,I", Kind::text},
                       {"footprint_bytes", "VMEM", Kind::bytes},
                       {"time_ns", "modelled time", Kind::time},
                       {"note", "", Kind::text}});
  const auto add = [&](const json::object& row, const std::string& note) {
    table.add({list_text(row.at("kernel_blocks")), number(row.at("footprint_bytes")), number(row.at("time_us")) * 1e3,
               note});
  };
  const json::array& frontier = r.at("frontier").as_array();
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    add(frontier[i].as_object(), i + 1 == frontier.size() ? "best" : "");
  }
  std::string text =
      fmt::format("{} candidates fit, {} do not; the frontier, no other is both faster and smaller:\n\n",
                  whole(r.at("candidates")), whole(r.at("over_limit")));
  if (const json::value* aligned = r.if_contains("aligned")) {
    add(aligned->as_object(), "aligned, the published fallback");
    text += report::to_text(table, report::terminal_width());
    text += fmt::format("\nbest over aligned: {:.2f} times\n", number(r.at("speedup_over_aligned")));
  } else {
    text += report::to_text(table, report::terminal_width());
  }
  return text;
}

}  // namespace ironcl::cli
