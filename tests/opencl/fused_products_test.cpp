// SPDX-License-Identifier: Apache-2.0
// Products of a sequence in one launch (fused_products.cpp): up to 16 rows D has the bits of the calls one by one,
// whatever is read and written on the way, beyond it is within its bound; and which calls are not taken. Next door:
// repeats_test.cpp.
#include <algorithm>
#include <bit>

#include "backends/opencl/arguments.h"
#include "backends/opencl/device.h"
#include "backends/opencl/elements.h"
#include "backends/opencl/gemm.h"
#include "backends/opencl/objects.h"
#include "backends/opencl/sources.h"
#include "backends/opencl/step.h"
#include "tests/opencl/harness.h"
#include "tests/temp_dir.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

/// A product of a sequence. `reads`: the product before it whose D is its A, -1: it has an A of its own; `writes`:
/// the one whose D it writes again, likewise.
struct Listed {
  Case c;
  int reads = -1, writes = -1;
};

/// Up to 16 rows by the kernel that adds up the same parts of k in the same order.
Listed listed(Case c, int reads = -1, int writes = -1) {
  if (c.a_source == DType::none) c.a_source = DType::bf16;
  if (c.m > 16) return {c, reads, writes};
  const std::string tile_m = c.m <= 1 ? "1" : c.m <= 2 ? "2" : c.m <= 4 ? "4" : c.m <= 8 ? "8" : "16";
  c.options = {{"variant", "gemm_mma_ring"},
               {"tile_m", tile_m},
               {"columns", "32"},
               {"warps", "8"},
               {"per_unit", "1"},
               {"passes", "1"},
               {"shares", c.m <= 8 ? "0" : "1"}};
  return {c, reads, writes};
}

/// The calls of `list` on one queue.
struct Calls {
  std::vector<std::unique_ptr<Ready>> ready;
  backend::Device& device;

  Calls(backend::Device& on, const std::vector<Listed>& list) : device(on) {
    for (const Listed& one : list) {
      Ready& r = *ready.emplace_back(std::make_unique<Ready>(device, one.c));
      if (one.reads >= 0) r.args.a = ready[static_cast<std::size_t>(one.reads)]->args.d;
      if (one.writes >= 0) r.args.d = ready[static_cast<std::size_t>(one.writes)]->args.d;
      r.args.d.written = true;
      if (!r.data.bias.empty()) {
        r.args.bias = {device.create_buffer(r.data.bias.size()), 0, r.data.bias.size()};
        queue().write(r.args.bias, r.data.bias.data(), backend::HostSemantics::copied_before_return);
      }
      r.queue->finish();
    }
  }
  backend::Queue& queue() { return *ready.front()->queue; }

  /// What `run` leaves of every D, which it finds poisoned.
  std::vector<std::vector<std::uint8_t>> left_by(const std::function<void()>& run) {
    std::vector<std::vector<std::uint8_t>> all;
    for (const auto& r : ready) {
      all.emplace_back(r->args.d.size, std::uint8_t{0xff});
      queue().write(r->args.d, all.back().data(), backend::HostSemantics::copied_before_return);
    }
    run();
    for (std::size_t i = 0; i < all.size(); ++i) queue().read(ready[i]->args.d, all[i].data());
    queue().finish();
    return all;
  }
  std::vector<std::vector<std::uint8_t>> one_by_one() {
    return left_by([&] {
      for (const auto& r : ready) r->plan->enqueue(ready.front()->queue, r->args);
    });
  }
  std::shared_ptr<backend::Sequence> sequence() {
    std::vector<backend::RecordedCall> calls;
    for (const auto& r : ready) calls.emplace_back(backend::Recorded<backend::GemmArgs>{r->plan, r->args});
    return device.create_sequence(std::move(calls));
  }
};

Case of(std::int64_t m, std::int64_t n, std::int64_t k) { return {.m = m, .n = n, .k = k, .d = DType::bf16}; }

