// SPDX-License-Identifier: Apache-2.0
// ironcl quantize: a checkpoint folder into a quantised one, into another format, or back.

#include <cmath>
#include <limits>

#include "backends/numerics/casts.h"
#include "host/checkpoint/names.h"
#include "host/cli/command.h"
#include "host/cli/device_list.h"
#include "host/cli/parse_option.h"
#include "host/cli/progress_line.h"
#include "host/quantize/calibration.h"
#include "host/quantize/convert.h"
#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/problem.h"
#include "host/report/table.h"
#include "host/report/units.h"

namespace ironcl::cli {
namespace {

using quantize::Conversion;

/// Codes and scales by a device's quantiser: the bytes of quantize::encode(), of codes of a byte whose scales are
/// those that the device makes, f32 or powers of two. Stripes take turns; any thread.
class DeviceEncoder {
 public:
  DeviceEncoder(const std::string& uri, const quantize::Scheme& scheme)
      : device_(find_devices(registry_, {uri}).at(0)), queue_(device_), scheme_(scheme) {
    const bool stored = scheme.scale == DType::f32 || scheme.scale == DType::e8m0;
    if (numerics::bits_of(scheme.code) != 8 || !stored || scheme.needs_tensor_amax())
      usage(
          "--device: a device makes the codes of schemes block, channel and mxfp8 with scales of f32 or e8m0; leave "
          "it out");
  }

  void operator()(std::span<const float> x, std::int64_t rows, std::int64_t cols, quantize::Encoded out) {
    const numerics::ScaleGrid& grid = scheme_.grid;
    std::vector<float> scales(static_cast<std::size_t>(grid.scale_rows(rows) * grid.scale_cols(cols)));
    {
      const std::lock_guard lock(mutex_);
      Stripe& on = stripe(rows, cols, scales.size());
      queue_.write(on.values, std::as_bytes(x));
      queue_.run(on.quantize, {.rows = rows, .x = on.values, .codes = on.codes, .scales = on.scales});
      queue_.read(on.codes, out.codes).wait();
      queue_.read(on.scales, std::span(scales)).wait();
    }
    for (float& scale : scales)  // one NaN of many
      if (std::isnan(scale)) scale = std::numeric_limits<float>::quiet_NaN();
    numerics::encode(scheme_.scale, scales, out.scales.data());
  }

 private:
  /// Plan and buffers that stripes of one shape use in turn.
  struct Stripe {
    Quantize quantize;
    Buffer values, codes, scales;
  };

  Stripe& stripe(std::int64_t rows, std::int64_t cols, std::uint64_t scales) {
    const auto [at, added] = stripes_.try_emplace(std::pair(rows, cols));
    if (!added) return at->second;
    QuantizeDesc desc{.rows = rows,
                      .cols = cols,
                      .x = IRONCL_F32,
                      .code = static_cast<ironcl_dtype>(scheme_.code),
                      .scale = report::to_desc(Scales{DType::f32, scheme_.grid})};
    if (scheme_.scale == DType::e8m0) desc.quantizer.scale_rounding = IRONCL_SCALE_POWER_OF_TWO;
    const auto values = static_cast<std::uint64_t>(rows * cols);
    at->second = {Quantize(device_, desc), Buffer(device_, values * 4), Buffer(device_, values),
                  Buffer(device_, scales * 4)};
    return at->second;
  }

  Registry registry_ = Registry::discover();
  Device device_;
  Queue queue_;
  quantize::Scheme scheme_;
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int64_t>, Stripe> stripes_;
};

class QuantizeCommand final : public Command {
 public:
  QuantizeCommand()
      : Command(
            "quantize", "Quantise a checkpoint, convert it to another format, or back",
            R"(  ironcl quantize model-bf16/ model-fp8/                        blocks of 128x128, as DeepSeek and Qwen publish
  ironcl quantize model-bf16/ model-fp8/ --scheme channel --verify   and what each layer lost
  ironcl quantize model-bf16/ model-nvfp4/ --scheme nvfp4 --keep 're:.*\.layers\.0\.'
  ironcl quantize model-bf16/ model-w8a8/ --scheme tensor --calibration inputs.safetensors --clip percentile
  ironcl quantize model-fp8/ model-bf16/ --scheme none          back
)") {
    add_option("IN", in_, "checkpoint folder, with weights of f32, f16 or bf16, or quantised ones")
        ->option_text(" ")
        ->required();
    add_option("OUT", out_, "folder to create; it appears when it is complete")->option_text(" ")->required();
    add_value(*this, "--scheme block|channel|tensor|mxfp8|mxfp4|nvfp4|none", texts_.scheme,
              "which elements share a scale; none: not quantised (default: block)");
    add_block(*this, "--block", texts_.block, "block of scheme block (default: 128x128)");
    add_value(*this, "--type e4m3|e5m2|int8|bf16|f16|f32", texts_.type,
              "type of the codes (default: e4m3; mxfp4, nvfp4: e2m1; none: bf16)");
    add_value(*this, "--scale-type f32|bf16|e8m0", texts_.scale_type,
              "type of the scales (default: f32; MX: e8m0; nvfp4: e4m3)");
    add_value(*this, "--dialect fp8|compressed-tensors|modelopt", texts_.dialect,
              "convention of names and configs in OUT (default: block: fp8; others: compressed-tensors)");
    add_value(*this, "--keep GLOB", keep_,
              "modules to leave unquantised, besides embeddings, norms, routers and heads; may be repeated")
        ->allow_extra_args(false);
    add_value(*this, "--calibration FILE", calibration_,
              "activations by module, for static scales: safetensors, or a folder");
    add_value(*this, "--clip RULE", clip_, "largest activation that counts: amax, mse, percentile:P (default: amax)")
        ->needs("--calibration");
    add_value(*this, "--device URI", device_, "device that quantises, to the same bytes (default: the host)");
    add_option("--threads", threads_, "threads that compute (default: one per processor)")
        ->check(CLI::Range(1, 1024));
    add_flag("--verify", verify_, "read everything back and print what each layer lost");
    add_json_option(*this, json_);
  }

