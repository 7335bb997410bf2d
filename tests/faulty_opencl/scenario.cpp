// SPDX-License-Identifier: Apache-2.0
#include "tests/faulty_opencl/scenario.h"

#include <dlfcn.h>

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

const ironcl_plugin* open_plugin(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(file + ": " + dlerror());
  const auto query = reinterpret_cast<ironcl_plugin_query_fn>(dlsym(library, IRONCL_PLUGIN_QUERY_SYMBOL));
  if (query == nullptr) throw std::runtime_error(file + ": no plugin of IronCL");
  const ironcl_plugin* const table = query(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
  if (table == nullptr || table->struct_size < sizeof(ironcl_plugin)) throw std::runtime_error(file + ": too old");
  return table;
}

Life live(const ironcl_plugin& plugin, const Problem& problem, const std::string& cache_dir,
          const std::function<void(const char*)>& step, const std::function<void()>& mended) {
  return (problem.name == "steps" ? live_steps : live_product)(plugin, problem, cache_dir, step, mended);
}

}  // namespace ironcl::faulty
