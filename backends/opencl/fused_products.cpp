// SPDX-License-Identifier: Apache-2.0
// Products of a sequence that follow one another, of few rows, as one launch of cl/fused_products.cl, or, of 17 to
// 64, of cl/fused_products_wgmma.cl: which those are, and the launch. Next door: gemm.cpp, whose calls it stands for.
#include <algorithm>
#include <bit>
#include <optional>

#include "backends/opencl/arguments.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/gemm.h"
#include "backends/opencl/operations.h"
#include "backends/opencl/persistent.h"
#include "backends/opencl/tensor_cores.h"

namespace ironcl::opencl {

using backend::DType;

namespace {

// A warp of few rows has at most 32 K blocks of 128.
constexpr std::int64_t kFewRows = 16, kMostRows = 64;
constexpr std::int64_t kLongestRow = std::int64_t{FUSED_WARPS} * 32 * 128;
constexpr std::int64_t kLocalBytes = std::int64_t{226} * 1024;

struct FusedProduct {
  const Gemm& gemm;
  const backend::GemmArgs& args;

  const Problem& problem() const { return gemm.choice().problem; }
  std::int64_t blocks() const { return problem().k / 128; }
  bool is_few() const { return args.m <= kFewRows; }
  bool fits(const Features& f) const;
  Defines defines(const Features& f) const;
};

/// Whether a kernel computes it: rows that come as they are, in whole K blocks. A caller who asks to see the codes
/// has a call of its own.
bool FusedProduct::fits(const Features& f) const {
  const Problem& p = problem();
  return f.own_local_bytes >= kLocalBytes && f.has_quick_quotients() && args.m > 0 && args.m <= kMostRows &&
         (!is_few() || p.k <= kLongestRow) && p.a_source != DType::none && !args.a_quantized &&
         (p.a == DType::e4m3fn || p.a == DType::e5m2) && p.k_group == 128 && is_row_by_k_block(p.a_scale.grid, p.k) &&
         p.k % 128 == 0 && p.d_later == DType::none &&
         (p.lda * numerics::size_of(p.a_source) | static_cast<std::int64_t>(args.a.offset)) % 16 == 0 &&
         std::max(p.lda, p.ldd) <= kLargestSize && gemm.choice().variant->accuracy == backend::AccuracyClass::f32 &&
         gemm.weight_form()->name() == swizzled_form()->name() && !p.grouped() && !refuse_tensor_cores(f, p) &&
         !refuse_narrow_scales(p);
}

/// All that the kernel is built for but its rows: products whose definitions are the same go together.
Defines FusedProduct::defines(const Features& f) const {
  const Problem& p = problem();
  Defines defines = quantizer_defines(f, p.a_source, p.a, p.a_quantizer);
  defines["FLOOR_BITS"] = std::to_string(std::bit_cast<std::uint32_t>(p.a_quantizer.amax_floor)) + "u";
  defines["QUANTISE"] = "1";
  defines["A_TYPE"] = kernel_number(p.a);
  defines["B_TYPE"] = kernel_number(p.b);
  defines["D_TYPE"] = kernel_number(p.d);
  defines["BIAS_TYPE"] = kernel_number(p.bias);
  const std::int64_t group_cols = p.b_scale.dtype == DType::none ? 0 : p.b_scale.grid.group_cols;
  defines["B_SCALE_COLS"] = std::to_string(reach(group_cols < p.k ? group_cols : 0));
  return defines;
}

class FusedProducts final : public PersistentLaunch {
 public:
  FusedProducts(ContextPtr context, const std::vector<FusedProduct>& products, Defines defines,
                std::vector<backend::RecordedCall> calls)
      : PersistentLaunch(std::move(context), "products one after another", std::move(calls)),
        count_(products.size()) {
    meetings_ = FUSED_MOST_PRODUCTS, tried_ = 1;
    groups_ = context_->features.compute_units;
    items_ = products.front().is_few() ? std::int64_t{32} * (FUSED_WARPS + 1) : FUSED_WGMMA_ITEMS;
    guarded("building products one after another", [&] { build(products, std::move(defines)); });
  }

 private:
  void bind_size(bool nothing, cl_int waits) override {
    bind<FusedProductsArg::count>(kernel_, nothing ? 0 : count_);
    bind<FusedProductsArg::waits>(kernel_, waits);
  }