/// Fewer units of columns than multiprocessors and several to each, warps without K blocks, codes that are taken in
/// parts, other rows; and D that later products read, and write again.
const std::vector<std::vector<Listed>>& lists() {
  static const std::vector<std::vector<Listed>> all = [] {
    std::vector<std::vector<Listed>> lists;
    for (const std::int64_t m : {1, 2, 3, 8, 13, 16})
      lists.push_back({listed(of(m, 4096, 512)), listed(of(m, 8200, 4096), 0), listed(of(m, 4096, 8192)),
                       listed(of(m, 300, 4096), 2), listed(of(m, 4096, 4096), 2, 0), listed(of(m, 130, 128)),
                       listed(of(m, 4096, 12288)), listed(of(m, 512, 4096), 4)});
    for (std::vector<Listed>& list : lists) list[1].c.lda = list[4].c.lda = 4096;
    lists.push_back({listed(of(1, 640, 2048)), listed(of(16, 2048, 640)), listed(of(5, 640, 2048), 1)});
    Case floats{.m = 4, .n = 1024, .k = 1024, .a_source = DType::f32, .a = DType::e5m2, .bias = DType::f32};
    floats.lda = floats.ldd = 1028;
    lists.push_back({listed(floats), listed(floats, 0), listed(floats, 1, 0)});
    Case halfs{.m = 2, .n = 256, .k = 256, .a_source = DType::f16, .b = DType::e5m2, .d = DType::f16};
    lists.emplace_back(70, listed(halfs));  // Two launches.
    for (int i = 1; i < 70; ++i) lists.back()[static_cast<std::size_t>(i)].reads = i - 1;
    return lists;
  }();
  return all;
}

TEST(OpenClFusedProducts, DHasTheBitsOfTheCallsOneByOne) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const auto& device : tensor_cores()) {
    for (const std::vector<Listed>& list : lists()) {
      Calls calls(*device, list);
      const auto expected = calls.one_by_one();
      const auto sequence = calls.sequence();
      EXPECT_EQ(sequence->variant(), "fused_products") << list.front().c.line();
      for (int turn = 0; turn < 20; ++turn) {
        const auto left = calls.left_by([&] { sequence->enqueue(calls.ready.front()->queue, {}); });
        for (std::size_t i = 0; i < left.size(); ++i)
          ASSERT_TRUE(left[i] == expected[i]) << "turn " << turn << ", product " << i << ": " << list[i].c.line();
      }
    }
  }
}

/// Tiles that several work-groups have, in equal parts and in others, one to each, several to each; and more K blocks
/// than one kernel of few rows has, D of the last columns of a tile, a bias.
std::vector<std::vector<Listed>> lists_of_more_rows() {
  std::vector<std::vector<Listed>> lists;
  for (const std::int64_t m : {17, 48, 64})
    lists.push_back({listed(of(m, 4096, 512)), listed(of(m, 8200, 4096), 0), listed(of(m, 4096, 4096)),
                     listed(of(m, 300, 4096), 2), listed(of(m, 4096, 4096), 2, 0), listed(of(m, 130, 128)),
                     listed(of(m, 1536, 33792)), listed(of(m, 24576, 1536), 6), listed(of(m, 16384, 512)),
                     listed(of(m, 60000, 256))});
  lists.push_back({listed(of(64, 640, 2048)), listed(of(34, 2048, 640)), listed(of(27, 640, 2048), 1)});
  Case floats{.m = 48, .n = 1024, .k = 1024, .a_source = DType::f32, .a = DType::e5m2, .bias = DType::f32};
  floats.lda = floats.ldd = 1028;
  lists.push_back({listed(floats), listed(floats, 0), listed(floats, 1, 0)});
  Case halfs{.m = 40, .n = 256, .k = 256, .a_source = DType::f16, .b = DType::e5m2, .d = DType::f16};
  lists.emplace_back(70, listed(halfs));  // Two launches.
  for (int i = 1; i < 70; ++i) lists.back()[static_cast<std::size_t>(i)].reads = i - 1;
  return lists;
}

/// Of D that is still there with the A that it was made of.
TEST(OpenClFusedProducts, MoreRowsAreWithinTheirBoundAndHaveTheSameBitsEachTime) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const auto& device : tensor_cores()) {
    for (const std::vector<Listed>& list : lists_of_more_rows()) {
      Calls calls(*device, list);
      const auto sequence = calls.sequence();
      EXPECT_EQ(sequence->variant(), "fused_products") << list.front().c.line();
      const auto run = [&] { return calls.left_by([&] { sequence->enqueue(calls.ready.front()->queue, {}); }); };
      const auto first = run();
      for (int turn = 0; turn < 20; ++turn) ASSERT_TRUE(run() == first) << "turn " << turn << list.front().c.line();
      for (std::size_t i = 0; i < list.size(); ++i) {
        const auto is_written_again = [&](int product) {
          return std::ranges::any_of(list, [&](const Listed& one) { return one.writes == product; });
        };
        if (is_written_again(static_cast<int>(i)) || is_written_again(list[i].reads)) continue;
        Ready& ready = *calls.ready[i];
        if (list[i].reads >= 0) ready.data.a = first[static_cast<std::size_t>(list[i].reads)];
        expect_right(judged(ready, first[i]), list[i].c, fmt::format("product {} of one launch", i));
      }
    }
  }
}

