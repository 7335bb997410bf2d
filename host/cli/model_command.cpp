// SPDX-License-Identifier: Apache-2.0
// ironcl model: what the published fp8 kernel would cost on a TPU, by the Ironwood model; block sizes; schedules.

#include <algorithm>
#include <iterator>

#include "backends/words.h"
#include "host/checkpoint/model.h"
#include "host/cli/command.h"
#include "host/cli/device_list.h"
#include "host/cli/model.h"
#include "host/cli/parse_option.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/print.h"
#include "host/report/problem.h"
#include "host/report/table.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

using numerics::ScaleGrid;

/// Options of the command that are options of the backend's plan.
struct PlanOption {
  const char* name;
  const char* key;
  const char* help;
};
constexpr PlanOption kPlanOptions[] = {
    {"--kernel-blocks", "kernel_blocks", "block of a grid step: rows of x, rows of w, depth, as B,O,I"},
    {"--mode", "mode", "how the published kernel blocks: aligned or large"},
    {"--buffers", "buffers", "number of buffers of each input: 1, 2, 3"},
    {"--program", "program", "kernel: pipeline or manual_dma; with --experts gmm_v1, gmm_v2 or fused_moe"},
    {"--save-x-q", "save_x_q", "keep the quantised block of x: on or off"},
    {"--save-acc", "save_acc", "keep the accumulator in VMEM: on or off"},
    {"--vmem-limit", "vmem_limit_mib", "VMEM limit in MiB"},
    {"--vmem-rule", "vmem_rule", "how VMEM is counted: footprint (true bytes) or formula (the published kernel's)"},
    {"--tpu", "tpu", "TPU: 7x, or another row of --machines"},
};

double number(const json::value& value) { return value.to_number<double>(); }
std::int64_t whole(const json::value& value) { return value.to_number<std::int64_t>(); }
std::string time_text(const json::value& microseconds) { return report::human_time(number(microseconds) * 1e3); }

std::string text_of(const json::value& value) {
  if (value.is_null()) return "none";
  if (value.is_double()) return report::exact_number(value.get_double());
  return value.is_string() ? std::string(value.as_string()) : json::serialize(value);
}

std::string list_text(const json::value& values) {
  return fmt::format("{}", fmt::join(words::each(values.as_array(), text_of), ","));
}

/// `text` with the value at each {place:form} of `report`.
std::string filled(std::string_view text, const json::value& report) {
  using Form = std::string (*)(const json::value&);
  static const std::map<std::string_view, Form> kForms = {
      {"", text_of},
      {"us", time_text},
      {"bytes", [](const json::value& v) { return report::human_bytes(number(v)); }},
      {"list", list_text},
      {"ns", [](const json::value& v) { return report::human_time(number(v)); }},
      {"percent", [](const json::value& v) { return fmt::format("{:.1f} %", 100 * number(v)); }},
      {"giga", [](const json::value& v) { return fmt::format("{:.2f}", number(v) * 1e-9); }},
      {"tera", [](const json::value& v) { return fmt::format("{:.2f}", number(v) * 1e-12); }},
      {"on", [](const json::value& v) { return std::string(v.as_bool() ? "on" : "off"); }},
      {"fits", [](const json::value& v) { return std::string(v.as_bool() ? "fits" : "does not fit"); }},
      {"quantised", [](const json::value& v) { return std::string(v.as_bool() ? " quantised in the kernel" : ""); }},
      {"s", [](const json::value& v) { return std::string(whole(v) == 1 ? "" : "s"); }},
  };
  std::string filled;
  while (const auto head = words::take_before(text, "{")) {
    const auto place = words::split(words::take_before(text, "}").value(), ':');
    filled.append(*head).append(
        kForms.at(place.size() == 1 ? "" : place[1])(report.at_pointer(fmt::format("/{}", place[0]))));
  }
  return filled.append(text);
}

