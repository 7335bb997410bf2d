// SPDX-License-Identifier: Apache-2.0
// A step of a plan, what it is made from, and the small values that flow from step to step. Next door: steps/ (one
// file each), gemm.h (which steps a plan has; who builds and launches them).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "backends/numerics/checked.h"
#include "backends/opencl/launcher.h"
#include "backends/opencl/probe.h"
#include "backends/opencl/problem.h"
#include "backends/opencl/program.h"
#include "backends/opencl/schedule.h"

namespace ironcl::opencl {

/// What memory an operand of a step lies in; the call says which buffer that is. The counter is the plan's, words
/// that are zero between calls: a kernel that counts in them leaves them so.
enum class Source {
  none,
  a,
  up,  ///< Beside the gates in `a`, of an activation by itself.
  a_scale,
  a_codes,
  a_code_scales,
  a_index,
  d,
  d_scale,
  bias,
  matrix_rows,
  counter,
  workspace
};
inline constexpr std::size_t kSources = 13;

/// A place in memory as the plan knows it: before there are buffers.
struct Place {
  Source source = Source::none;
  std::uint64_t at = 0;  ///< Bytes from where the call's span, or the workspace, begins.
};

/// The workspace of a plan: each step books what it needs before anything is allocated or built. Parts lie one after
/// another, each on a multiple of kAlignment bytes; sums that no number holds throw std::overflow_error.
class Booking {
 public:
  static constexpr std::int64_t kAlignment = 256;  ///< Bytes; whole cache lines, and whole vectors of any device.

  /// Books `bytes`; they lie where the answer says.
  Place book(numerics::Size bytes) {
    const Place place{Source::workspace, total_.bytes()};
    total_ += bytes.padded_to(kAlignment);
    return place;
  }
  std::uint64_t bytes() const noexcept { return total_.bytes(); }
  /// Asks for the plan's counter (Source::counter).
  void ask_for_counter() noexcept { counter_ = true; }
  bool counter() const noexcept { return counter_; }

 private:
  numerics::Size total_;
  bool counter_ = false;
};

/// What the steps of a plan are made from. Features and problem outlive the steps.
struct PlanContext {
  const Features& features;
  const Problem& problem;
  Booking& booking;
  Place scheduled = {};  ///< Schedule of a grouped problem for cl/scheduled.cl, in tiles of `scheduled_rows` rows.
  std::int64_t scheduled_rows = 0;

  /// The most rows that D has.
  numerics::Size rows_of_d() const {
    return problem.masked() ? numerics::Size(problem.matrices) * problem.m : numerics::Size(problem.m);
  }
  /// The most rows that A has in memory.
  numerics::Size rows_in_memory() const { return problem.gathers() ? numerics::Size(problem.a_rows) : rows_of_d(); }
  /// The most rows that A has in tiles of `height` rows.
  numerics::Size rows_in_tiles(std::int64_t height) const {
    if (!problem.grouped()) return numerics::Size(problem.m).padded_to(height);
    return numerics::Size(most_tiles(problem, problem.m, height)) * height;
  }
};

/// A matrix with its scales, as one step leaves it and the next one reads it.
struct Operand {
  Place data, scales;
  backend::DType element = backend::DType::none;  ///< Type of the data, as a kernel loads it.
  std::int64_t ld = 0;                            ///< Elements from row to row; of tiles, of the padded k.
  backend::ScaleDesc scale;                       ///< How its scales lie; dtype none: there are none.
  std::string form = "rows";                      ///< The name of an ActivationForm, or "rows" for plain rows.
  bool in_units_of_weights = false;               ///< Values are multiplied by the unit of the weights' decoding.
  bool gathered = false;                          ///< The problem's rows are found among these through the index.
};

// clang-tidy: opencl.hpp calls the assignment of its objects noexcept, although what it releases may answer an error.
/// Packed weights as a kernel reads them.
struct DeviceWeights {  // NOLINT(bugprone-exception-escape)
  cl::Buffer codes, scales;
};

/// One call under way: what a step may set and launch.
class Call : public Launcher {
 public:
  template <class... Launching>
  explicit Call(std::int64_t m, Launching&&... launching)
      : Launcher(std::forward<Launching>(launching)...), m(m), a_rows(m) {}