/// Launches that follow one another, of two sequences in turns, find what the one before left.
TEST(OpenClFusedProducts, SequencesInTurnsKeepTheirBits) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const auto& device : tensor_cores()) {
    Calls some(*device, lists()[3]), others(*device, lists()[0]);
    const auto expected = some.one_by_one();
    const auto first = some.sequence(), second = others.sequence();
    for (int turn = 0; turn < 50; ++turn) {
      const auto left = some.left_by([&] {
        for (int i = 0; i < 3; ++i) {
          first->enqueue(some.ready.front()->queue, {});
          second->enqueue(others.ready.front()->queue, {});
        }
      });
      ASSERT_TRUE(left == expected) << "turn " << turn;
    }
  }
}

void expect_launches_of_their_own(Calls& calls) {
  const auto expected = calls.one_by_one();
  const auto sequence = calls.sequence();
  EXPECT_EQ(sequence->variant(), "");
  EXPECT_TRUE(calls.left_by([&] { sequence->enqueue(calls.ready.front()->queue, {}); }) == expected);
}

/// A product by itself, and between products that one launch does not compute: those of more rows, which another
/// computes or none, of codes as A, of another type; and one whose caller asks for the codes that it makes.
TEST(OpenClFusedProducts, OtherCallsStayWhatTheyWere) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  for (const auto& device : tensor_cores()) {
    Listed codes = listed(of(2, 256, 256)), many = listed(of(65, 256, 256)), halfs = listed(of(2, 256, 256));
    codes.c.a_source = DType::none;
    halfs.c.a_source = DType::f16;
    codes.c.options = {};
    const Listed few = listed(of(2, 256, 256));
    Calls calls(*device, {few, codes, few, halfs, many, few, listed(of(17, 256, 256)), few});
    backend::GemmArgs& shown = calls.ready[5]->args;
    shown.a_quantized = {device->create_buffer(512), 0, 512};
    shown.a_quantized_scale = {device->create_buffer(16), 0, 16};
    expect_launches_of_their_own(calls);
  }
}

/// A driver that does not build the launch leaves the calls as they were.
TEST(OpenClFusedProducts, WhatIsNotBuiltStaysLaunchesOfTheirOwn) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  const TempDir folder;
  for (const EmbeddedSource& source : embedded_sources()) {
    std::string text;
    for (const char* piece : source.pieces) text += piece;
    folder.file(std::string(source.name), source.name.starts_with("fused_products") ? "#error" : text);
  }
  Config config;
  config.kernel_dir = folder.path().string();
  config.trial_program = IRONCL_TRIAL_PROGRAM;
  const Made made = make(config);
  for (const auto& device : made.devices) {
    if (!dynamic_cast<Device&>(*device).context()->features.ptx_sm_90) continue;
    for (const std::int64_t m : {2, 40}) {
      Calls calls(*device, {listed(of(m, 256, 256)), listed(of(m, 256, 256), 0)});
      expect_launches_of_their_own(calls);
    }
  }
}

