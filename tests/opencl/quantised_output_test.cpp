// SPDX-License-Identifier: Apache-2.0
// A D that leaves the plan in codes has the bytes of the quantiser on the D in f32 of the same kernel with the same
// tunables, whether the kernel makes them or a step after it. (Against the oracle: the conformance suite.)
#include <algorithm>

#include "backends/numerics/quantize.h"
#include "backends/opencl/gemm.h"
#include "tests/opencl/own_kernels.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

constexpr std::int64_t kGap = 3;  ///< Elements between the rows of D, and between those of its scales.

struct Output {
  Case c;
  DType code = DType::e4m3fn, stored = DType::f32;
  numerics::ScaleGrid grid{1, 128};
  numerics::Quantizer quantizer = {};
  bool in_kernel = true;
};

backend::GemmDesc desc_of(const Output& o) {
  backend::GemmDesc desc = o.c.desc();
  desc.d = o.code;
  desc.d_scale = {o.stored, o.grid, o.grid.scale_cols(o.c.n) + kGap};
  desc.d_quantizer = o.quantizer;
  return desc;
}

std::vector<Output> outputs() {
  Case panel{21, 300, 264};
  panel.options = {
      {"variant", "gemm_panel"}, {"tile_m", "4"}, {"tile_n", "16"}, {"block_n", "128"}, {"block_m", "3"}};
  panel.ldd = panel.n + kGap;
  Case stream = panel;
  stream.m = 3, stream.a_source = DType::bf16, stream.bias = DType::f32;
  stream.options = {{"variant", "gemm_stream"}, {"floats", "1"}, {"tile_m", "3"}, {"block_n", "64"}};
  Case dots = panel;
  dots.options = {{"variant", "gemm_bf16"}, {"tile_m", "4"}, {"block_n", "128"}, {"block_m", "3"}};
  Case few_dots = stream;
  few_dots.options = {{"variant", "gemm_stream_bf16"}, {"tile_m", "3"}};
  Case tiled = panel;
  tiled.options = {{"variant", "gemm_tiled"}, {"tile_m", "16"}, {"tile_n", "64"}, {"split_k", "1"}};
  tiled.bias = DType::bf16;
  Case gated = stream;  // 256 columns of totals are 128 of D.
  gated.n = 160, gated.ldd = 168, gated.activation = backend::Activation::silu;
  gated.options = {{"variant", "gemm_stream"}, {"floats", "1"}, {"tile_m", "3"}, {"block_n", "256"}};
  Case gated_dots = gated;
  gated_dots.options = {{"variant", "gemm_bf16"}, {"floats", "1"}, {"tile_m", "3"}, {"block_n", "256"}};
  Case skinny = tiled;
  skinny.m = 5;
  skinny.options = {{"variant", "gemm_skinny"}, {"tile_m", "4"}, {"lanes", "16"}, {"slices", "4"}, {"split_k", "1"}};
  Case gated_skinny = skinny;
  gated_skinny.n = 133, gated_skinny.activation = backend::Activation::silu;
  Case gated_tiled = gated_skinny;
  gated_tiled.m = 21, gated_tiled.options = tiled.options;
  Case later = tiled;
  later.activation = backend::Activation::swiglu_oai, later.activation_limit = 7;
  // On tensor cores of compute capability 9.0: whole tiles and others, rows of D at any byte.
  Case wgmma{.m = 300, .n = 424, .k = 392, .bias = DType::f32, .weakest = backend::AccuracyClass::tensor14};
  wgmma.ldd = wgmma.n + kGap;
  const auto of = [](Case c, const char* variant, const char* rows, const char* tile_m, const char* tile_n) {
    c.options = {{"variant", variant}, {"split_k", "1"}};
    if (rows != nullptr) c.options.emplace_back("share", rows);
    if (tile_m != nullptr) c.options.emplace_back("tile_m", tile_m);
    if (tile_n != nullptr) c.options.emplace_back("tile_n", tile_n);
    return c;
  };
  Case aligned = wgmma;
  aligned.n = aligned.ldd = 512, aligned.m = 256, aligned.bias = DType::none;
  Case few = wgmma;
  few.m = 90, few.options = {{"variant", "gemm_wgmma_few"}, {"tile_m", "64"}, {"tile_n", "64"}};
  Case gated_few = few;
  gated_few.n = 192, gated_few.ldd = 192 + kGap, gated_few.activation = backend::Activation::silu;
  Case gate = wgmma;
  gate.activation = backend::Activation::swiglu_oai, gate.activation_limit = 7;
  Case whole_gate = gate;
  whole_gate.n = 256, whole_gate.ldd = 256 + kGap;
  return {
      {of(wgmma, "gemm_wgmma_f16", "0", "256", nullptr)},
      {of(aligned, "gemm_wgmma_f16", "0", "128", nullptr), DType::e5m2, DType::e8m0, {1, 64}},
      {of(wgmma, "gemm_wgmma_f16", "1", "256", nullptr), DType::e4m3fn, DType::f32, {1, 128}, {}, false},
      {of(gate, "gemm_wgmma_f16", "0", "64", nullptr), DType::e4m3fn, DType::f32, {1, 64}},
      {of(gate, "gemm_wgmma_f16", "0", "64", nullptr)},  // By the activation's own kernel.
      {of(wgmma, "gemm_wgmma_few_f16", nullptr, "64", "64"), DType::i8, DType::f32, {1, 32}},
      {of(aligned, "gemm_wgmma_few_f16", nullptr, "128", "128"), DType::e5m2, DType::f32, {0, 0}, {.given = true}},
      {of(gate, "gemm_wgmma_few_f16", nullptr, "64", "64"), DType::e4m3fn, DType::e8m0, {1, 32}},
      {of(wgmma, "gemm_wgmma_fp8", "0", nullptr, "64"), DType::e4m3fn, DType::f32, {1, 64}},
      {of(aligned, "gemm_wgmma_fp8", "0", nullptr, "128")},
      {of(wgmma, "gemm_wgmma_fp8", "0", nullptr, "256"),
       DType::e4m3fn,
       DType::f32,
       {1, 32},
       {.rounding = numerics::ScaleRounding::power_of_two}},
      {of(aligned, "gemm_wgmma_fp8", "0", nullptr, "256"), DType::e4m3fn, DType::f32, {1, 256}},
      {of(whole_gate, "gemm_wgmma_fp8", "0", nullptr, "256")},
      {of(whole_gate, "gemm_wgmma_fp8", "0", nullptr, "256"), DType::e5m2, DType::e8m0, {1, 32}},
      {of(gate, "gemm_wgmma_fp8", "0", nullptr, "256")},  // By the activation's own kernel.
      {few, DType::e4m3fn, DType::f32, {1, 64}},
      {gated_few, DType::e4m3fn, DType::e8m0, {1, 32}},
      {of(wgmma, "gemm_wgmma_fp8", "0", nullptr, "192"), DType::e4m3fn, DType::f32, {1, 32}},
      {of(wgmma, "gemm_wgmma_fp8", "0", nullptr, "144"), DType::e4m3fn, DType::f32, {1, 32}, {}, false},
      {gated},
      {gated, DType::e5m2, DType::e8m0, {1, 64}},
      {gated, DType::e5m2, DType::f32, {0, 0}, {.given = true}},
      {gated, DType::e4m3fn, DType::f32, {1, 100}},  // By the step that activates.
      {gated, DType::e4m3fn, DType::e8m0, {1, 100}, {}, false},
      {later},  // By the activation's own kernel.
      {later, DType::i8, DType::f32, {16, 100}, {}, false},
      {later, DType::e4m3fn, DType::e8m0, {1, 128}, {}, false},
      {panel},
      {panel, DType::e5m2, DType::f32, {0, 0}, {.given = true}},
      {stream, DType::e5m2, DType::e8m0, {1, 32}},
      {dots},
      {gated_dots},
      {dots, DType::i8, DType::e8m0, {1, 64}},
      {few_dots, DType::e4m3fn, DType::f32, {1, 32}},
      {few_dots, DType::e4m3fn, DType::f32, {1, 128}, {}, false},
      {tiled, DType::e4m3fn, DType::f32, {1, 64}, {.rounding = numerics::ScaleRounding::power_of_two}},
      {tiled, DType::e5m2, DType::f32, {0, 0}, {.given = true}},
      {gated_tiled, DType::e4m3fn, DType::f32, {1, 32}},
      {skinny, DType::e4m3fn, DType::e8m0, {1, 32}},
      {gated_skinny, DType::i8, DType::f32, {1, 32}},
      {tiled, DType::i8, DType::f32, {16, 100}, {}, false},
      {tiled, DType::e4m3fn, DType::e8m0, {5, 100}, {.given = true}, false},
      {tiled, DType::e4m3fn, DType::e8m0, {1, 100}, {}, false},
  };
}

