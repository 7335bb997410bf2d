// SPDX-License-Identifier: Apache-2.0
// The groups of the suite, one function (and mostly one file) each; docs/testing.md says what each is for.
#pragma once

#include "tests/conformance/suite/fills.h"
#include "tests/conformance/suite/rig.h"

namespace ironcl::conformance {

void add_plugin_tests(Suite& suite);    ///< query, load, enumerate, properties, device_query
void add_struct_tests(Suite& suite);    ///< short and long structs, chains, errors, out parameters
void add_argument_tests(Suite& suite);  ///< INVALID_ARGUMENT that names the operand: objects, descriptions, calls
void add_exact_tests(Suite& suite);     ///< threshold 0
void add_random_tests(Suite& suite);    ///< the element bound
void add_code_tests(Suite& suite);      ///< all codes, rounding of outputs, NaN
void add_output_tests(Suite& suite);    ///< quantised D, accuracy classes
void add_grid_tests(Suite& suite);      ///< every scale grid and scale type
void add_ragged_tests(Suite& suite);    ///< sizes, strides, fewer rows than planned
void add_memory_tests(Suite& suite);    ///< guards, transfers
void add_weights_tests(Suite& suite);   ///< export, reuse
void add_repeat_tests(Suite& suite);    ///< the same bits again
void add_async_tests(Suite& suite);     ///< waits, destruction in use, failed dependencies
void add_host_tests(Suite& suite);      ///< lent memory, memory kept, forks
void add_quantize_tests(Suite& suite);  ///< quantisation by itself
void add_dynamic_tests(Suite& suite);   ///< quantisation of A in the plan
void add_grouped_tests(Suite& suite);   ///< many matrices in one call, gathered rows of A
void add_route_tests(Suite& suite);     ///< which expert gets which token
void add_activate_tests(Suite& suite);  ///< gate and up to one matrix
void add_combine_tests(Suite& suite);   ///< the experts' rows to tokens
void add_sequence_tests(Suite& suite);  ///< calls recorded once

/// The problem that every plugin which claims GEMM runs: e4m3fn, token groups of 128 against blocks of 128 x 128, f32
/// out, ragged in every dimension.
Problem base_problem();

}  // namespace ironcl::conformance
