// SPDX-License-Identifier: Apache-2.0
// IRONCL_CLONES: a function that is compiled for AVX-512 and for AVX2 too; the loader takes what the processor has.
// For loops over floats whose results do not depend on that: no sums of products, which one of them would contract.
#pragma once

// clang has no `flatten` that reaches calls, and a sanitizer is not there yet when the loader chooses.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define IRONCL_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten))
#else
#define IRONCL_CLONES
#endif