/// What an array of `bytes` holds at first.
std::vector<std::byte> filled(std::int64_t bytes) {
  return {static_cast<std::size_t>(bytes), std::byte{0x3c}};  // As an f32 0.0115, as e8m0 2^-67.
}

void expect_the_bytes_of_the_quantiser(backend::Device& device, const Output& o) {
  const Case& c = o.c;
  if (device.supports(desc_of(o)).reason == backend::Reason::device_feature) return;
  Data data = make_data(c);
  // A NaN of either type, in the second row: no scale group of it has a number.
  const std::size_t row = data.a.size() / static_cast<std::size_t>(c.m);
  data.a[row] = 0xff, data.a[row + 1] = 0x7f;
  const Outcome plain = run(device, c, data);
  expect_right(plain, c, device.props().name);
  const std::vector<float> whole(plain.d.begin(), plain.d.end());

  const backend::GemmDesc desc = desc_of(o);
  ASSERT_EQ(device.supports(desc).text, "") << c.line();
  const auto plan = device.create_gemm(desc);
  const auto steps = dynamic_cast<const Gemm&>(*plan).step_names();
  EXPECT_EQ(std::count(steps.begin(), steps.end(), "quantize D"), o.in_kernel ? 0 : 1) << c.line();
  const auto queue = device.create_queue();
  const auto upload = [&](const auto& bytes) {
    backend::Span span{device.create_buffer(bytes.size()), 0, bytes.size()};
    queue->write(span, bytes.data(), backend::HostSemantics::copied_before_return);
    return span;
  };
  std::vector<std::byte> want = filled((c.m + 16) * desc.ldd);  // Rows past the last one stay as they are.
  std::vector<std::byte> want_scales = filled(o.grid.scale_rows(c.m) * desc.d_scale.ld * numerics::size_of(o.stored));
  backend::GemmArgs args;
  args.m = c.m;
  args.weights = device.prepare_weights(weights_desc(c, data, plan));
  args.a = upload(data.a);
  if (!data.a_scales.empty()) args.a_scale = upload(data.a_scales);
  if (!data.bias.empty()) args.bias = upload(data.bias);
  args.d = upload(want), args.d_scale = upload(want_scales);
  ASSERT_EQ(plan->enqueue(queue, args)->wait(std::chrono::nanoseconds::max()), backend::Status::ok);
  std::vector<std::byte> got(want.size()), got_scales(want_scales.size());
  queue->read(args.d, got.data());
  queue->read(args.d_scale, got_scales.data());
  queue->finish();
  numerics::quantize(DType::f32, whole.data(), c.m, c.n, c.n, o.grid, o.quantizer,
                     {o.code, want.data(), desc.ldd, o.stored, want_scales.data(), desc.d_scale.ld});
  EXPECT_TRUE(got == want) << c.line() << ": codes of " << o.grid.group_rows << "x" << o.grid.group_cols
                           << " differ at "
                           << std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin();
  EXPECT_TRUE(got_scales == want_scales) << c.line() << ": scales differ";
}

