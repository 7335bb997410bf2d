// SPDX-License-Identifier: Apache-2.0
// What the judge is given of a layer, and what judging one call of a device is made of. Private to judge*.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "host/layer/judge.h"
#include "host/layer/oracle.h"

namespace ironcl::layer {

/// A device's report, with the bounds of its own arithmetic.
struct Ran {
  DeviceReport report;
  Bounded want;
};

/// One layer.
struct Subject {
  CaseReport report;  ///< With what names the layer; the rest is found out.
  /// Runs the layer on a device that may be as weak as `report.allowed`. Throws ironcl::Error as the device answers.
  std::function<void(const Device&, Ran&)> run;
  /// What the result may be of somebody who has it in a type, with right sums of a class.
  std::function<Bounded(numerics::DType, numerics::AccuracyClass)> others;
  bool others_may_be_weak = false;  ///< A 16-bit result that is not within class f32 is tried in class tensor14.
  std::function<std::string(const Expectation&)>
      explain;  ///< Why the oracle is not what somebody else has; optional.
};

CaseReport judge(Subject subject, const std::vector<ironcl::Device>& devices, const JudgeSettings& settings);

/// Takes over what a call left and compares it with what it must be; `name` is the result's.
void judge_output(Ran& ran, Output output, Bounded want, const char* name);

/// "D[3,17] is 1.25, expected 1.5: 4.1 times the bound; 12 of 7168 elements are out of bounds", after `where`.
std::string describe(const numerics::Comparison& comparison, const std::string& where, std::size_t elements);

std::vector<double> decoded(numerics::DType type, std::span<const std::byte> bytes);

}  // namespace ironcl::layer
