// SPDX-License-Identifier: Apache-2.0
// Quantisers, and the steps of a layer of experts: route, activate, combine. Next door: abi_run.h.
#include "tests/fuzz/abi_run.h"

namespace ironcl::fuzz {

void Run::create_quantize() {
  if (quantizers_.size() >= kMost) return;
  Claimed<ironcl_quantize_desc> desc;
  desc.claim(in_);
  ironcl_quantize_desc& d = desc.value();
  const bool usual = in_.below(3) != 0;
  d.rows = usual ? kSizes[in_.below(5)] : size();
  d.cols = usual ? kSizes[in_.below(9)] : size();
  if (in_.below(8) == 0) d.x_ld = size();
  if (in_.below(8) == 0) d.code_ld = size();
  d.x_dtype = usual ? 1 + static_cast<std::uint32_t>(in_.below(3)) : type();
  d.code_dtype = usual ? static_cast<ironcl_dtype>(IRONCL_F8_E4M3FN) : type();
  d.scale = scales(usual);
  if (in_.below(16) == 0) d.quantizer.scale_rounding = in_.byte();
  if (in_.below(16) == 0) d.next = chain(in_.below(4) == 0);
  if (d.rows > kSmall || d.cols > kSmall) return;
  make("quantize_create", quantizers_,
       [&](auto* out, auto* e) { return t_.quantize_create(device(), desc.get(), out, e); });
}

void Run::enqueue_quantize() {
  Claimed<ironcl_quantize_args> args;
  args.claim(in_);
  ironcl_quantize_args& a = args.value();
  a.rows = in_.below(8) == 0 ? size() : kSizes[in_.below(6)];
  a.x = span();
  a.codes = span();
  a.scales = span();
  enqueue_with("quantize_enqueue", args, [&](auto* in, auto* event, auto* e) {
    return t_.quantize_enqueue(pick(quantizers_), pick(queues_), in, event, e);
  });
}

void Run::step_of_experts(std::size_t which) {
  switch (which) {
    case 0:
      create_quantize();
      break;
    case 1:
    case 2:
      enqueue_quantize();
      break;
    default:
      t_.quantize_destroy(take(quantizers_));
  }
}

}  // namespace ironcl::fuzz
