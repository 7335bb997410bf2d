// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/probe.h"

#include <bit>
#include <boost/describe.hpp>
#include <boost/json.hpp>
#include <cmath>

#include "backends/numerics/casts.h"
#include "backends/opencl/arguments.h"
#include "backends/opencl/program.h"

namespace ironcl::opencl {
namespace {

/// What compute capability 9.0 has for a work-group, 227 KiB, less what the driver keeps of it. The driver says 48
/// KiB, which is the most for arguments.
constexpr std::int64_t kLocalOf90 = (227 << 10) - 1024;

template <class F>
auto or_default(F&& get) -> decltype(get()) {
  try {
    return get();
  } catch (const cl::Error&) {
    return {};
  }
}

bool has_extension(const Features& f, const std::string& name) {
  return (" " + f.extensions + " ").find(" " + name + " ") != std::string::npos;
}

/// The least sub-group that kernels may ask for, by cl_intel_required_subgroup_size; 0 where the device does not say,
/// or where it is neither of the two that matrix products come in.
int least_sub_group(const cl::Device& device) {
  constexpr cl_device_info kSubGroupSizes = 0x4108;
  std::size_t sizes[16] = {}, bytes = 0;
  if (clGetDeviceInfo(device(), kSubGroupSizes, sizeof sizes, sizes, &bytes) != CL_SUCCESS || bytes == 0) return 0;
  const std::size_t least = *std::min_element(sizes, sizes + bytes / sizeof sizes[0]);
  return least == 8 || least == 16 ? static_cast<int>(least) : 0;
}

/// Work-items of a wave, by cl_amd_device_attribute_query; 0 where the device does not say, or where it is neither of
/// the two that matrix products come in.
int lanes_of_waves(const cl::Device& device) {
  constexpr cl_device_info kWavefrontWidth = 0x4043;
  cl_uint lanes = 0;
  if (clGetDeviceInfo(device(), kWavefrontWidth, sizeof lanes, &lanes, nullptr) != CL_SUCCESS) return 0;
  return lanes == 32 || lanes == 64 ? static_cast<int>(lanes) : 0;
}

bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

/// The same numbers each time.
struct Drawn {
  std::uint32_t state;
  std::uint32_t operator()() { return state = state * 1664525u + 1013904223u; }
};

bool all_same_bits(const std::vector<float>& got, const std::vector<float>& want) {
  return std::equal(got.begin(), got.end(), want.begin(), want.end(), same_bits);
}

std::vector<float> quotients(std::vector<float> x, const std::vector<float>& y) {
  std::transform(x.begin(), x.end(), y.begin(), x.begin(), std::divides<>());
  return x;
}

class Prober {
 public:
  /// `options`: of the compiler, for every probe.
  Prober(const cl::Context& context, const cl::Device& device, ProgramBuilder& builder, std::string options)
      : context_(context), device_(device), builder_(builder), options_(std::move(options)) {}

  /// Builds these probes (bits, as PROBES has them) into one program, which run() then takes them from. Where one of
  /// them does not build, none is there: run() builds each by itself, and which one failed is seen.
  bool builds_together(int probes) {
    together_ = builder_.build("probe.cl", {{"PROBES", std::to_string(probes)}}, options_);
    in_together_ = probes;
    return true;
  }

  /// Runs probe `which` on x and y; throws what the driver throws.
  std::vector<float> run(int which, std::vector<float> x, std::vector<float> y, std::size_t items,
                         Defines defines = {}) const {
    const int bit = 1 << which;
    defines["PROBES"] = std::to_string(bit);
    const cl::Program program = (in_together_ & bit) != 0 ? together_ : builder_.build("probe.cl", defines, options_);
    cl::Kernel kernel(program, ("probe_" + std::to_string(which)).c_str());
    const std::size_t bytes = x.size() * sizeof(float);
    const cl::Buffer bx(context_, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes, x.data());
    const cl::Buffer by(context_, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes, y.data());
    const cl::Buffer bo(context_, CL_MEM_WRITE_ONLY, bytes);
    bind<ProbeArg::x>(kernel, bx);
    bind<ProbeArg::y>(kernel, by);
    bind<ProbeArg::out>(kernel, bo);
    bind<ProbeArg::count>(kernel, x.size());
    const cl::CommandQueue queue(context_, device_);
    queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(items), cl::NDRange(1));
    std::vector<float> out(x.size());
    queue.enqueueReadBuffer(bo, CL_TRUE, 0, bytes, out.data());
    return out;
  }

