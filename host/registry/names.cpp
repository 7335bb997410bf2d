// SPDX-License-Identifier: Apache-2.0
// The names of statuses, reasons, steps and outcomes, as reports and logs print them.
#include "host/include/ironcl/ironcl.h"
#include "host/registry/uri.h"
#include "ironcl_build_id.h"

extern "C" {

const char* ironcl_build_id(void) { return IRONCL_BUILD_ID; }

const char* ironcl_status_name(ironcl_status status) {
  switch (status) {
    case IRONCL_OK:
      return "OK";
    case IRONCL_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case IRONCL_UNSUPPORTED:
      return "UNSUPPORTED";
    case IRONCL_UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case IRONCL_UNAVAILABLE:
      return "UNAVAILABLE";
    case IRONCL_OUT_OF_HOST_MEMORY:
      return "OUT_OF_HOST_MEMORY";
    case IRONCL_OUT_OF_DEVICE_MEMORY:
      return "OUT_OF_DEVICE_MEMORY";
    case IRONCL_BUILD_FAILED:
      return "BUILD_FAILED";
    case IRONCL_DEVICE_LOST:
      return "DEVICE_LOST";
    case IRONCL_TIMEOUT:
      return "TIMEOUT";
    case IRONCL_INCOMPATIBLE:
      return "INCOMPATIBLE";
    case IRONCL_INTERNAL:
      return "INTERNAL";
    default:
      return "UNKNOWN";
  }
}

const char* ironcl_reason_name(uint32_t reason) {
  switch (reason) {
    case IRONCL_REASON_NONE:
      return "none";
    case IRONCL_REASON_DTYPE:
      return "dtype";
    case IRONCL_REASON_SCALE_LAYOUT:
      return "scale_layout";
    case IRONCL_REASON_SHAPE:
      return "shape";
    case IRONCL_REASON_ALIGNMENT:
      return "alignment";
    case IRONCL_REASON_DEVICE_FEATURE:
      return "device_feature";
    case IRONCL_REASON_DEVICE_MEMORY:
      return "device_memory";
    case IRONCL_REASON_ACCURACY:
      return "accuracy";
    case IRONCL_REASON_GROUPING:
      return "grouping";
    case IRONCL_REASON_OPTION:
      return "option";
    case IRONCL_REASON_MODEL_DEVICE:
      return "model_device";
    case IRONCL_REASON_NOT_NAMED:
      return "not_named";
    case IRONCL_REASON_CALL_FAILED:
      return "call_failed";
    default:
      return "unknown";
  }
}

const char* ironcl_device_type_name(uint32_t type) { return ironcl::registry::device_type_name(type); }

const char* ironcl_step_name(uint32_t step) {
  switch (step) {
    case IRONCL_STEP_FOUND:
      return "found";
    case IRONCL_STEP_PREFLIGHT:
      return "preflight";
    case IRONCL_STEP_OPEN:
      return "open";
    case IRONCL_STEP_QUERY:
      return "query";
    case IRONCL_STEP_VERSION:
      return "version";
    case IRONCL_STEP_SANITIZER:
      return "sanitizer";
    case IRONCL_STEP_LOAD:
      return "load";
    case IRONCL_STEP_ENUMERATE:
      return "enumerate";
    case IRONCL_STEP_REGISTER:
      return "register";
    case IRONCL_STEP_SHUTDOWN:
      return "shutdown";
    default:
      return "unknown";
  }
}

const char* ironcl_outcome_name(uint32_t outcome) {
  switch (outcome) {
    case IRONCL_REPORT_TAKEN:
      return "taken";
    case IRONCL_REPORT_REFUSED:
      return "refused";
    case IRONCL_REPORT_SHADOWED:
      return "shadowed";
    case IRONCL_REPORT_DISABLED:
      return "disabled";
    case IRONCL_REPORT_DUPLICATE:
      return "duplicate";
    case IRONCL_REPORT_REMARK:
      return "remark";
    default:
      return "unknown";
  }
}

}  // extern "C"
