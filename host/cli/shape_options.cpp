// SPDX-License-Identifier: Apache-2.0
// Shapes, rows and types to measure.
#include "host/cli/shape_options.h"

#include "backends/words.h"
#include "host/cli/parse_option.h"

namespace ironcl::cli {
namespace {

constexpr std::int64_t kLargest = INT32_MAX;

std::int64_t parse_size(const std::string& option, std::string_view text) {
  const auto size = words::number<std::int64_t>(text);
  if (!size || *size < 1 || *size > kLargest) usage("{}: '{}' is not a size from 1 to {}", option, text, kLargest);
  return *size;
}

void add_range(const std::string& option, std::string_view text, std::vector<std::int64_t>& sizes) {
  const auto parts = words::split(text, ':');
  if (parts.size() != 3 || parts[2].empty())
    usage("{}: '{}' is not a range; write FROM:TO:STEP such as 64:256:64, or FROM:TO:*FACTOR such as 1:1024:*2",
          option, text);
  const bool geometric = parts[2].front() == '*';
  const std::int64_t from = parse_size(option, parts[0]), to = parse_size(option, parts[1]);
  const std::int64_t by = parse_size(option, geometric ? parts[2].substr(1) : parts[2]);
  if (geometric && by < 2) usage("{}: '{}': a factor must be at least 2", option, text);
  for (std::int64_t size = from; size <= to; size = geometric ? size * by : size + by) {
    sizes.push_back(size);
    if (sizes.size() > 100000) usage("{}: '{}' has more than 100000 sizes", option, text);
  }
}

/// Appends what is not there yet; layers of one problem are measured once.
void add_once(std::vector<MeasuredLayer>& all, std::string name, const report::Problem& problem) {
  const auto same = [&problem](const MeasuredLayer& other) { return other.problem == problem; };
  if (std::none_of(all.begin(), all.end(), same)) all.push_back({std::move(name), problem});
}

/// Lists of "64", "16:1024:*2" (from, to, factor) and "64:256:64" (from, to, step), both ends included.
std::vector<std::int64_t> parse_sizes(const std::string& option, const std::vector<std::string>& texts) {
  std::vector<std::int64_t> sizes;
  for (const std::string& text : texts)
    for (const std::string_view part : words::split(text, ',')) {
      if (part.find(':') != std::string_view::npos)
        add_range(option, part, sizes);
      else
        sizes.push_back(parse_size(option, part));
    }
  return sizes;
}

}  // namespace

ShapeOptions::ShapeOptions(CLI::App& app, const std::string& of_tokens, std::set<std::int64_t> rows)
    : app_(app), rows_(std::move(rows)) {
  add_value(app, "--shape NxK", shapes_, "weights as NxK, such as 4096x7168; several with commas")->delimiter(',');
  add_value(app, "--n N", n_, "rows of the weight (with --k)")->check(CLI::Range(1, INT32_MAX));
  add_value(app, "--k K", k_, "columns of the weight (with --n)")->check(CLI::Range(1, INT32_MAX));
  add_value(app, "--model NAME|config.json", model_,
            "all layers of a known model or of a config.json:\n" +
                fmt::format("{}", fmt::join(tuning::known_models(), ", ")));
  add_number(app, "--tp-size", tp_size_, above_zero(), "tensor-parallel size of --model");
  add_value(app, "--checkpoint PATH", checkpoint_, "all quantised layers of a checkpoint");
  using Texts = std::vector<std::string>;
  add_parsed<Texts>(app, "--m LIST", rows_, "rows of A: a list, or a range FROM:TO:STEP or FROM:TO:*FACTOR",
                    [](const Texts& texts) {
                      const auto sizes = parse_sizes("--m", texts);
                      return std::set<std::int64_t>(sizes.begin(), sizes.end());
                    });
  add_block(app, "--block", block_, "weight block (default: 128x128; of --checkpoint: its own)");
  add_block(app, "--x-block", x_block_,
            "block of the activations' scales (default: 1 x the width of a weight block)");
  add_dtype(app, "--x-dtype", x_, {DType::bf16, DType::f16, DType::f32, DType::e4m3fn, DType::e5m2, DType::i8},
            "what A comes in: f32, f16, bf16, quantised in the plan; e4m3fn, i8: quantised already");
  add_dtype(app, "--w-dtype", w_, {DType::e4m3fn, DType::e5m2, DType::i8}, "type of the weights: e4m3fn, e5m2, i8");
  add_out_dtype(app, out_);
  add_dtype(app, "--scale-dtype", scale_, {DType::f32, DType::f16, DType::bf16},
            "type of the weights' scales: f32, f16, bf16");
  add_parsed<Texts>(app, "--tokens LIST", tokens_,
                    fmt::format("{} with so many tokens, in place of single\nproducts: a list, or a range as of --m. "
                                "Models: {}",
                                of_tokens, fmt::join(tuning::models_of_experts(), ", ")),
                    [](const Texts& texts) { return parse_sizes("--tokens", texts); });
  app.add_option("--experts", experts_, "with --tokens: number of experts (default: the model's)")
      ->check(CLI::Range(1, 65536));
}

const std::vector<std::int64_t>& ShapeOptions::tokens() const {
  if (tokens_.empty() && experts_ != 0) usage("--experts is about layers of experts: give --tokens");
  return tokens_;
}

bool ShapeOptions::given() const {
  return !shapes_.empty() || !n_.empty() || !k_.empty() || !model_.empty() || !checkpoint_.empty();
}

layer::ExpertsForm ShapeOptions::experts() const {
  refuse_options(app_, "--tokens is about the layers of experts of --model, as they are there; leave {} out",
                 {"--shape", "--n", "--k", "--checkpoint", "--m", "--block", "--x-block", "--x-dtype", "--w-dtype",
                  "--out-dtype", "--scale-dtype"});
  return or_usage("--model", [&] { return tuning::experts_of(model_, tp_size_, experts_); });
}

void ShapeOptions::check_unused(const std::string& why) const {
  refuse_options(
      app_, why + "; leave {} out",
      {"--tp-size", "--m", "--block", "--x-block", "--x-dtype", "--w-dtype", "--out-dtype", "--scale-dtype"});
}

Measured ShapeOptions::layers() const {
  if (given() && model_.empty()) {
    refuse_options(app_, "{} divides the layers of --model; leave it out", {"--tp-size"});
    if (shapes_.empty() && n_.empty())
      refuse_options(app_, "a checkpoint's weights have types of their own; leave {} out",
                     {"--w-dtype", "--scale-dtype"});
  }
  Measured all;
  const auto add = [&](const std::string& name, std::int64_t n, std::int64_t k) {
    add_once(all.layers, name, problem(n, k));
  };
  for (const std::string& shape : shapes_) {
    const auto parts = words::split(shape, 'x');
    if (parts.size() != 2) usage("--shape {}: write NxK, such as 4096x7168", shape);
    add(shape, parse_size("--shape", parts[0]), parse_size("--shape", parts[1]));
  }
  if (n_.size() != k_.size()) usage("--n and --k come in pairs; there are {} and {}", n_.size(), k_.size());
  for (std::size_t i = 0; i < n_.size(); ++i) add(fmt::format("{}x{}", n_[i], k_[i]), n_[i], k_[i]);
  if (!model_.empty()) {
    const bool file = model_.ends_with(".json");
    if (file) all.inputs.emplace_back(model_);
    const auto shapes = or_usage("--model", [&] {
      return tuning::layers_of(file ? tuning::read_model_config(model_) : tuning::known_model(model_), tp_size_);
    });
    for (const tuning::LayerShape& shape : shapes) add(shape.layer, shape.n, shape.k);
  }
  if (!checkpoint_.empty()) {
    Measured more =
        layers_of_checkpoint(checkpoint_, {.block = block_}, "*", {.x = x_, .x_block = x_block_, .out = out_});
    for (MeasuredLayer& layer : more.layers) add_once(all.layers, std::move(layer.name), layer.problem);
    all.left_out = std::move(more.left_out);
    std::ranges::move(more.inputs, std::back_inserter(all.inputs));
  }
  if (all.layers.empty()) usage("nothing to measure: give --shape, --n and --k, --model or --checkpoint");
  return all;
}

report::Problem ShapeOptions::problem(std::int64_t n, std::int64_t k) const {
  const numerics::ScaleGrid block = block_.value_or(numerics::ScaleGrid{128, 128});
  report::Problem problem;
  problem.n = n;
  problem.k = k;
  problem.b = w_;
  problem.a = numerics::is_quantized(x_) ? x_ : w_ == DType::i8 ? DType::i8 : DType::e4m3fn;
  problem.a_source = numerics::is_quantized(x_) ? DType::none : x_;
  problem.d = out_;
  problem.a_scale = {DType::f32, x_block_.value_or(numerics::ScaleGrid{1, block.group_cols})};
  problem.b_scale = {scale_, block};
  return problem;
}

Measured layers_of_checkpoint(const std::filesystem::path& path, const checkpoint::OpenOptions& options,
                              const std::string& glob, layer::ProblemChoices choices) {
  const DType x = std::exchange(choices.x, numerics::is_quantized(choices.x) ? DType::bf16 : choices.x);
  const auto checkpoint = checkpoint::Checkpoint::open(path, options);
  layer::Selection selection = layer::select_layers(checkpoint, glob);
  Measured all{{}, std::move(selection.left_out), checkpoint.sources()};
  for (const checkpoint::LinearLayer* layer : selection.layers) {
    report::Problem problem = layer::describe(*layer, choices);
    if (numerics::is_quantized(x) && problem.a_source != DType::none) {
      problem.a_source = DType::none;
      problem.a = x;
    }
    all.layers.push_back({layer->name, problem});
  }
  return all;
}

}  // namespace ironcl::cli
