// SPDX-License-Identifier: Apache-2.0
// What a device can do, by asking it and by running a tiny program. Never by its vendor's name.
#pragma once

#include <algorithm>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>

#include "backends/opencl/api.h"

namespace ironcl::opencl {

class ProgramBuilder;

/// Facts that variants decide by. Sizes in bytes unless said otherwise.
struct Features {
  backend::DeviceType type = backend::DeviceType::cpu;
  std::string name = {}, vendor = {}, driver = {}, device_version = {}, c_version = {}, platform = {},
              platform_version = {}, extensions = {};
  std::uint32_t vendor_id = 0;
  std::int64_t compute_units = 1;
  std::int64_t max_work_group = 1;  ///< Work-items.
  std::int64_t local_bytes = 0;     ///< Available to a kernel: the device's figure less what drivers keep.
  /// The same for a kernel whose local memory is all arrays of its own, not arguments; by running a tiny program
  /// where it is more.
  std::int64_t own_local_bytes = 0;
  bool local_is_dedicated = false;  ///< Local memory is its own memory, not a part of global.
  bool unified_memory = false;      ///< Host and device share memory.
  std::uint64_t global_bytes = 0, max_buffer_bytes = 0;
  std::int64_t cache_bytes = 0;  ///< Cache of global memory: the second (Intel's driver) or the last (PoCL).
  std::uint64_t alignment = 64;  ///< Alignment of span offsets.
  int vector_width = 1;          ///< Native f32 vector width, in elements.
  bool denormals = false;        ///< f32 keeps denormals, by the device's word.
  bool correct_divide = false;   ///< f32 division can be asked to round correctly, by the device's word.
  double clock_hz = 1e9;         ///< Clock of a compute unit, as the device reports it.
  bool fma = false;              ///< fma() is a hardware instruction, by the device's word or by its speed.
  bool double_precision = false;
  /// Work-items of the sub-groups whose matrix products the device says it has
  /// (cl_intel_subgroup_matrix_multiply_accumulate): 8 or 16; 0: it has none.
  int dpas_lanes = 0;
  /// Work-items of a wave, by the word of a device that has waves (cl_amd_device_attribute_query): 32 or 64; 0: it
  /// does not know the question.
  int wave_lanes = 0;
  // Inline PTX that may be tried: up to the compute capability that the device reports, and up to what
  // Config::ptx allows.
  bool ptx_sm_80 = false;  ///< 8.0 or more: mma.sync of f16 with f32 sums.
  bool ptx_sm_89 = false;  ///< 8.9 or more: conversions of fp8 codes, tested on all codes except on 9.0.
  bool ptx_sm_90 = false;  ///< 9.0 only: wgmma, bulk copies.
  // By running a tiny program:
  bool fma_divide = false;    ///< Quotients by multiply-add (quantizer.cl) were seen to round correctly.
  bool exact_divide = false;  ///< f32 division was seen to round correctly, subnormals included.
  int half_bits =
      0;  ///< HALF_BITS of cl/code_words.cl: how the bits of 16-bit floats become f32 in scalar registers.
  bool byte_dots = false;  ///< Dot products of four packed bytes (cl_khr_integer_dot_product) were seen to be right.
  bool half_vectors = false;      ///< The compiler converts vectors of 16-bit floats to f32, exactly.
  bool min_vector_width = false;  ///< The compiler takes the attribute that keeps wide vectors whole.
  bool cache_builtins = false;    ///< The compiler takes the builtins of cache_hints.cl.

  /// Why the tile instructions of x86 (AMX) are not worth a trial; empty where they are: matrix_unit.h.
  std::string amx_why_not = "this was not asked";
  /// The same for the dot products of bf16 and bytes (AVX512-BF16, VNNI).
  std::string dot_products_why_not = "this was not asked";
  /// Their instructions per f32 multiply-add of the same width: matrix_unit.h.
  double dot_products_of_bf16 = 1, dot_products_of_bytes = 1;

  /// What stays near a core: no less than its local memory, and a second cache as large as any CPU has.
  std::int64_t near_bytes() const noexcept {
    return std::max(local_bytes, std::min<std::int64_t>(cache_bytes, 2 << 20));
  }

  /// Whether kernels quantise without long divisions (cl/quantizer.cl).
  bool has_quick_quotients() const noexcept { return fma_divide || exact_divide; }

  /// True where one work-item per work-group with wide vectors is the natural form of a kernel. A GPU runs work-items
  /// in step, also where their local memory is a part of global memory (Mali): for such a work-group it would use one
  /// lane.
  bool prefers_vectors() const noexcept {
    return type == backend::DeviceType::cpu || (type != backend::DeviceType::gpu && !local_is_dedicated);
  }
};

/// Removes the features that compute capability `most` (80: 8.0) lacks: an H200 is then like an A100.
void limit_ptx(Features& features, int most);

/// Asks only; builds nothing.
Features query_features(const cl::Platform& platform, const cl::Device& device);

/// Builds and runs the tiny programs of cl/probe.cl and fills in what they showed. A probe that fails leaves its fact
/// false and says why through the builder's log.
void run_probes(const cl::Context& context, const cl::Device& device, ProgramBuilder& builder, Features& f);

/// The features that reports have, by their names.
boost::json::value to_json(const Features& features);

}  // namespace ironcl::opencl