TEST(OpenClQuantisedOutput, HasTheBytesOfTheQuantiserOnTheF32OfTheSameKernel) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  for (const Output& o : outputs()) expect_the_bytes_of_the_quantiser(*devices().front(), o);
}

// Kernels of units that the device may not have, by hand.
class OpenClQuantisedOutputByHand : public OwnKernels {
 protected:
  /// D of `c` in codes of two groups in `columns` of totals, which its options hold; then gated, in one of as many.
  static void expect_codes(backend::Device& device, Case c, std::int64_t columns = 128) {
    c.ldd = c.n + kGap;
    const numerics::ScaleGrid grid{1, columns / 2};
    expect_the_bytes_of_the_quantiser(device, {c, DType::e4m3fn, DType::f32, grid});
    expect_the_bytes_of_the_quantiser(device, {c, DType::e5m2, DType::f32, {0, 0}, {.given = true}});
    c.n /= 2, c.ldd = c.n + kGap, c.activation = backend::Activation::silu, c.bias = DType::f32;
    const Output gated{c, DType::e4m3fn, DType::f32, grid};
    expect_the_bytes_of_the_quantiser(device, gated);
    const auto plan = device.create_gemm(desc_of(gated));
    const auto steps = dynamic_cast<const Gemm&>(*plan).step_names();
    EXPECT_EQ(std::count(steps.begin(), steps.end(), "activate D"), 0) << c.line();
  }
};