constexpr std::string_view kReport =
    "{tpu_name}, one TensorCore. Every time here is modelled, none is measured.\n\n"
    "problem    m={problem/m} n={problem/n} k={problem/k}, x "
    "{problem/x_dtype}{problem/quantize_activations:quantised} ({problem/x_block}), w {problem/w_dtype} "
    "({problem/w_block}), out {problem/out_dtype}\n"
    "kernel     {problem/kernel}, blocks {kernel_blocks:list} from {blocks_from}, {mode} mode, {program} program, "
    "{buffers} buffer{buffers:s}, save_x_q {save_x_q:on}, save_acc {save_acc:on}\n"
    "grid       {grid:list} = {steps} steps\n"
    "fetches    x {fetches/x}, w {fetches/w}, x_scale {fetches/x_scale}, w_scale {fetches/w_scale}; stores "
    "{writes/out}; {hbm_bytes:bytes} of HBM traffic\n"
    "time       {time_us:us} ({bound} bound), {mxu_utilisation:percent} of the MXU's peak\n"
    "floors     MXU at its peak {compute_us:us}, HBM at its peak {hbm_us:us}\n"
    "busy       MXU {busy_us/mxu:us}, vector unit {busy_us/vpu:us}, HBM {busy_us/hbm:us}\n"
    "VMEM       {vmem/footprint_bytes:bytes} true footprint, {vmem/formula_bytes:bytes} by the published formula, "
    "limit {vmem/limit_bytes:bytes}\n"
    "           physical {vmem/against/physical/limit_bytes:bytes} {vmem/against/physical/footprint:fits}; "
    "upstream's cap {vmem/against/upstream_cap/limit_bytes:bytes} {vmem/against/upstream_cap/footprint:fits}; "
    "default scoped limit {vmem/against/default_scoped/limit_bytes:bytes} "
    "{vmem/against/default_scoped/footprint:fits}\n"
    "assumed    launch {assumptions/launch_ns:ns}, MXU efficiency {assumptions/mxu_efficiency}, HBM efficiency "
    "{assumptions/hbm_efficiency}, DMA latency {assumptions/dma_latency_ns} ns, step overhead "
    "{assumptions/step_overhead_ns} ns,\n"
    "           clock {assumptions/clock_hz:giga} GHz, vector unit {assumptions/vpu_ops_per_s:tera} "
    "Tera-operations/s\n";

/// The report of the query "model".
std::string model_text(const json::value& report) {
  std::string text = filled(kReport, report);
  for (const json::value& note : report.at("notes").as_array()) text += fmt::format("note       {}\n", text_of(note));
  return text;
}

/// The report of the query "search".
std::string search_text(const json::object& r) {
  report::Table table;
  const auto add = [&](const json::object& row, const std::string& note) {
    table.add_fields({{{"kernel_blocks", "blocks B,O,I"}, list_text(row.at("kernel_blocks"))},
                      {{"footprint_bytes", "VMEM", Kind::bytes}, row.at("footprint_bytes")},
                      {{"time_ns", "modelled time", Kind::time}, number(row.at("time_us")) * 1e3},
                      {{"note", ""}, note}});
  };
  const json::array& frontier = r.at("frontier").as_array();
  for (const json::value& row : frontier) add(row.as_object(), &row == &frontier.back() ? "best" : "");
  std::string text =
      fmt::format("{} candidates fit, {} do not; the frontier, no other is both faster and smaller:\n\n",
                  whole(r.at("candidates")), whole(r.at("over_limit")));
  const json::value* aligned = r.if_contains("aligned");
  if (aligned != nullptr) add(aligned->as_object(), "aligned, the published fallback");
  text += report::to_text(table, report::terminal_width());
  if (aligned != nullptr)
    text += fmt::format("\nbest over aligned: {:.2f} times\n", number(r.at("speedup_over_aligned")));
  return text;
}

