// SPDX-License-Identifier: Apache-2.0
// What multiplies narrow types on x86: the tile instructions (AMX), with the system's leave to use them, and the dot
// products on vectors of 512 bits (AVX512-BF16, VNNI). Whether the CPU says that it has them.
#pragma once

#include <string>

#include "backends/opencl/elements.h"
#include "backends/opencl/problem.h"

namespace ironcl::opencl {

/// Why no trial of tile instructions is worth while on this processor; empty where one is: CPUID names the tiles,
/// their bf16 and their int8 products, and the system keeps their state. Asks for nothing and changes nothing.
std::string why_no_tiles();

/// Asks Linux to let this process use tiles (ARCH_REQ_XCOMP_PERM), for all of its threads, once granted for good.
/// Empty where that was granted; else why not. A process that has it gets larger signal frames, and the system
/// refuses to give its threads signal stacks that are too small for them: nothing asks before a trial elsewhere went
/// well.
std::string ask_for_tiles();

/// Why no trial of dot products is worth while on this processor; empty where one is: CPUID names those of bf16 and
/// of bytes and the permutation of bytes that feeds them, and the system keeps the vectors' state.
std::string why_no_dot_products();

/// How many instructions of 512 bits a core does while it does one multiply-add of f32 of that width.
struct DotProductRates {
  double bf16 = 1;   ///< VDPBF16PS: 1 on AMD's Zen 4, a quarter on Intel's Sapphire Rapids, which has tiles for it.
  double bytes = 1;  ///< VPDPBUSD.
};

/// Measured the first time it is asked, in some tens of microseconds. Only where why_no_dot_products() is empty.
DotProductRates dot_product_rates();

/// Maker, family, model and stepping of the processor, and what it says of these units: what an answer about it
/// depends on.
std::string processor_identity();

/// Bytes in which these units take an element of A and of B: 2 of a bf16, or 1 where codes of `p` are integers.
std::int64_t bytes_of_element(const Problem& p);

}  // namespace ironcl::opencl
