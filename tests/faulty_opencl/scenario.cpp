// SPDX-License-Identifier: Apache-2.0
#include "tests/faulty_opencl/scenario.h"

#include <stdexcept>

#include "tests/faulty_opencl/living.h"

namespace ironcl::faulty {

Problem problem_named(const std::string& name) {
  Problem problem;
  problem.name = name;
  if (name == "stream") {
    problem.options = {{"variant", "gemm_stream"}, {"split_k", "2"}};
  } else if (name == "tiled") {
    problem.options = {{"variant", "gemm_tiled"}};
    problem.m = 20;
  } else if (name == "skinny") {
    problem.options = {{"variant", "gemm_skinny"}, {"split_k", "2"}};
  } else if (name == "panel") {
    problem.options = {{"variant", "gemm_panel"}};
    problem.dynamic = false;
  } else if (name == "grouped") {
    problem.options = {{"variant", "gemm_stream"}};
    problem.rows = {7, 0, 12, 1};
    problem.m = 20;
  } else if (name == "amx") {  // Only where the processor has tiles and the driver lets kernels use them.
    problem.options = {{"variant", "gemm_amx"}};
    problem.m = 20;
  } else if (name != "steps") {
    throw std::runtime_error("problem \"" + name +
                             "\": expected stream, tiled, skinny, panel, grouped, amx or steps");
  }
  return problem;
}

Life live(const Surroundings& around, const Problem& problem) {
  return problem.name == "steps" ? live_steps(around) : live_product(around, problem);
}

}  // namespace ironcl::faulty