class ModelCommand final : public Command {
 public:
  ModelCommand()
      : Command(
            "model", "Modelled time, VMEM and schedule of the kernel on a TPU; block sizes",
            R"(  ironcl model --m 4096 --n 4096 --k 4096 --block 512                          the blocks of the tuned table
  ironcl model --m 4096 --n 4096 --k 4096 --block 512 --kernel-blocks 512,512,512 --buffers 1
  ironcl model --m 16 --n 7168 --k 2048 --search                               choose blocks, print the frontier
  ironcl model --m 1024 --n 1024 --k 1024 --trace t.json                       open t.json in ui.perfetto.dev
  ironcl model --layers model-fp8/ --m 128                                     every fp8 layer of a checkpoint
  ironcl model --experts 256 --top-k 8 --hidden 7168 --intermediate 2048 --tokens 64     DeepSeek-V3's experts
  ironcl model --m 4096 --n 4096 --k 4096 --w-dtype bf16 --quantize-activations off --kernel-blocks 1024,1024,1024
)") {
    add_option("--m", model_.m, "rows of x (tokens)")->check(CLI::Range(1, 1 << 30));
    add_option("--n", model_.n, "rows of w (output features)")->check(CLI::Range(1, 1 << 30));
    add_option("--k", model_.k, "columns of x and w (input features)")->check(CLI::Range(1, 1 << 30));
    add_block(
        *this, "--block", model_.block,
        "quantisation block of w: 128x128 or 128, 256, 512; 1xall per channel, 1x512 sub-channel\n(default: 128)");
    add_block(*this, "--x-block", model_.x_block,
              "quantisation block of x (default: square as w's, 1xCOLS where w's are rows)");
    add_dtype(*this, "--x-dtype", model_.x,
              {DType::bf16, DType::f32, DType::f16, DType::e4m3fn, DType::e5m2, DType::i8},
              "of x in HBM: bf16, f32, f16; e4m3fn, e5m2, i8: quantised already");
    add_dtype(*this, "--w-dtype", model_.w,
              {DType::e4m3fn, DType::e5m2, DType::i8, DType::e2m1, DType::bf16, DType::f16, DType::f32},
              "type of w: e4m3fn, e5m2, i8; bf16, f16, f32 where x stays unquantised");
    add_out_dtype(*this, model_.out);
    add_parsed(*this, "--quantize-activations on|off|auto", model_.quantize,
               "whether the kernel quantises x (default: off with --experts, else on)",
               [](const std::string& text) -> std::optional<bool> {
                 if (text == "auto") return std::nullopt;
                 if (text != "on" && text != "off") usage("--quantize-activations {}: write on, off or auto", text);
                 return text == "on";
               });
    for (const PlanOption& option : kPlanOptions) add_option(option.name, plan_[option.key], option.help);
    add_key_values(*this, "--assume", assumptions_,
                   "change an assumption, such as hbm_efficiency=0.7 (--machines lists them)");
    add_flag("--search", search_, "choose kernel blocks under the VMEM limit");
    add_value(*this, "--layers PATH", layers_, "model every layer of a checkpoint, with --m rows each");
    add_option("--layer", glob_, "with --layers: layers whose names match, with * and ?")->capture_default_str();
    add_option("--experts", experts_.experts, "number of experts: model a layer of experts by each kernel for it")
        ->check(CLI::Range(1, 65536));
    add_number(*this, "--top-k", experts_.top_k, CLI::Range(1, 64), "with --experts: experts per token");
    add_option("--tokens", experts_.tokens, "with --experts: number of tokens")->check(CLI::Range(1, 1 << 24));
    add_option("--hidden", experts_.hidden, "with --experts: width of x and y")->check(CLI::Range(1, 1 << 24));
    add_option("--intermediate", experts_.intermediate, "with --experts: width of an expert")
        ->check(CLI::Range(1, 1 << 24));
    add_number(*this, "--skew", experts_.skew, CLI::Range(0.0, 10.0),
               "with --experts: exponent of Zipf's law by which tokens choose experts; 0: uniform");
    add_option("--seed", experts_.seed, "with --experts: seed of the random load")->capture_default_str();
    add_value(*this, "--json FILE", json_, "write the report as JSON; - is the standard output");
    add_value(*this, "--trace FILE", trace_, "write the schedule as Chrome trace JSON; - is the standard output");
    add_flag("--machines", machines_, "print the hardware tables and the assumptions, as JSON");
    add_option("--device", device_, "the model's URI")->capture_default_str();
  }

  ExitStatus run() override {
    check_form();
    report::check_outputs({json_, trace_});
    fill_plan();
    const auto registry = ironcl::Registry::discover();
    const ironcl::Device device = find_devices(registry, {device_}).at(0);
    try {
      return run_on(device);
    } catch (const ironcl::Error& error) {
      if (error.status() == IRONCL_INVALID_ARGUMENT) usage("{}", error.what());
      if (error.status() == IRONCL_UNIMPLEMENTED)
        fail(ExitStatus::no_device, "{} is not a model: {}", device.uri(), error.what());
      throw;
    }
  }

 private:
  /// Throws where an option was given that this form of the command would ignore.
  void check_form() const {
    const auto refuse = [this](const char* form, std::initializer_list<const char*> options) {
      refuse_options(*this, fmt::format("{{}} means nothing {}; leave it out", form), options);
    };
    const bool layers = !layers_.empty(), experts = experts_.experts != 0;
    if (machines_)
      for (const CLI::Option* option : get_options())
        if (option->get_name() != "--machines" && option->get_name() != "--json" && option->get_name() != "--device")
          refuse("with --machines", {option->get_name().c_str()});
    if (search_) refuse("with --search", {"--trace"});
    if (!layers) refuse("without --layers", {"--layer"});
    if (!experts)
      refuse("without --experts", {"--top-k", "--tokens", "--hidden", "--intermediate", "--skew", "--seed"});
    if (layers) refuse("with --layers", {"--n", "--k", "--block", "--w-dtype", "--experts", "--trace"});
    if (experts) refuse("with --experts", {"--m", "--n", "--k"});
  }

  void fill_plan() {
    for (const PlanOption& option : kPlanOptions) {
      const bool names_a_question = experts_.experts != 0 && option.key == std::string_view("program");
      if (!plan_[option.key].empty() && !names_a_question) model_.plan.emplace_back(option.key, plan_[option.key]);
    }
    model_.plan.insert(model_.plan.end(), assumptions_.begin(), assumptions_.end());
  }

  ExitStatus run_on(const ironcl::Device& device) {
    if (machines_) {
      deliver(json_.empty() ? "-" : json_, "", json::parse(device.query("machines")));
      return ExitStatus::ok;
    }
    if (!layers_.empty()) return run_layers(device);
    if (experts_.experts != 0) return run_experts(device);
    for (const auto& [size, option] : {std::pair{model_.m, "--m"}, {model_.n, "--n"}, {model_.k, "--k"}}) {
      if (size == 0) usage("{} is missing", option);
    }
    const ironcl::GemmDesc desc = model_problem(model_);
    if (search_) {
      const json::value report = json::parse(device.query("search", desc));
      emit(report, search_text(report.as_object()) + "\n" + model_text(report.at("best")));
      return ExitStatus::ok;
    }
    const json::value report = json::parse(device.query("model", desc));
    emit(report, model_text(report));
    if (!trace_.empty()) report::write_file(trace_, device.query("trace", desc) + "\n");
    return ExitStatus::ok;
  }

  ExitStatus run_layers(const ironcl::Device& device) {
    if (model_.m == 0) usage("--layers needs --m, the tokens of a call");
    report::Table table;
    json::array rows;
    double total = 0;
    Measured found = model_layers(layers_, glob_, model_);
    report::check_outputs({json_}, found.inputs);
    for (const MeasuredLayer& layer : found.layers) {
      json::value model;
      try {
        model = json::parse(device.query(search_ ? "search" : "model", report::to_gemm_desc(layer.problem)));
      } catch (const ironcl::Error& error) {
        if (error.status() != IRONCL_UNSUPPORTED || found.layers.size() == 1) throw;
        found.left_out.push_back({layer.name, error.what()});
        continue;
      }
      if (search_) model = json::value(model.at("best"));
      model.as_object()["layer"] = layer.name;
      total += number(model.at("time_us"));
      table.add_fields({{{"layer", "layer"}, layer.name},
                        {{"n", "N", Kind::integer}, layer.problem.n},
                        {{"k", "K", Kind::integer}, layer.problem.k},
                        {{"kernel_blocks", "blocks"}, list_text(model.at("kernel_blocks"))},
                        {{"steps", "steps", Kind::integer}, model.at("steps")},
                        {{"time_ns", "modelled time", Kind::time}, number(model.at("time_us")) * 1e3},
                        {{"bound", "bound"}, model.at("bound")},
                        {{"hbm_bytes", "HBM traffic", Kind::bytes}, model.at("hbm_bytes")},
                        {{"vmem", "VMEM", Kind::bytes}, model.at("vmem").at("footprint_bytes")}});
      rows.push_back(std::move(model));
    }
    const std::vector<layer::Complaint> complaints = layer::fold(found.left_out);
    if (rows.empty())
      fail(ExitStatus::no_device, "{} models none of them\n{}", device.uri(), layer::to_text(complaints));
    std::string text = fmt::format("{}\n{} layers of {} tokens: {:.1f} us, modelled\n",
                                   report::to_text(table, report::terminal_width()), rows.size(), model_.m, total);
    if (!complaints.empty())
      text += fmt::format("left out: {} layers\n{}", found.left_out.size(), layer::to_text(complaints));
    emit(json::object{{"time_kind", "modelled"},
                      {"m", model_.m},
                      {"time_us", total},
                      {"layers", std::move(rows)},
                      {"left_out", layer::to_json(complaints)}},
         text);
    return ExitStatus::ok;
  }

  ExitStatus run_experts(const ironcl::Device& device) {
    if (search_) usage("--search with --experts: the grouped kernels choose by rules of their own");
    experts_.program = plan_["program"];
    check(experts_);
    ModelOptions model = model_;
    model.quantize = model.quantize.value_or(false);  // as these kernels do with blocks of 128
    const json::object report = model_experts(device, experts_, model);
    emit(report, experts_text(report));
    if (!trace_.empty()) report::write_file(trace_, json::serialize(experts_trace(device, experts_, model)) + "\n");
    return ExitStatus::ok;
  }

  /// Text makes room for a trace on the standard output.
  void emit(const json::value& report, const std::string& text) {
    const bool aside = trace_ == "-" && json_ != "-";
    if (aside) report::print_error_text(text);
    deliver(json_, aside ? "" : text, report);
  }

  ModelOptions model_;
  ExpertOptions experts_;
  std::map<std::string_view, std::string> plan_;  ///< By key of kPlanOptions.
  Options assumptions_;
  std::string layers_, glob_ = "*", json_, trace_, device_ = "ironwood:0";
  bool search_ = false, machines_ = false;
};

}  // namespace

