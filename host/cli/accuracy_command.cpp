// SPDX-License-Identifier: Apache-2.0
// ironcl accuracy: what ways of quantising cost, side by side, for a checkpoint's layers or random weights.
#include <fnmatch.h>

#include <bit>
#include <cmath>
#include <random>
#include <set>

#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"
#include "backends/words.h"
#include "host/cli/command.h"
#include "host/cli/parse_option.h"
#include "host/layer/synthetic.h"
#include "host/quantize/codec.h"
#include "host/quantize/plan.h"
#include "host/report/file.h"
#include "host/report/table.h"

namespace ironcl::cli {
namespace {

/// Values after going in and out of a scheme.
struct Quantized {
  std::vector<float> values;
  std::size_t code_bytes, scale_bytes;
};

Quantized in_and_out(const quantize::Scheme& scheme, std::span<const float> x, std::int64_t rows, std::int64_t cols) {
  const auto amax = std::bit_cast<float>(numerics::largest_magnitude_bits(x));
  std::vector<std::byte> codes(layer::bytes_of_matrix(scheme.code, rows, cols)),
      scales(layer::bytes_of_matrix(scheme.scale, scheme.grid.scale_rows(rows), scheme.grid.scale_cols(cols)));
  Quantized made{std::vector<float>(x.size()), codes.size(), scales.size() + (scheme.global ? 4 : 0)};
  quantize::encode(scheme, x, rows, cols, amax, {codes, scales});
  quantize::decode(scheme, codes, scales, rows, cols, quantize::global_scale(scheme, amax), made.values);
  return made;
}

/// y [m, rows] of x [m, k] and every step-th row of w.
std::vector<double> product(std::span<const float> w, std::span<const float> x, std::int64_t m, std::int64_t k,
                            std::int64_t rows, std::int64_t step) {
  return numerics::oracle({DType::f32, x.data(), m, k, k}, {DType::f32, w.data(), rows, k, step * k}).value;
}

/// Σ(got - want)^2 / Σwant^2.
double nmse(const std::vector<double>& got, const std::vector<double>& want) {
  double noise = 0, signal = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    noise += (got[i] - want[i]) * (got[i] - want[i]);
    signal += want[i] * want[i];
  }
  return signal == 0 ? 0 : noise / signal;
}

/// Weights quantised so, and activations as they usually go with them: tokens per channel, 1xB to blocks of BxB,
/// groups as wide to groups.
struct Method {
  std::string name;  ///< "e4m3 128x128", "nvfp4"
  quantize::Scheme weights, activations;
};

/// Per tensor, per channel, in groups of 1x128 and in blocks of 32 to 512, of e4m3, e5m2 and int8; powers of two as
/// scales; MX; NVFP4.
std::vector<Method> methods() {
  std::vector<Method> made;
  const auto add = [&made](const std::string& name, DType code, numerics::ScaleGrid grid, DType scale = DType::f32) {
    const numerics::ScaleGrid tokens =
        grid == numerics::ScaleGrid{0, 0} ? grid : numerics::ScaleGrid{1, grid.group_cols};
    made.push_back({name, {code, grid, scale}, {code, tokens, scale}});
  };
  for (const DType code : {DType::e4m3fn, DType::e5m2, DType::i8}) {
    const std::string type = code == DType::e4m3fn ? "e4m3" : code == DType::e5m2 ? "e5m2" : "int8";
    add(type + " per tensor", code, {0, 0});
    add(type + " per channel", code, {1, 0});
    if (code != DType::e5m2) add(type + " 1x128", code, {1, 128});
    for (const std::int64_t block : {512, 256, 128, 64, 32}) {
      if (code == DType::e5m2 && block != 128) continue;
      add(fmt::format("{} {}x{}", type, block, block), code, {block, block});
    }
  }
  add("e4m3 128x128, e8m0", DType::e4m3fn, {128, 128}, DType::e8m0);
  for (const char* name : {"mxfp8", "mxfp4", "nvfp4"}) {
    const quantize::Scheme scheme = quantize::make_format({.scheme = name}).scheme;
    made.push_back({name, scheme, scheme});
  }
  return made;
}

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
              "random weights instead: heavy:NxK (Student's t, outlier columns, rows of many sizes) or normal:NxK")
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

  /// Every method that K allows on w [n, k]. Of the product, a few rows of w, evenly spread, are computed, in f64.
  void add(const std::string& name, std::span<const float> w, std::int64_t n, std::int64_t k,
           const std::string& kind) {
    const std::vector<float> x = made_up(kind, m_, k, seed_ + 1);
    const std::int64_t rows = std::min<std::int64_t>(n, 256);
    const std::int64_t step = rows == 0 ? 1 : n / rows;
    const std::vector<double> want = product(w, x, m_, k, rows, step);
    for (const Method& method : methods()) {
      if (method.weights.code == DType::e2m1 && k % method.weights.grid.group_cols != 0) continue;
      const Quantized weights = in_and_out(method.weights, w, n, k);
      const Quantized activations = in_and_out(method.activations, x, m_, k);
      quantize::Loss loss;
      loss.add(w, weights.values);
      const double output = nmse(product(weights.values, x, m_, k, rows, step), want);
      const double output_both = nmse(product(weights.values, activations.values, m_, k, rows, step), want);
      const double bits =
          8.0 * static_cast<double>(weights.code_bytes + weights.scale_bytes) / static_cast<double>(n * k);
      table_.add_fields({{{"layer", "layer"}, fmt::format("{} [{}, {}]", name, n, k)},
                         {{"method", "weights"}, method.name},
                         {{"snr_db", "SNR dB", Kind::number}, loss.snr_db()},
                         {{"mean_error", "mean error", Kind::number}, loss.mean_error()},
                         {{"largest_error", "largest", Kind::number}, loss.largest_error},
                         {{"zeroed_share", "lost to 0", Kind::number}, loss.zeroed_share()},
                         {{"output_nmse", "D error", Kind::number}, output},
                         {{"output_nmse_both", "with A", Kind::number}, output_both},
                         {{"scale_bytes", "scales", Kind::bytes}, weights.scale_bytes},
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
