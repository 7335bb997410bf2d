// SPDX-License-Identifier: Apache-2.0
// A checkpoint folder into another: file by file, in stripes of rows, on all processors. Next door: plan.h (what
// becomes of which tensor), codec.h (the numbers, and what was lost).
//
// OUT appears whole, by a rename. Until then OUT.part holds out/ (what is done) and state.json (what was asked for);
// a later run with the same wishes keeps the files that are done.
#pragma once

#include <functional>

#include "host/quantize/codec.h"
#include "host/quantize/plan.h"

namespace ironcl::quantize {

struct Request {
  std::filesystem::path in, out;
  Format format;
  std::vector<std::string> keep = {};
  InputClips clips = {};
  unsigned threads = 0;  ///< 0: as many as processors.
  /// encode() of codec.h, on a device; called from any thread. Empty: the host encodes.
  std::function<void(std::span<const float> x, std::int64_t rows, std::int64_t cols, Encoded out)> encoder = {};
};

/// Told of bytes of the input that are done, of all; from any thread, one call at a time.
using Progress = std::function<void(std::uint64_t done, std::uint64_t all, const std::string& file)>;

struct LayerLoss {
  std::string name;
  Loss loss;
};

/// What is converted, and what a run has found.
struct ConversionFacts {
  Plan plan;
  std::uint64_t input_bytes = 0, output_bytes = 0;  ///< Bytes of all tensors.
  std::vector<std::string> resumed;                 ///< Files of an earlier run that are kept.
  /// What stays behind of the folder and its own folders: files that hold weights of another form, links to folders
  /// and to nothing.
  std::vector<std::string> left_behind;
  /// After run(): weights with a NaN or an infinity, of which whole groups have become NaN.
  std::vector<std::string> spoiled;
};

class Conversion {
 public:
  /// Opens the input and plans. Throws checkpoint::Error: what cannot be read; OUT that is there, or inside of IN.
  explicit Conversion(Request request);
  ~Conversion();

  const ConversionFacts& facts() const noexcept;

  /// Writes OUT. Throws checkpoint::Error: no room on the disk, another wish's OUT.part, another run that is at it, a
  /// file that cannot be written.
  void run(const Progress& progress);

  /// Reads OUT back beside IN: what each weight lost. Throws checkpoint::Error where OUT lacks a tensor, or has other
  /// bytes of one that was to stay.
  std::vector<LayerLoss> verify(const Progress& progress) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ironcl::quantize
