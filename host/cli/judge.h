// SPDX-License-Identifier: Apache-2.0
// What compare finds: one layer on every device against the f64 oracle, against each other, against outputs that
// somebody else computed. Data only; compare_report.h renders it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/numerics/bounds.h"
#include "backends/numerics/oracle.h"
#include "host/checkpoint/matrix.h"
#include "host/cli/activations.h"
#include "host/cli/device_run.h"
#include "host/cli/layer_problem.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/report/problem.h"

namespace ironcl::cli {

/// Whether the averages of a comparison mean anything: elements that are not finite are left out of them, so where
/// such an element is wrong they say nothing.
bool has_averages(const numerics::Comparison& comparison) noexcept;

enum class Verdict {
  pass,         ///< Every element within its bound.
  fail,         ///< An element out of bounds, or operands quantised otherwise than they must be.
  error,        ///< The device failed while it computed.
  unsupported,  ///< The device does not run the problem; nothing was computed.
};

const char* name_of(Verdict verdict) noexcept;

/// Whether the plan's own quantisation of A equals numerics::quantize, bit for bit.
struct Quantization {
  bool equal = true;
  std::string difference;  ///< The first element that differs, in words.
};

/// One device on one layer.
struct DeviceReport {
  std::string uri, name;
  Verdict verdict = Verdict::unsupported;
  std::string reason;  ///< In words: why unsupported, what failed, which element is wrong. Empty on a pass.
  std::optional<DeviceResult> result;              ///< Where it computed.
  std::optional<numerics::Comparison> comparison;  ///< With the oracle.
  std::optional<Quantization> quantization;        ///< Where the plan quantised A.
  std::vector<double> values;                      ///< D in f64, until forget_values().
  numerics::BoundTerms terms;

  /// Frees what only comparing needs: a checkpoint has hundreds of layers.
  void forget_values();
};

/// Two devices on one layer: they may differ by the sum of their bounds.
struct PairReport {
  std::string first, second;  ///< URIs.
  Verdict verdict = Verdict::fail;
  numerics::Comparison comparison;
};

/// A device (or the oracle itself, uri "oracle") against an output that somebody else computed.
struct ExpectReport {
  std::string tensor, uri;
  numerics::DType dtype = numerics::DType::none;
  numerics::AccuracyClass accuracy = numerics::AccuracyClass::f32;  ///< The class in which it was judged.
  Verdict verdict = Verdict::fail;
  numerics::Comparison comparison;
};

/// An output that somebody else computed, of shape [m, n].
struct Expectation {
  std::string tensor;
  numerics::DType dtype = numerics::DType::none;
  std::vector<double> values;
};

struct CaseReport {
  std::string layer;
  report::Problem problem;
  std::string activations;  ///< Where A came from, in words.
  std::optional<std::uint64_t> seed;
  std::int64_t undefined = 0;  ///< Elements for which the oracle itself says NaN.
  std::vector<DeviceReport> devices;
  std::vector<PairReport> pairs;
  std::vector<ExpectReport> expect;

  std::size_t computed() const noexcept;  ///< Devices that ran it.
  bool wrong() const noexcept;            ///< A verdict of fail or error somewhere.
};

/// Reads "FILE:TENSOR" as an output of shape [m, n]. Throws checkpoint::Error.
Expectation load_expectation(const std::string& ref, std::int64_t m, std::int64_t n);

/// Runs the layer on every device and compares everything with everything.
CaseReport judge(const checkpoint::LinearLayer& layer, const Activations& a, numerics::DType out,
                 numerics::AccuracyClass weakest, const std::vector<ironcl::Device>& devices,
                 const std::vector<Expectation>& expectations);

}  // namespace ironcl::cli
