// SPDX-License-Identifier: Apache-2.0
#include "host/quantize/calibration.h"

#include <cmath>

#include "backends/numerics/casts.h"
#include "backends/words.h"

namespace ironcl::quantize {
namespace {

using checkpoint::Error;
using checkpoint::ErrorKind;

constexpr std::size_t kInfinity = 0x7f80;  ///< Its bits in bf16; NaN is above.
constexpr std::int64_t kPiece = 1 << 20;   ///< Elements read at once.

float value_of(std::size_t bits) { return numerics::decode_bf16(static_cast<std::uint16_t>(bits)); }

std::string module_of(std::string name) {
  const std::size_t input = name.rfind(".input");
  if (input != std::string::npos && (input + 6 == name.size() || name[input + 6] == '.')) name.resize(input);
  return name;
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::filesystem::path> files;
  for (const std::string& name : checkpoint::files_ending(path, ".safetensors")) files.push_back(path / name);
  if (files.empty())
    throw Error(ErrorKind::not_found, path, "", "has no *.safetensors; activations are expected there");
  return files;
}

}  // namespace

ClipRule parse_clip_rule(std::string_view text) {
  if (text == "amax") return {};
  if (text == "mse") return {ClipRule::mse};
  if (text == "percentile") return {ClipRule::percentile};
  if (text.starts_with("percentile:"))
    if (const auto percent = words::number<double>(text.substr(11)); percent && *percent > 0 && *percent <= 100)
      return {ClipRule::percentile, *percent};
  throw std::invalid_argument(
      fmt::format("--clip {}: write amax, mse, or percentile:P with P above 0, up to 100", text));
}

void Magnitudes::add(std::span<const float> x) noexcept {
  for (const float value : x) ++counts_[numerics::encode_bf16(value) & 0x7fffu];
  total_ += static_cast<std::int64_t>(x.size());
}

bool Magnitudes::finite() const noexcept {
  return std::all_of(counts_.begin() + kInfinity, counts_.end(), [](std::int64_t count) { return count == 0; });
}

float Magnitudes::clip(const ClipRule& rule, DType code) const {
  std::size_t top = kInfinity;
  while (top > 0 && counts_[top - 1] == 0) --top;
  if (top <= 1) return 0;
  const float largest = value_of(top - 1);
  if (rule.kind == ClipRule::amax) return largest;
  if (rule.kind == ClipRule::percentile) {
    const double wanted = static_cast<double>(total_) * rule.percent / 100;
    double seen = 0;
    for (std::size_t bits = 0; bits < top; ++bits)
      if ((seen += static_cast<double>(counts_[bits])) >= wanted && bits > 0) return value_of(bits);
    return largest;
  }
  std::vector<float> x;
  std::vector<double> weight;
  for (std::size_t bits = 1; bits < top; ++bits)
    if (counts_[bits] != 0) {
      x.push_back(value_of(bits));
      weight.push_back(static_cast<double>(counts_[bits]));
    }
  std::vector<std::uint8_t> codes(x.size());
  float best = largest;
  double least = HUGE_VAL;
  for (int step = 100; step > 20; --step) {
    const float clip = largest * static_cast<float>(step) / 100;
    const float scale = clip / static_cast<float>(numerics::largest(code));
    numerics::quantize_run(code, x, scale, codes.data());
    double error = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      error += weight[i] * std::pow(numerics::load_as_f64(code, &codes[i], 0) * scale - x[i], 2);
    if (error < least) {
      least = error;
      best = clip;
    }
  }
  return best;
}

InputClips calibrate(const std::filesystem::path& activations, const ClipRule& rule, DType code) {
  std::map<std::string, Magnitudes> modules;
  InputClips clips;
  std::vector<float> values;
  for (const std::filesystem::path& path : files_of(activations)) {
    const auto file = checkpoint::SafetensorsFile::open(path);
    for (const checkpoint::Tensor& tensor : file.tensors()) {
      if (!numerics::is_float(tensor.dtype))
        throw Error(ErrorKind::dtype, tensor, "is {}, expected activations of F32, F16 or BF16", tensor.dtype_name);
      const std::string module = module_of(tensor.name);
      Magnitudes& magnitudes = modules[module];
      clips[module].k = tensor.shape.empty() ? 1 : tensor.shape.back();
      for (std::int64_t at = 0; at < tensor.elements(); at += kPiece) {
        values.resize(static_cast<std::size_t>(std::min(kPiece, tensor.elements() - at)));
        numerics::decode(tensor.dtype, tensor.data.data() + numerics::bytes_of(tensor.dtype, at),
                         std::span<float>(values));
        magnitudes.add(values);
      }
      if (!magnitudes.finite())
        throw Error(ErrorKind::value, tensor, "has a NaN or an infinity; record activations without");
    }
  }
  for (const auto& [name, magnitudes] : modules) {
    const float clip = magnitudes.clip(rule, code);
    if (clip == 0) throw Error(ErrorKind::value, activations, name, "is all zeros and gives no scale");
    clips[name].largest = clip;
  }
  return clips;
}

}  // namespace ironcl::quantize