/// Twice as many work-groups as run at once: those that run do not meet the others. The launch ends, and leaves all
/// ready for one that has its work-groups.
TEST(OpenClFusedProducts, ALaunchWhoseWorkGroupsDoNotMeetGivesUp) {
  if (tensor_cores().empty()) GTEST_SKIP() << "no device of compute capability 9.0";
  std::vector<std::pair<std::shared_ptr<backend::Device>, std::int64_t>> devices_and_rows;
  for (const auto& device : tensor_cores())
    devices_and_rows.insert(devices_and_rows.end(), {{device, 16}, {device, 64}});
  constexpr std::size_t kWords = FUSED_PRODUCT_WORDS, kTurn = FUSED_MOST_PRODUCTS + 2, kTable = FUSED_COUNTERS / 2;
  for (const auto& [device, rows] : devices_and_rows) {
    // Of the codes of 16 or 64 rows of 12288 values every work-group makes some.
    Calls calls(*device, {listed(of(rows, 4096, 12288)), listed(of(rows, 512, 4096), 0)});
    const auto sequence = calls.sequence();
    const auto expected = calls.left_by([&] { sequence->enqueue(calls.ready.front()->queue, {}); });
    const auto context = dynamic_cast<Device&>(*device).context();
    const Features& f = context->features;
    Defines defines = quantizer_defines(f, DType::bf16, DType::e4m3fn, {});
    defines.merge(
        Defines{{"FLOOR_BITS", std::to_string(std::bit_cast<std::uint32_t>(numerics::Quantizer{}.amax_floor)) + "u"},
                {"QUANTISE", "1"},
                {"A_TYPE", kernel_number(DType::e4m3fn)},
                {"B_TYPE", kernel_number(DType::e4m3fn)},
                {"D_TYPE", kernel_number(DType::bf16)},
                {"BIAS_TYPE", "0"},
                {"B_SCALE_COLS", "128"}});
    const bool few = rows == 16;
    if (few) defines["TILE_M"] = "16";
    const std::string name = few ? "fused_products" : "fused_products_wgmma";
    const cl::Program program =
        context->builder->build(name + ".cl", defines, quantizer_options(f), few ? kOpenclC : kPtxSm90a);
    cl::Kernel kernel(program, name.c_str()), note(program, "note_address");
    const cl::CommandQueue queue = own(calls.ready.front()->queue).native();
    const std::size_t made = 96 * static_cast<std::size_t>(rows) * (128 + 4);
    const std::size_t unmade_at = kTable + FUSED_MOST_PRODUCTS * kWords, made_end = unmade_at + made / 4;
    // Behind the codes counters of tiles, 128 and 16, and parts.
    std::vector<cl_ulong> words(made_end, ~cl_ulong{0});
    if (!few) words.resize(made_end + 72 + 2 * static_cast<std::size_t>(f.compute_units) * FUSED_PART_BYTES / 8);
    std::fill_n(words.begin(), unmade_at, 0);
    for (std::size_t i = 0; i < 2; ++i) {
      const backend::GemmDesc& p = dynamic_cast<const Gemm&>(*calls.ready[i]->plan).choice().problem;
      const auto pair = [](std::int64_t low, std::int64_t high) { return static_cast<cl_ulong>(low | high << 32); };
      const cl_ulong of_product[] = {pair(p.lda, p.ldd), pair(p.m, p.n), pair(p.k / 128, p.k / 128), 128 * i};
      std::copy(std::begin(of_product), std::end(of_product), &words[kTable + i * kWords + 5]);
    }
    const std::size_t bytes = words.size() * sizeof(cl_ulong);
    const cl::Buffer workspace(context->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, words.data());
    bind<NoteAddressArg::words>(note, workspace);
    for (std::size_t i = 0; i < 2; ++i) {
      const Ready& r = *calls.ready[i];
      const DeviceWeights& weights =
          static_cast<const Weights&>(*r.args.weights).in(*dynamic_cast<const Gemm&>(*r.plan).weight_form());
      std::size_t place = kTable + i * kWords;
      for (const cl::Buffer* memory :
           {&weights.codes, &weights.scales, &own(r.args.a.buffer).memory(), &own(r.args.d.buffer).memory()}) {
        bind_memory<NoteAddressArg::memory>(note, {memory, 0}, 1);
        bind<NoteAddressArg::place>(note, place++);
        queue.enqueueNDRangeKernel(note, cl::NullRange, cl::NDRange(1), cl::NDRange(1));
      }
    }
    bind<FusedProductsArg::count>(kernel, 2);
    bind<FusedProductsArg::made_bytes>(kernel, made);
    bind<FusedProductsArg::workspace>(kernel, workspace);
    const std::size_t items = few ? 32 * (FUSED_WARPS + 1) : FUSED_WGMMA_ITEMS;
    const auto launched = [&](int groups_of_unit, int waits) {
      bind<FusedProductsArg::waits>(kernel, waits);
      const auto groups = static_cast<std::size_t>(groups_of_unit * f.compute_units);
      return calls.left_by([&] {
        queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(groups * items), cl::NDRange(items));
      });
    };
    const auto given_up = launched(2, 2000);
    for (const std::vector<std::uint8_t>& d : given_up)
      for (std::size_t at = 0; at < d.size(); at += 2) {
        const int bits = d[at] | d[at + 1] << 8;
        ASSERT_TRUE((bits & 0x7f80) == 0x7f80 && bits != 0xffff) << "element " << at / 2 << " is no NaN, or poison";
      }
    std::vector<cl_ulong> after(words.size());
    queue.enqueueReadBuffer(workspace, CL_TRUE, 0, bytes, after.data());
    EXPECT_TRUE(std::all_of(after.begin(), after.begin() + kTurn / 2, [](cl_ulong word) { return word == 0; }));
    EXPECT_EQ(static_cast<cl_uint>(after[kTurn / 2]), 2u);
    EXPECT_TRUE(
        std::equal(after.begin() + unmade_at, after.begin() + made_end + (few ? 0 : 72), words.begin() + unmade_at));
    EXPECT_TRUE(launched(1, 1 << 24) == expected);
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
