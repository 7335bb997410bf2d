// SPDX-License-Identifier: Apache-2.0
// One layer on several devices: against the f64 oracle, each other, and another program's outputs. Data only.
#pragma once

#include "host/layer/activations.h"
#include "host/layer/execution.h"
#include "host/layer/experts_input.h"
#include "host/layer/oracle.h"

namespace ironcl::layer {

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
  numerics::AccuracyClass allowed = numerics::AccuracyClass::f32;  ///< The weakest that it was asked for.
  bool model = false;  ///< The device is a model: its agreement with the oracle says nothing of a real one.
  Verdict verdict = Verdict::unsupported;
  std::string reason;            ///< Why it is unsupported, what failed, or which element is wrong. Empty on a pass.
  std::optional<Output> result;  ///< Where it computed; without d and quantized, which judge() frees.
  std::optional<numerics::Comparison> comparison;  ///< With the oracle.
  std::optional<Quantization> quantization;        ///< Where the plan quantised A.
  std::vector<double> values;                      ///< D in f64, within judge().

  /// The class that it computed in; f32 where it did not.
  numerics::AccuracyClass accuracy() const noexcept {
    return result ? result->accuracy : numerics::AccuracyClass::f32;
  }
};

/// A device's result among those of a layer.
struct ResultName {
  std::string uri;  ///< "oracle": the oracle itself.
  numerics::AccuracyClass accuracy = numerics::AccuracyClass::f32;

  /// As printed: the URI, and the class where it is not f32.
  std::string text() const;
};
ResultName name_of(const DeviceReport& device);

/// Two devices on one layer: they may differ by the sum of their bounds.
struct PairReport {
  ResultName first, second;
  Verdict verdict = Verdict::fail;
  numerics::Comparison comparison;
};

/// A device (or the oracle itself, uri "oracle") against an output of another program.
struct ExpectReport {
  std::string tensor;
  ResultName result;
  numerics::DType dtype = numerics::DType::none;
  numerics::AccuracyClass accuracy = numerics::AccuracyClass::f32;  ///< The class in which it was judged.
  Verdict verdict = Verdict::fail;
  numerics::Comparison comparison;
  std::string remark;  ///< Explains the difference, where that is possible.
};

struct CaseReport {
  std::string layer;
  std::string heading;      ///< Describes a layer of experts; empty for a single matrix.
  report::Problem problem;  ///< For a layer of experts only its sizes [T, H] and types.
  std::string activations;  ///< Where A came from, in words.
  std::optional<std::uint64_t> seed;
  std::int64_t undefined = 0;  ///< Elements for which the oracle itself says NaN.
  std::vector<DeviceReport> devices;
  std::vector<PairReport> pairs;
  std::vector<ExpectReport> expect;

  std::size_t computed() const noexcept;  ///< Devices that ran it, models too.
  std::size_t compared() const noexcept;  ///< Devices that are no model and ran it.
  bool wrong() const noexcept;            ///< A verdict of fail or error somewhere.
};

/// A substitute's result, in place of one device's.
struct Substituted {
  std::string name;  ///< Printed in place of a device's URI.
  Output output;
  std::vector<PlanInfo> plans;  ///< What the bound depends on, by the operations of the layer's list.
  std::vector<double> a;        ///< A [m, k] as it was quantised, where that is another function than the layer's.
};

/// Runs layers in place of a device: ranks, with a part each (host/ranks). Throws ironcl::Error, as a device does.
class Substitute {
 public:
  virtual ~Substitute() = default;
  virtual Substituted run(const std::string& layer, const report::Problem& problem, const Operands& operands) = 0;
  virtual Substituted run(const ExpertsSource& source, const ExpertsInput& input, const ExpertsChoices& choices) = 0;
};

struct JudgeSettings {
  numerics::DType out = numerics::DType::f32;
  /// The weakest class allowed. With several, devices run for each in turn; what repeats the last is dropped.
  std::vector<numerics::AccuracyClass> weakest_accuracies = {numerics::AccuracyClass::f32};
  std::vector<Expectation> expectations;
  std::function<void(const DeviceReport&)> progress;  ///< After each device; may be empty.
  Substitute* substitute = nullptr;                   ///< Runs in place of the devices, which are one.
};

/// Which value of the last call of a list is wrong first, in words: "expert 3, up: token 5, column 17 is ..."; empty
/// where every one is within its bound. `values` are those of the same input.
std::string first_wrong_value(Execution& call, const Values& values);

/// Runs the layer on every device and compares everything with everything. What a device answers is in its report;
/// throws checkpoint::Error and std::overflow_error for operands only.
CaseReport judge(const checkpoint::LinearLayer& layer, const Activations& a,
                 const std::vector<ironcl::Device>& devices, const JudgeSettings& settings);

/// A layer of experts: all devices are given the same ids and weights, and judged value by value; each one's own
/// routing is judged apart, and experts that no token chose get calls of their own.
CaseReport judge(const ExpertsSource& source, const ExpertsInput& input, const std::vector<ironcl::Device>& devices,
                 const JudgeSettings& settings);

}  // namespace ironcl::layer
