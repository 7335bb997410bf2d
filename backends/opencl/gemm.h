// SPDX-License-Identifier: Apache-2.0
// The plan: kernels built, scratch laid out; enqueue only sets arguments. Next door: choose.h (which kernel).
#pragma once

#include "backends/opencl/choose.h"
#include "backends/opencl/objects.h"
#include "backends/opencl/pack.h"

namespace ironcl::opencl {

/// Where things lie in the workspace of a plan, in bytes; a size of 0 means that the plan has no such part.
struct Workspace {
  struct Part {
    std::uint64_t at = 0, size = 0;
  };
  Part codes, code_scales;     ///< A quantised by the plan, and its scales; absent where it goes straight into tiles.
  Part packed, packed_scales;  ///< A as the kernel reads it.
  Part scratch;                ///< The variant's own.
  std::uint64_t bytes = 0;
};

class Gemm final : public backend::Gemm {
 public:
  /// Builds every kernel, and launches each once with no rows, so that drivers that compile at the first launch do it
  /// now.
  Gemm(ContextPtr context, const backend::GemmDesc& desc, Choice choice);
  backend::GemmInfo info() const override;
  const backend::GemmDesc& desc() const noexcept override { return desc_; }
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::GemmArgs& args) override;

  Layout layout() const { return choice_.variant->layout(choice_.tuning); }
  /// The size of the workspace of a plan for `desc`, without building it.
  static Workspace lay_out(const backend::GemmDesc& desc, const Choice& choice);

 private:
  struct Memory {
    cl::Buffer buffer;
    std::uint64_t at = 0;  ///< Bytes.
  };
  struct Run;  ///< One call under way.

  void build();
  void warm_up();
  void check(const backend::GemmArgs& args) const;
  Weights& weights_of(const backend::GemmArgs& args) const;
  void quantize(Run& run, const Memory& x, const Memory& codes, std::int64_t ld, std::int64_t fill,
                const Memory& scales);
  void quantize_tiles(Run& run, const Memory& x);
  void pack(Run& run, const Memory& a, std::int64_t lda, const Memory& scales, std::int64_t lds);
  void multiply(Run& run, const Memory& a, std::int64_t lda, const Memory& sa, std::int64_t sa_ld,
                const PackedWeights& b, const Memory& d, const Memory& bias);

  ContextPtr context_;
  backend::GemmDesc desc_;
  Choice choice_;
  Activations form_;
  Workspace layout_;
  std::int64_t k_pad_ = 0;  ///< Of A as the kernel reads it.
  bool packs_ = false;      ///< A goes through pack_a.cl.
  bool quantizes_into_tiles_ =
      false;                    ///< A goes through quantize_tiles.cl; quantize.cl only makes copies for the caller.
  bool streams_tiles_ = false;  ///< Tiles are larger than the caches: stored past them (cl/cache_hints.cl).
  int quantize_lanes_ = 1;
  cl::Kernel quantize_, quantize_tiles_, pack_;
  std::vector<cl::Kernel> passes_;
  cl::Buffer own_workspace_;
  std::shared_ptr<Event> last_;  ///< The last call that used own_workspace_.
  cl::CommandQueue last_queue_;  ///< Its queue, kept alive: no other queue can come to have its address.
};

}  // namespace ironcl::opencl