  bool divides_exactly() const {
    // Quotients that a 2.5 ulp division misses, subnormal ones, and subnormal operands.
    std::vector<float> x, y;
    Drawn next{12345};
    for (int i = 0; i < 4096; ++i) {
      const std::uint32_t exponent = i % 4 == 0 ? (next() >> 28) : 100 + (next() >> 27);
      x.push_back(std::bit_cast<float>((next() & 0x807fffffu) | (exponent << 23)));
      y.push_back(i % 3 == 0 ? 448.0f : std::bit_cast<float>((next() >> 9) | ((90 + (next() >> 27)) << 23)));
    }
    return all_same_bits(run(1, x, y, x.size()), quotients(x, y));
  }

  bool divides_by_fma() const {
    // Scales all over the reach of quantizer.cl; x beside every boundary of e4m3 codes, beside 1, and anywhere.
    std::vector<float> x, y;
    Drawn next{54321};
    for (int i = 0; i < 8192; ++i) {
      const float scale = std::bit_cast<float>((next() >> 9) | ((67 + next() % 120) << 23));
      const float boundary =
          static_cast<float>(17 + next() % 16) * std::ldexp(1.0f, static_cast<int>(next() % 18) - 14);
      const float near = std::bit_cast<float>(std::bit_cast<std::uint32_t>(boundary * scale) + next() % 5 - 2);
      const float any = std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) + (next() >> 8) - (4u << 23));
      x.push_back((i % 2 == 0 ? near : any) * (i % 4 < 2 ? 1.0f : -1.0f));
      y.push_back(scale);
    }
    x[0] = 0.0f;
    x[1] = -0.0f;
    return all_same_bits(run(4, x, y, x.size()), quotients(x, y));
  }

  bool converts_half_vectors() const {
    constexpr std::size_t kAll = 65536;
    std::vector<float> bits(kAll), unused(kAll), want(kAll);
    auto* halves = reinterpret_cast<std::uint16_t*>(bits.data());
    for (std::size_t i = 0; i < kAll; ++i) {
      halves[i] = static_cast<std::uint16_t>(i);
      want[i] = numerics::decode_f16(halves[i]);
    }
    return all_same_bits(run(2, bits, unused, kAll / 16), want);
  }

  /// Whether words of codes become f32 by way of 16-bit floats, every code exactly, as HALF_BITS `way` says.
  bool converts_half_bits(int way) const {
    constexpr std::size_t kWords = 64;  // The codes of a type, four a word.
    const std::vector<float> unused(12 * kWords);
    const auto out = run(6, unused, unused, 3 * kWords, {{"HALF_BITS", std::to_string(way)}});
    for (std::size_t i = 0; i < 4 * kWords; ++i) {
      const auto code = static_cast<std::uint8_t>(i);
      if (!same_bits(out[i], numerics::decode_e4m3fn(code)) ||
          !same_bits(out[4 * kWords + i], numerics::decode_e5m2(code)) ||
          ((code & 0x7f) != 0x7f && !same_bits(out[8 * kWords + i], numerics::decode_e4m3fn(code))))
        return false;
    }
    return true;
  }

  /// Whether the packed dot product of four signed bytes is what it says, for every code beside every other.
  bool multiplies_bytes() const {
    std::vector<float> x, y, want;
    Drawn next{2468};
    for (int i = 0; i < 4096; ++i) {
      std::int8_t a[4], b[4];
      std::int32_t sum = 0;
      for (int j = 0; j < 4; ++j) {
        a[j] = static_cast<std::int8_t>(next() >> 24);
        b[j] = static_cast<std::int8_t>(4 * i + j);
        if (i % 64 == 63) a[j] = b[j] = -128;
        sum += a[j] * b[j];
      }
      x.push_back(std::bit_cast<float>(a));
      y.push_back(std::bit_cast<float>(b));
      want.push_back(static_cast<float>(sum));
    }
    return run(7, x, y, x.size()) == want;
  }

  /// Whether probe `which`, by four work-items, builds and gives back what it was given.
  bool copies(int which, std::size_t count, std::int64_t local_bytes) const {
    const std::vector<float> x(count, 5.0f);
    return run(which, x, x, 4, {{"LOCAL_BYTES", std::to_string(local_bytes)}}) == x;
  }

  /// Whether fma() costs no more than a multiplication and an addition: then it is an instruction. Some drivers do
  /// not say that they have it (Intel's for CPUs), and without being asked for it their compilers do not use it.
  bool fuses_as_fast() const {
    const cl::CommandQueue queue(context_, device_, CL_QUEUE_PROFILING_ENABLE);
    const cl::Buffer out(context_, CL_MEM_WRITE_ONLY, sizeof(float));
    const auto kernel_of = [&](const char* fused) {
      cl::Kernel kernel(builder_.build("ceilings.cl", {{"VEC", "16"}, {"CHAINS", "16"}, {"USE_FMA", fused}}),
                        "multiply_add");
      bind<MultiplyAddArg::out>(kernel, out);
      bind<MultiplyAddArg::x>(kernel, 0.999f);
      bind<MultiplyAddArg::y>(kernel, 0.001f);
      return kernel;
    };
    cl::Kernel fused = kernel_of("1"), apart = kernel_of("0");
    const auto seconds = [&](cl::Kernel& kernel, cl_int steps) {
      bind<MultiplyAddArg::steps>(kernel, steps);
      cl::Event event;
      queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(1), cl::NDRange(1), nullptr, &event);
      return seconds_of_run(event);
    };
    // In turn, on the device's own clock: where others keep the device busy, waiting for it is longer than the run.
    const auto least_seconds = [&](cl_int steps) {
      std::pair least(seconds(fused, steps), seconds(apart, steps));
      for (int run = 1; run < 5; ++run) {
        least.first = std::min(least.first, seconds(fused, steps));
        least.second = std::min(least.second, seconds(apart, steps));
      }
      return least;
    };
    // One made of instructions takes ten times as long and more, a call to a function a thousand times: seconds, if
    // it were not seen in a few steps, each time that a process starts. Where those take no time, more take little.
    constexpr cl_int kFew = 200, kMany = 20000;
    if (const auto [with, without] = least_seconds(kFew); with > 1e-4 && with > 8 * without) return false;
    const auto [with, without] = least_seconds(kMany);
    return with < 1.5 * without;
  }

  /// Whether pairs of fp8 codes become f16 and back by instructions, every code exactly. NaN is some NaN code.
  bool converts_fp8_pairs() const {
    constexpr std::size_t kCodes = 256;
    const std::vector<float> unused(4 * kCodes);
    const auto out = run(9, unused, unused, 2 * kCodes / 4);
    for (std::size_t i = 0; i < 2 * kCodes; ++i) {
      const auto code = static_cast<std::uint8_t>(i);
      const float value = i < kCodes ? numerics::decode_e4m3fn(code) : numerics::decode_e5m2(code);
      if (!same_bits(out[i], value)) return false;
      if (std::isfinite(value) && out[2 * kCodes + i] != static_cast<float>(code)) return false;
    }
    return true;
  }

 private:
  const cl::Context& context_;
  const cl::Device& device_;
  ProgramBuilder& builder_;
  std::string options_;
  cl::Program together_;
  int in_together_ = 0;
};

}  // namespace

