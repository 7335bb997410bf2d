// SPDX-License-Identifier: Apache-2.0
// The names of statuses, reasons, steps and outcomes, as reports and logs print them.

#include <cstddef>
#include <cstdint>

#include "host/include/ironcl/ironcl.h"
#include "ironcl_build_id.h"

namespace {

/// The name of a value, of those that begin at `first`.
template <std::size_t N>
const char* name_in(const char* const (&names)[N], std::uint32_t value, std::uint32_t first,
                    const char* missing = "unknown") {
  return value - first < N ? names[value - first] : missing;
}

}  // namespace

extern "C" {

const char* ironcl_build_id(void) { return IRONCL_BUILD_ID; }

const char* ironcl_status_name(ironcl_status status) {
  static constexpr const char* kNames[] = {"OK",
                                           "INVALID_ARGUMENT",
                                           "UNSUPPORTED",
                                           "UNIMPLEMENTED",
                                           "UNAVAILABLE",
                                           "OUT_OF_HOST_MEMORY",
                                           "OUT_OF_DEVICE_MEMORY",
                                           "BUILD_FAILED",
                                           "DEVICE_LOST",
                                           "TIMEOUT",
                                           "INCOMPATIBLE",
                                           "INTERNAL"};
  return name_in(kNames, status, IRONCL_OK, "UNKNOWN");
}

const char* ironcl_reason_name(uint32_t reason) {
  static constexpr const char* kNames[] = {"none",           "dtype",         "scale_layout", "shape",    "alignment",
                                           "device_feature", "device_memory", "accuracy",     "grouping", "option"};
  static constexpr const char* kOfSelection[] = {"model_device", "not_named", "call_failed"};
  return reason < IRONCL_REASON_MODEL_DEVICE ? name_in(kNames, reason, IRONCL_REASON_NONE)
                                             : name_in(kOfSelection, reason, IRONCL_REASON_MODEL_DEVICE);
}

const char* ironcl_device_type_name(uint32_t type) {
  static constexpr const char* kNames[] = {"cpu", "gpu", "accelerator", "model"};
  return name_in(kNames, type, IRONCL_DEVICE_CPU);
}

const char* ironcl_step_name(uint32_t step) {
  static constexpr const char* kNames[] = {"found",     "preflight", "open",      "query",   "version",
                                           "sanitizer", "load",      "enumerate", "register"};
  return name_in(kNames, step, IRONCL_STEP_FOUND);
}

const char* ironcl_outcome_name(uint32_t outcome) {
  static constexpr const char* kNames[] = {"taken", "refused", "shadowed", "disabled", "duplicate", "remark"};
  return name_in(kNames, outcome, IRONCL_REPORT_TAKEN);
}

}  // extern "C"