  ExitStatus run() override {
    quantize::Request request{.in = in_, .out = out_, .format = {}, .keep = keep_, .threads = threads_};
    try {
      request.format = make_format(texts_);
      request.format.check_inputs(!calibration_.empty());
      const quantize::ClipRule rule = quantize::parse_clip_rule(clip_);
      if (!calibration_.empty()) request.clips = calibrate(calibration_, rule, request.format.scheme.code);
    } catch (const std::invalid_argument& error) {
      usage("{}", error.what());
    }
    report::check_outputs({json_});
    line_.leave_output(json_ == "-");
    std::optional<DeviceEncoder> encoder;
    if (!device_.empty()) request.encoder = std::ref(encoder.emplace(device_, request.format.scheme));
    Conversion conversion(std::move(request));
    const quantize::ConversionFacts& facts = conversion.facts();
    line_.print(plan_text(facts));
    const double began = seconds();
    conversion.run(progress_of("writing"));
    const double took = seconds() - began;
    line_.say("{}: {} of {}, {} in {} ({}/s of input)\n", out_,
              report::human_bytes(static_cast<double>(facts.output_bytes)),
              report::human_bytes(static_cast<double>(facts.input_bytes)),
              facts.resumed.empty() ? std::string("written")
                                    : fmt::format("{} files were done before, the rest", facts.resumed.size()),
              report::human_time(took * 1e9), report::human_bytes(static_cast<double>(facts.input_bytes) / took));
    if (!facts.spoiled.empty())
      line_.say("{} weights have groups that became NaN, with a NaN or an infinity among their values: {}\n",
                facts.spoiled.size(), checkpoint::list_names(facts.spoiled, 4));
    report::Table losses;
    if (verify_ || facts.plan.converts) losses = lost(conversion);
    if (!losses.empty()) line_.print(report::to_text(losses, report::terminal_width()));
    if (!json_.empty()) report::write_file(json_, report::to_text(json::value(report_of(facts, losses))));
    return ExitStatus::ok;
  }

 private:
  static double seconds() { return report::now_ns() * 1e-9; }

  quantize::Progress progress_of(const char* what) {
    return [this, what, began = seconds()](std::uint64_t done, std::uint64_t all, const std::string& file) {
      const double part = static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(all, 1));
      const double spent = seconds() - began;
      line_.show(part, fmt::format("{} left, {}/s, {} {}",
                                   part > 0 ? report::human_time(spent * (1 - part) / part * 1e9) : "-",
                                   report::human_bytes(static_cast<double>(done) / spent), what, file));
    };
  }

  std::string plan_text(const quantize::ConversionFacts& facts) const {
    const quantize::Plan& plan = facts.plan;
    std::string text = fmt::format("{} weights of {} become {}\n", plan.items(), in_, describe(*plan.format));
    std::map<std::string, std::vector<std::string>> kept;
    for (const quantize::Kept& one : plan.kept) kept[one.why].push_back(one.name);
    for (const auto& [why, names] : kept)
      text += fmt::format("  stays, {}: {}\n", why, checkpoint::list_names(names, 4));
    for (const std::string& entry : plan.unmatched) text += fmt::format("  --keep {} matches no weight\n", entry);
    if (!facts.left_behind.empty())
      text += fmt::format("  not copied, weights of another form or links to no file: {}\n",
                          checkpoint::list_names(facts.left_behind, 4));
    return text;
  }

  report::Table lost(const Conversion& conversion) {
    std::vector<quantize::LayerLoss> layers = conversion.verify(progress_of("reading back"));
    quantize::Loss all;
    for (const quantize::LayerLoss& layer : layers) all.add(layer.loss);
    layers.push_back({"all", all});
    report::Table table;
    for (const auto& [name, loss] : layers)
      table.add_fields({{{"layer", "layer"}, name},
                        {{"snr_db", "SNR dB", Kind::number}, loss.snr_db()},
                        {{"mean_error", "mean error", Kind::number}, loss.mean_error()},
                        {{"largest_error", "largest", Kind::number}, loss.largest_error},
                        {{"zeroed_share", "lost to 0", Kind::number}, loss.zeroed_share()},
                        {{"nonfinite", "not finite", Kind::integer}, loss.nonfinite}});
    return table;
  }

  json::object report_of(const quantize::ConversionFacts& facts, const report::Table& losses) const {
    json::array kept;
    for (const quantize::Kept& one : facts.plan.kept) kept.push_back({{"name", one.name}, {"why", one.why}});
    return {{"in", in_},
            {"out", out_},
            {"format", describe(*facts.plan.format)},
            {"weights", facts.plan.items()},
            {"input_bytes", facts.input_bytes},
            {"output_bytes", facts.output_bytes},
            {"kept", kept},
            {"not_copied", json::value_from(facts.left_behind)},
            {"resumed", json::value_from(facts.resumed)},
            {"not_finite", json::value_from(facts.spoiled)},
            {"layers", report::to_json(losses)}};
  }

  std::string in_, out_, device_, calibration_, clip_ = "amax", json_;
  quantize::FormatTexts texts_{.scheme = "block"};
  std::vector<std::string> keep_;
  unsigned threads_ = 0;
  bool verify_ = false;
  ProgressLine line_;
};

}  // namespace

std::shared_ptr<Command> make_quantize_command() { return std::make_shared<QuantizeCommand>(); }

}  // namespace ironcl::cli
