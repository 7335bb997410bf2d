// SPDX-License-Identifier: Apache-2.0
#include "host/tuning/ceilings.h"

#include "host/tuning/answer.h"

namespace ironcl::tuning {

Ceilings ceilings_of(const Device& device) {
  const auto read = [](const boost::json::value& answer) -> Ceilings {
    return {answer.at("fma_flops").to_number<double>(), answer.at("copy_bytes_per_s").to_number<double>()};
  };
  return answer_of(device, "ceilings", read).value_or(Ceilings());
}

double fma_flops_now(const Device& device) {
  const auto read = [](const boost::json::value& answer) { return answer.to_number<double>(); };
  return answer_of(device, "fma_flops", read).value_or(0);
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
