// SPDX-License-Identifier: Apache-2.0
// The tile instructions of x86 (AMX): whether the CPU says that it has them, and the system's leave to use them.
#pragma once

#include <string>

namespace ironcl::opencl {

/// Why no trial of tile instructions is worth while on this processor; empty where one is: CPUID names the tiles,
/// their bf16 and their int8 products, and the system keeps their state. Asks for nothing and changes nothing.
std::string why_no_tiles();

/// Asks Linux to let this process use tiles (ARCH_REQ_XCOMP_PERM), for all of its threads, once granted for good.
/// Empty where that was granted; else why not. A process that has it gets larger signal frames, and the system
/// refuses to give its threads signal stacks that are too small for them: nothing asks before a trial elsewhere went
/// well.
std::string ask_for_tiles();

/// Maker, family, model and stepping of the processor, and what it says of tiles: what an answer about it depends on.
std::string processor_identity();

}  // namespace ironcl::opencl