ironcl::GemmDesc model_problem(const ModelOptions& options) {
  report::Problem problem;
  problem.m = options.m, problem.n = options.n, problem.k = options.k;
  problem.b = options.w;
  const ScaleGrid w_grid = *options.block;
  if (!numerics::is_float(problem.b)) problem.b_scale = {DType::f32, w_grid};
  const bool square = w_grid.group_rows == w_grid.group_cols && w_grid.group_rows > 0;
  const bool quantize = options.quantize.value_or(true) && numerics::is_float(options.x);
  problem.a_source = quantize ? options.x : DType::none;
  problem.a = quantize ? DType::e4m3fn : options.x;
  if (quantize || !numerics::is_float(options.x))
    problem.a_scale = {DType::f32, options.x_block.value_or(square ? w_grid : ScaleGrid{1, w_grid.group_cols})};
  problem.d = options.out;
  problem.options = options.plan;
  return report::to_gemm_desc(problem);
}

Measured model_layers(const std::filesystem::path& path, const std::string& glob, const ModelOptions& options) {
  checkpoint::OpenOptions open;
  open.check_values = false;  // only shapes matter here
  Measured found = layers_of_checkpoint(
      path, open, glob, {.m = options.m, .x = options.x, .x_block = options.x_block, .out = options.out});
  for (MeasuredLayer& layer : found.layers) {
    if (!options.quantize.value_or(true)) {
      layer.problem.a_source = DType::none;
      layer.problem.a = numerics::is_float(options.x) ? options.x : DType::bf16;
      layer.problem.a_scale = {};
    }
    layer.problem.options = options.plan;
  }
  return found;
}

std::shared_ptr<Command> make_model_command() { return std::make_shared<ModelCommand>(); }

}  // namespace ironcl::cli