Variant tiles_by_hand() { return another("tiles_by_hand", "gemm_amx"); }
Variant tiled_by_hand() { return another("tiled_by_hand", "gemm_mma_tiled"); }
Variant stream_by_hand() { return another("stream_by_hand", "gemm_mma_stream"); }
Variant wave_by_hand() { return another("wave_by_hand", "gemm_wave"); }
Variant dpas_by_hand() { return another("dpas_by_hand", "gemm_dpas"); }

TEST_F(OpenClQuantisedOutputByHand, OfTilesOfX86) {
  const Made made = with({tiles_by_hand});
  const auto device = cpu_with_wide_vectors(made);
  if (device == nullptr) GTEST_SKIP() << "no processor with vectors of 512 bits, VBMI and GFNI";
  Case c{.m = 37, .n = 320, .k = 264};
  c.options = options_of("tiles_by_hand", {{"block_m", "2"}, {"block_n", "128"}});
  expect_codes(*device, c);
  c.options = options_of("tiles_by_hand", {{"block_m", "1"}, {"block_n", "256"}, {"split_k", "2"}});
  expect_codes(*device, c, 256);
}

TEST_F(OpenClQuantisedOutputByHand, OfWarps) {
  const Made tiled = with_file(tiled_by_hand, "#define MMA_BY_HAND 1\n#include \"gemm_mma_tiled.cl\"\n");
  Case c{.m = 67, .n = 256, .k = 160};
  c.options = options_of("tiled_by_hand", {{"tile_n", "128"}, {"warp_m", "32"}});
  expect_codes(*tiled.devices.front(), c);
  const Made stream = with_file(stream_by_hand, "#define MMA_BY_HAND 1\n#include \"gemm_mma_stream.cl\"\n");
  c.m = 5, c.options = options_of("stream_by_hand", {{"tile_m", "8"}, {"columns", "64"}, {"warps", "4"}});
  expect_codes(*stream.devices.front(), c, 64);
}

TEST_F(OpenClQuantisedOutputByHand, OfWavesAndSubGroups) {
  // In one part, however many cores there are: a step after the kernel quantises what parts add up to.
  const Made wave = with({wave_by_hand});
  Case c{.m = 37, .n = 192, .k = 160};
  c.options = options_of("wave_by_hand",
                         {{"tile_m", "32"}, {"work_n", "2"}, {"waves", "2"}, {"lanes", "64"}, {"split_k", "1"}});
  expect_codes(*wave.devices.front(), c);
  const Made dpas = with({dpas_by_hand});
  c.options = options_of("dpas_by_hand",
                         {{"tile_m", "16"}, {"work_n", "4"}, {"sub_groups", "2"}, {"lanes", "16"}, {"split_k", "1"}});
  expect_codes(*dpas.devices.front(), c);
}

}  // namespace
}  // namespace ironcl::opencl::testing