Features query_features(const cl::Platform& platform, const cl::Device& device) {
  Features f;
  const cl_device_type type = device.getInfo<CL_DEVICE_TYPE>();
  f.type = (type & CL_DEVICE_TYPE_GPU) != 0   ? backend::DeviceType::gpu
           : (type & CL_DEVICE_TYPE_CPU) != 0 ? backend::DeviceType::cpu
                                              : backend::DeviceType::accelerator;
  f.name = device.getInfo<CL_DEVICE_NAME>();
  f.vendor = device.getInfo<CL_DEVICE_VENDOR>();
  f.vendor_id = device.getInfo<CL_DEVICE_VENDOR_ID>();
  f.driver = device.getInfo<CL_DRIVER_VERSION>();
  f.device_version = device.getInfo<CL_DEVICE_VERSION>();
  f.c_version = or_default([&] { return device.getInfo<CL_DEVICE_OPENCL_C_VERSION>(); });
  f.platform = platform.getInfo<CL_PLATFORM_NAME>();
  f.platform_version = platform.getInfo<CL_PLATFORM_VERSION>();
  f.extensions = device.getInfo<CL_DEVICE_EXTENSIONS>();
  f.compute_units = std::max<cl_uint>(1, device.getInfo<CL_DEVICE_MAX_COMPUTE_UNITS>());
  f.max_work_group = device.getInfo<CL_DEVICE_MAX_WORK_GROUP_SIZE>();
  const auto item_sizes = device.getInfo<CL_DEVICE_MAX_WORK_ITEM_SIZES>();
  if (!item_sizes.empty()) f.max_work_group = std::min<std::int64_t>(f.max_work_group, item_sizes[0]);
  f.local_is_dedicated = device.getInfo<CL_DEVICE_LOCAL_MEM_TYPE>() == CL_LOCAL;
  f.local_bytes = device.getInfo<CL_DEVICE_LOCAL_MEM_SIZE>();
  // Drivers keep some of a dedicated local memory for themselves: a kernel with all of it is refused at enqueue.
  if (f.local_is_dedicated && f.local_bytes > 4096) f.local_bytes -= 1024;
  f.unified_memory = or_default([&] { return device.getInfo<CL_DEVICE_HOST_UNIFIED_MEMORY>(); }) == CL_TRUE ||
                     f.type == backend::DeviceType::cpu;
  f.global_bytes = device.getInfo<CL_DEVICE_GLOBAL_MEM_SIZE>();
  f.max_buffer_bytes = device.getInfo<CL_DEVICE_MAX_MEM_ALLOC_SIZE>();
  f.cache_bytes = device.getInfo<CL_DEVICE_GLOBAL_MEM_CACHE_SIZE>();
  f.vector_width = static_cast<int>(std::max<cl_uint>(1, device.getInfo<CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT>()));
  const cl_device_fp_config fp = device.getInfo<CL_DEVICE_SINGLE_FP_CONFIG>();
  f.clock_hz = 1e6 * std::max<cl_uint>(1, device.getInfo<CL_DEVICE_MAX_CLOCK_FREQUENCY>());
  f.denormals = (fp & CL_FP_DENORM) != 0;
  f.correct_divide = (fp & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  f.fma = (fp & CL_FP_FMA) != 0;
  f.double_precision = or_default([&] { return device.getInfo<CL_DEVICE_DOUBLE_FP_CONFIG>(); }) != 0;
  // The device's own word, by cl_nv_device_attribute_query; other devices answer that they do not know the question.
  constexpr cl_device_info kCapabilityMajor = 0x4000, kCapabilityMinor = 0x4001;
  cl_uint major = 0, minor = 0;
  if (clGetDeviceInfo(device(), kCapabilityMajor, sizeof major, &major, nullptr) == CL_SUCCESS &&
      clGetDeviceInfo(device(), kCapabilityMinor, sizeof minor, &minor, nullptr) == CL_SUCCESS) {
    f.ptx_sm_80 = major >= 8;
    f.ptx_sm_89 = major > 8 || (major == 8 && minor >= 9);
    f.ptx_sm_90 = major == 9 && minor == 0;
  }
  f.own_local_bytes = f.local_bytes;
  if (has_extension(f, "cl_intel_subgroup_matrix_multiply_accumulate")) f.dpas_lanes = least_sub_group(device);
  f.wave_lanes = lanes_of_waves(device);
  return f;
}

void limit_ptx(Features& features, int most) {
  features.ptx_sm_80 = features.ptx_sm_80 && most >= 80;
  features.ptx_sm_89 = features.ptx_sm_89 && most >= 89;
  features.ptx_sm_90 = features.ptx_sm_90 && most >= 90;
}

void run_probes(const cl::Context& context, const cl::Device& device, ProgramBuilder& builder, Features& f) {
  const bool may_divide = f.correct_divide && f.denormals;
  Prober prober(context, device, builder, may_divide ? "-cl-fp32-correctly-rounded-divide-sqrt" : "");
  const auto attempt = [&](const char* what, auto probe, auto... arguments) -> bool {
    std::string why;
    try {
      return (prober.*probe)(arguments...);
    } catch (const cl::Error& error) {
      why = make_error("its probe", error).what();
    } catch (const backend::Error& error) {
      why = error.what();
    }
    builder.say(backend::LogLevel::info, fmt::format("opencl: {}: no {}: {}", f.name, what, why));
    return false;
  };
  // A driver's compiler takes longer to start than over any probe: those that need no definitions are one program.
  int together = (may_divide ? 1 << 1 : 0) | (f.fma ? 1 << 4 : 0);
  if (f.prefers_vectors()) together |= 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5;
  if (together != 0) attempt("probes in one program", &Prober::builds_together, together);
  f.exact_divide = may_divide && attempt("exact division", &Prober::divides_exactly);
  if (!f.fma && f.prefers_vectors()) f.fma = attempt("fast fma()", &Prober::fuses_as_fast);
  f.fma_divide = f.fma && attempt("quotients by multiply-add", &Prober::divides_by_fma);
  if (!f.prefers_vectors()) {
    // Without the extension, vload_half is what OpenCL 1.2 has; some compilers make a detour through memory of it.
    for (const int way : {1, 2}) {
      const bool there = way == 2 || has_extension(f, "cl_khr_fp16");
      if (f.half_bits == 0 && there && attempt("bits of half", &Prober::converts_half_bits, way)) f.half_bits = way;
    }
  }
  if (f.ptx_sm_89 && !f.ptx_sm_90)
    f.ptx_sm_89 = attempt("conversions of pairs of fp8 codes", &Prober::converts_fp8_pairs);
  if (f.ptx_sm_90 && attempt("large arrays in local memory", &Prober::copies, 8, 4, kLocalOf90))
    f.own_local_bytes = kLocalOf90;
  if (has_extension(f, "cl_khr_integer_dot_product"))
    f.byte_dots = attempt("dot products of bytes", &Prober::multiplies_bytes);
  if (f.prefers_vectors()) {
    f.half_vectors = attempt("vectors of half", &Prober::converts_half_vectors);
    f.min_vector_width = attempt("attribute min_vector_width", &Prober::copies, 3, 64, 0);
    f.cache_builtins = attempt("builtins for prefetching and streaming", &Prober::copies, 5, 64, 0);
  }
}

// As reports have them.
BOOST_DESCRIBE_STRUCT(Features, (),
                      (name, vendor, driver, device_version, c_version, platform, platform_version, compute_units,
                       max_work_group, local_bytes, own_local_bytes, local_is_dedicated, unified_memory, global_bytes,
                       max_buffer_bytes, cache_bytes, vector_width, clock_hz, denormals, correct_divide, fma,
                       double_precision, dpas_lanes, wave_lanes, ptx_sm_80, ptx_sm_89, ptx_sm_90, fma_divide,
                       exact_divide, half_bits, byte_dots, half_vectors, min_vector_width, cache_builtins,
                       dot_products_of_bf16, dot_products_of_bytes, extensions))

boost::json::value to_json(const Features& features) { return boost::json::value_from(features); }

}  // namespace ironcl::opencl
