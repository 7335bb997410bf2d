// SPDX-License-Identifier: Apache-2.0
#include "host/tuning/ceilings.h"

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

double flops_of(const report::Problem& problem) { return 2.0 * problem.m * problem.b_rows() * problem.k; }

double least_bytes_of(const report::Problem& problem) {
  const auto width = [](numerics::DType type) { return numerics::bits_of(type) / 8.0; };
  const report::Problem& p = problem;
  const numerics::DType source = p.a_source != numerics::DType::none ? p.a_source : p.a;
  return 1.0 * p.m * p.k * width(source) + 1.0 * p.b_rows() * p.k * width(p.b) + 1.0 * p.m * p.n * width(p.d);
}

}  // namespace ironcl::tuning
