// SPDX-License-Identifier: Apache-2.0
#include "host/tuning/ceilings.h"

#include <boost/json.hpp>

namespace ironcl::tuning {
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

double flops_of(const report::Problem& problem) {
  return 2 * static_cast<double>(problem.m) * static_cast<double>(problem.b_rows()) * static_cast<double>(problem.k);
}

double least_bytes_of(const report::Problem& problem) {
  const auto width = [](numerics::DType type) { return numerics::bits_of(type) / 8.0; };
  const double m = static_cast<double>(problem.m), n = static_cast<double>(problem.n),
               k = static_cast<double>(problem.k), rows_of_b = static_cast<double>(problem.b_rows());
  const numerics::DType source = problem.a_source != numerics::DType::none ? problem.a_source : problem.a;
  return m * k * width(source) + rows_of_b * k * width(problem.b) + m * n * width(problem.d);
}

}  // namespace ironcl::tuning