  std::int64_t m;       ///< Rows; 0 in a dry call.
  std::int64_t a_rows;  ///< Rows of A in memory: m, unless gathered, or m for each of many matrices.
  const DeviceWeights* weights = nullptr;

  /// The memory that the call brings for a source; unset: none.
  Memory& operator[](Source source) { return memory_[static_cast<std::size_t>(source)]; }
  /// Where a place is; absent(), where the call brings nothing.
  Memory at(const Place& place) const {
    const Memory& from = memory_[static_cast<std::size_t>(place.source)];
    return from.buffer == nullptr ? absent() : Memory{from.buffer, from.at + place.at};
  }
  /// Whether this call brings that memory; every call does in a dry one.
  bool has(Source source) const { return dry() || memory_[static_cast<std::size_t>(source)].buffer != nullptr; }

 private:
  std::array<Memory, kSources> memory_;
};

/// A step books its workspace when it is made, which builds nothing: supports() makes steps and drops them. It is
/// built once, with what is constant of its plan bound to its kernels; a launch sets what the call changes.
class Step {
 public:
  virtual ~Step() = default;
  virtual std::string name() const = 0;
  /// Builds the step's kernels. Steps of a plan are built at the same time, each on a thread.
  virtual void build(ProgramBuilder& builder) = 0;
  virtual void launch(Call& call) = 0;
};

/// A step of one kernel: `constants` binds what is constant of its plan; `run` binds what a call changes, and
/// launches.
class KernelStep final : public Step {
 public:
  using Constants = std::function<void(cl::Kernel&)>;
  using Run = std::function<void(cl::Kernel&, Call&)>;

  /// `file` of cl/, which has `kernel`; `options` of the compiler.
  KernelStep(std::string name, std::string file, std::string kernel, Defines defines, std::string options,
             Constants constants, Run run)
      : name_(std::move(name)),
        file_(std::move(file)),
        kernel_name_(std::move(kernel)),
        defines_(std::move(defines)),
        options_(std::move(options)),
        constants_(std::move(constants)),
        run_(std::move(run)) {}
  std::string name() const override { return name_; }
  void build(ProgramBuilder& builder) override {
    kernel_ = cl::Kernel(builder.build(file_, defines_, options_), kernel_name_.c_str());
    constants_(kernel_);
  }
  void launch(Call& call) override { run_(kernel_, call); }

 private:
  std::string name_, file_, kernel_name_;
  Defines defines_;
  std::string options_;
  Constants constants_;
  Run run_;
  cl::Kernel kernel_;
};

/// A step, and what it leaves behind.
struct StepResult {
  std::unique_ptr<Step> step;
  Operand result;
};

/// The definitions that every kernel of a device has: what probes showed that its compiler and hardware do.
Defines device_defines(const Features& features);

/// Those, and the definitions of cl/quantizer.cl.
Defines quantizer_defines(const Features& features, backend::DType source, backend::DType code,
                          const numerics::Quantizer& quantizer);

/// The compiler's options for cl/quantizer.cl: where the device's division was seen to be exact with one, that one.
std::string quantizer_options(const Features& features);

/// Work-items of a work-group whose work-items take four columns each: those of a scale group of 128.
constexpr std::uint64_t kLanesOfFours = 32;

/// Work-items of a work-group that share a row: the largest power of two up to `most` that the device takes, or one,
/// where vectors are preferred.
std::int64_t lanes_of(const Features& features, std::uint64_t most);

/// An extent of a scale group as a kernel's literal; a group that spans a dimension gets one that nothing reaches.
int reach(std::int64_t extent);

}  // namespace ironcl::opencl