  void build(const std::vector<FusedProduct>& products, Defines defines) {
    std::int64_t rows = 1, blocks = 0, units = 0;
    std::vector<cl_ulong> words(FUSED_COUNTERS / 2 + FUSED_MOST_PRODUCTS * FUSED_PRODUCT_WORDS);
    const auto pair = [](std::int64_t low, std::int64_t high) { return static_cast<cl_ulong>(low | high << 32); };
    for (std::size_t i = 0; i < products.size(); ++i) {
      const Problem& p = products[i].problem();
      const WeightExtent extent = products[i].gemm.weight_form()->extent(p.n, p.k, 1);
      rows = std::max(rows, products[i].args.m), blocks = std::max(blocks, products[i].blocks());
      cl_ulong* const of_product = &words[FUSED_COUNTERS / 2 + i * FUSED_PRODUCT_WORDS];
      of_product[5] = pair(p.lda, p.ldd);
      of_product[6] = pair(products[i].args.m, p.n);
      of_product[7] = pair(products[i].blocks(), extent.k_pad / 128);
      of_product[8] = static_cast<cl_ulong>(units);
      units += numerics::round_up(p.n, 128) / FUSED_COLUMNS;
    }
    const bool few = products.front().is_few();
    const std::string name = few ? "fused_products" : "fused_products_wgmma";
    const auto tile = few ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows))) : kMostRows;
    if (few) defines["TILE_M"] = std::to_string(tile);
    const cl::Program program = context_->builder->build(name + ".cl", defines, quantizer_options(context_->features),
                                                         few ? kOpenclC : kPtxSm90a);
    kernel_ = cl::Kernel(program, name.c_str());
    // A scale and 128 codes of each K group, twice: as the kernel finds them. Zeros to count parts of tiles, and
    // those.
    const std::int64_t made = tile == 1 ? 0 : numerics::round_up(blocks * tile * (128 + 4), 16);
    words.resize(words.size() + static_cast<std::size_t>(made / 4), ~cl_ulong{0});
    if (!few) words.resize(words.size() + static_cast<std::size_t>(units / 2 + groups_ * FUSED_PART_BYTES / 8));
    workspace_ =
        cl::Buffer(context_->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 8 * words.size(), words.data());
    bind<FusedProductsArg::made_bytes>(kernel_, made);
    bind<FusedProductsArg::workspace>(kernel_, workspace_);
    note_addresses(products, cl::Kernel(program, "note_address"));
  }

  /// Buffers of this driver stay where they are (docs/opencl.md), so that addresses are asked for once.
  void note_addresses(const std::vector<FusedProduct>& products, cl::Kernel kernel) {
    const cl::CommandQueue queue(context_->context, context_->device);
    bind<NoteAddressArg::words>(kernel, workspace_);
    for (std::size_t i = 0; i < products.size(); ++i) {
      const backend::GemmArgs& args = products[i].args;
      const DeviceWeights& weights = static_cast<const Weights&>(*args.weights).in(*products[i].gemm.weight_form());
      std::size_t place = FUSED_COUNTERS / 2 + i * FUSED_PRODUCT_WORDS;
      const auto note = [&](const cl::Buffer& memory, std::uint64_t at) {
        bind_memory<NoteAddressArg::memory>(kernel, {&memory, at}, 1);
        bind<NoteAddressArg::place>(kernel, place++);
        queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(1), cl::NDRange(1));
      };
      note(weights.codes, 0);
      note(weights.scales, 0);
      for (const backend::Span* span : {&args.a, &args.d, &args.bias})
        if (*span) note(own(span->buffer).memory(), span->offset);
    }
    queue.finish();
  }

  std::size_t count_;
};

/// The call as a product that the kernel computes.
std::optional<FusedProduct> product_of(const Features& f, const backend::RecordedCall& call) {
  const auto* recorded = std::get_if<backend::Recorded<backend::GemmArgs>>(&call);
  const auto* gemm = recorded == nullptr ? nullptr : dynamic_cast<const Gemm*>(recorded->operation.get());
  if (gemm == nullptr) return std::nullopt;
  const FusedProduct product{*gemm, recorded->args};
  return product.fits(f) ? std::optional(product) : std::nullopt;
}

}  // namespace

std::string fuse_products(const ContextPtr& context, std::vector<backend::RecordedCall>& calls) {
  const Features& f = context->features;
  std::string variant;
  // Where a context has other devices, a buffer may have to come from one of them, which addresses do not ask for.
  if (!f.ptx_sm_90 || context->context.getInfo<CL_CONTEXT_DEVICES>().size() > 1) return variant;
  for (std::size_t at = 0; at < calls.size(); ++at) {
    std::vector<FusedProduct> products;
    Defines defines;
    for (std::size_t i = at; i < calls.size() && products.size() < FUSED_MOST_PRODUCTS; ++i) {
      const auto product = product_of(f, calls[i]);
      if (!product || (!products.empty() && product->is_few() != products.front().is_few())) break;
      Defines own = product->defines(f);
      if (!products.empty() && own != defines) break;
      defines = std::move(own);
      products.push_back(*product);
    }
    if (products.size() < 2) continue;
    const auto first = calls.begin() + static_cast<std::ptrdiff_t>(at),
               end = first + static_cast<std::ptrdiff_t>(products.size());
    auto fused = std::make_shared<FusedProducts>(context, products, defines, std::vector(first, end));
    if (!guarded("trying products one after another", [&] { return fused->meets(); })) break;
    variant = "fused_products";
    *first = backend::Recorded<backend::SequenceArgs>{std::move(fused), {}};
    calls.erase(first + 1, end);
  }
  return variant;
}

}  // namespace ironcl::opencl
