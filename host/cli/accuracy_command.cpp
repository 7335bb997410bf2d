// SPDX-License-Identifier: Apache-2.0
// ironcl accuracy: what ways of quantising cost, side by side, for a checkpoint's layers or random weights.
#include <fnmatch.h>

#include <cmath>
#include <random>

#include "backends/numerics/casts.h"
#include "backends/words.h"
#include "host/cli/command.h"
#include "host/cli/parse_option.h"
#include "host/layer/synthetic.h"
#include "host/quantize/accuracy.h"
#include "host/quantize/plan.h"
#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/table.h"

namespace ironcl::cli {
namespace {

class AccuracyCommand final : public Command {
 public:
  AccuracyCommand()
      : Command("accuracy", "What ways of quantising cost, side by side",
                R"(  ironcl accuracy model-bf16/                          one layer of each kind
  ironcl accuracy model-bf16/ --layer '*.0.mlp.*' --json accuracy.json
  ironcl accuracy --data heavy:4096x4096               random weights, with outliers as trained models have them
)") {
    auto* path = add_option("PATH", path_, "checkpoint folder, or one safetensors file")->option_text(" ");
    add_value(*this, "--layer GLOB", layer_, "layers by name (default: the first of each kind)");
    add_value(*this, "--data KIND:NxK", data_,
              "random weights instead: heavy:NxK (Student's t, outlier columns, rows of many "
              "sizes) or normal:NxK")
        ->excludes(path);
    add_option("--m", m_, "rows of random activations, heavy-tailed (normal of normal weights) (default: 16)")
        ->check(CLI::Range(1, 4096));
    add_option("--seed", seed_, "seed of the random operands (default: 1)");
    add_json_option(*this, json_);
  }

  ExitStatus run() override {
    report::check_outputs({json_});
    if (path_.empty() == data_.empty()) usage("name a checkpoint, or weights with --data");
    data_.empty() ? measure_layers() : measure_made_up();
    const report::GroupedText text(table_, report::terminal_width());
    deliver(json_, text.heading() + text.rows(table_),
            json::value{{"m", m_}, {"seed", seed_}, {"rows", report::to_json(table_)}});
    return ExitStatus::ok;
  }

 private:
  void measure_made_up() {
    const std::size_t colon = data_.find(':');
    const std::string kind = data_.substr(0, colon);
    const auto sizes = words::split(colon == std::string::npos ? "" : std::string_view(data_).substr(colon + 1), 'x');
    const auto n = words::number<std::int64_t>(sizes.front()), k = words::number<std::int64_t>(sizes.back());
    constexpr std::int64_t most = 1 << 20;
    if (sizes.size() != 2 || !n || !k || *n < 1 || *k < 1 || *n > most || *k > most ||
        *n * *k > (std::int64_t{1} << 32) || (kind != "heavy" && kind != "normal"))
      usage("--data {}: write heavy:NxK or normal:NxK, such as heavy:4096x4096", data_);
    std::vector<float> w = made_up(kind, *n, *k, seed_);
    if (kind == "heavy") {
      // Rows of many sizes: trained matrices have them, and they are why channels are better than tensors.
      std::mt19937_64 random(seed_);
      for (std::int64_t row = 0; row < *n; ++row) {
        const float size = std::exp2(static_cast<float>(random() % 256) / 128 - 1);
        for (std::int64_t col = 0; col < *k; ++col) w[static_cast<std::size_t>(row * *k + col)] *= size;
      }
    }
    add(data_, w, *n, *k, kind);
  }

  static std::vector<float> made_up(const std::string& kind, std::int64_t rows, std::int64_t cols,
                                    std::uint64_t seed) {
    std::vector<float> values(static_cast<std::size_t>(rows * cols));
    if (kind == "heavy") {
      const std::vector<std::uint16_t> bits = layer::heavy_tailed_activations(rows, cols, seed);
      numerics::decode(numerics::DType::bf16, bits.data(), std::span<float>(values));
    } else {
      std::mt19937_64 random(seed);
      std::normal_distribution<float> normal;
      for (float& value : values) value = normal(random);
    }
    return values;
  }

  void measure_layers() {
    const auto checkpoint = checkpoint::Checkpoint::open(path_);
    const quantize::Plan plan = make_plan(checkpoint, quantize::make_format({.scheme = "block"}), {}, {});
    std::set<std::string> kinds;
    for (const quantize::Shard& shard : plan.shards)
      for (const quantize::Item& item : shard.items) {
        const bool wanted = layer_.empty() ? kinds.insert(item.name.substr(item.name.rfind('.') + 1)).second
                                           : fnmatch(layer_.c_str(), item.name.c_str(), 0) == 0;
        if (!wanted) continue;
        const quantize::Weight& weight = item.weight;
        std::vector<float> w(static_cast<std::size_t>(weight.n * weight.k));
        weight.read(0, weight.n, w);
        add(item.name, w, weight.n, weight.k, "heavy");
      }
    if (table_.empty())
      throw checkpoint::Error(checkpoint::ErrorKind::not_found, path_, "", "has no weight that matches '{}'", layer_);
  }

  void add(const std::string& name, std::span<const float> w, std::int64_t n, std::int64_t k,
           const std::string& kind) {
    const std::vector<float> x = made_up(kind, m_, k, seed_ + 1);
    const std::string layer = fmt::format("{} [{}, {}]", name, n, k);
    for (const quantize::Accuracy& one : quantize::measure(w, n, k, x, m_)) {
      const double bits = 8.0 * static_cast<double>(one.code_bytes + one.scale_bytes) / static_cast<double>(n * k);
      table_.add_fields({{{"layer", "layer"}, layer},
                         {{"method", "weights"}, one.method->name},
                         {{"snr_db", "SNR dB", Kind::number}, one.weights.snr_db()},
                         {{"mean_error", "mean error", Kind::number}, one.weights.mean_error()},
                         {{"largest_error", "largest", Kind::number}, one.weights.largest_error},
                         {{"zeroed_share", "lost to 0", Kind::number}, one.weights.zeroed_share()},
                         {{"output_nmse", "D error", Kind::number}, one.output},
                         {{"output_nmse_both", "with A", Kind::number}, one.output_both},
                         {{"scale_bytes", "scales", Kind::bytes}, one.scale_bytes},
                         {{"bits_per_value", "bits", Kind::number}, bits}});
    }
  }

  std::string path_, layer_, data_, json_;
  std::int64_t m_ = 16;
  std::uint64_t seed_ = 1;
  report::Table table_;
};

}  // namespace

std::shared_ptr<Command> make_accuracy_command() { return std::make_shared<AccuracyCommand>(); }

}  // namespace ironcl::cli
