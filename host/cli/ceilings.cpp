// SPDX-License-Identifier: Apache-2.0
// What a device says of its ceilings.
#include "host/cli/ceilings.h"

#include <boost/json.hpp>

namespace ironcl::cli {

Ceilings ceilings_of(const Device& device) {
  try {
    const boost::json::value answer = boost::json::parse(device.query("ceilings"));
    return {answer.at("fma_flops").to_number<double>(), answer.at("copy_bytes_per_s").to_number<double>()};
  } catch (const Error&) {
    return {};
  }
}

double fma_flops_now(const Device& device) {
  try {
    return boost::json::parse(device.query("fma_flops")).to_number<double>();
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace ironcl::cli
