// SPDX-License-Identifier: Apache-2.0
// What all objects of one device share and keep alive.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "backends/opencl/api.h"
#include "backends/opencl/launcher.h"
#include "backends/opencl/probe.h"
#include "backends/opencl/program.h"
#include "backends/opencl/select.h"
#include "backends/tuned/tables.h"

namespace ironcl::opencl {

/// Launches whose work-groups wait for one another: two at a time would have each other's places.
struct Persistent {
  std::mutex mutex;  ///< Guards `launches`.
  Exclusive launches{false};
};

/// Made once per device; constant afterwards but for the last two. Any thread.
struct Context {
  cl::Platform platform;
  cl::Device device;
  cl::Context context;
  Features features;
  cl::Buffer null_buffer;  ///< Bound for absent operands; made with the probes.
  Config config;
  std::unique_ptr<ProgramBuilder> builder;
  std::shared_ptr<const tuned::Tables> tuned;  ///< Null: none.
  std::vector<Variant> variants;               ///< Those of this build, and those of the configuration.
  std::unique_ptr<Trials> trials;              ///< Null: variants that need a trial do not run.
  std::unique_ptr<UsualForms> usual;           ///< Null: selection takes all forms of weights for alike.
  mutable Persistent persistent;
  std::atomic<std::uint64_t> launches = 0;  ///< Kernels that calls have enqueued.

  SelectionContext selection() const { return {features, variants, trials.get(), usual.get()}; }
};

using ContextPtr = std::shared_ptr<Context>;

inline cl::Buffer make_null_buffer(const Context& context) {
  return guarded("a buffer of 256 bytes",
                 [&] { return cl::Buffer(context.context, CL_MEM_READ_WRITE, std::size_t{256}); });
}

}  // namespace ironcl::opencl
