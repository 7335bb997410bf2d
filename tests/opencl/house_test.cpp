// SPDX-License-Identifier: Apache-2.0
// The house takes what is new as new files: a variant of a test with its own form of activations, a trial and a
// toolchain runs whole plans; and what selection, toolchains and the builder promise of such variants.
#include <condition_variable>
#include <thread>

#include "backends/opencl/device.h"
#include "backends/opencl/forms/forms.h"
#include "backends/opencl/gemm.h"
#include "backends/opencl/select.h"
#include "backends/opencl/tuned.h"
#include "tests/opencl/own_kernels.h"
#include "tests/opencl/own_kernels/gemm_transposed.h"

namespace ironcl::opencl::testing {
namespace {

namespace fs = std::filesystem;
using backend::DType;
using backend::Error;
using backend::Status;

class OpenClHouse : public OwnKernels {};

TEST_F(OpenClHouse, ANewVariantWithItsOwnFormTrialAndToolchainRunsWholePlans) {
  auto made = with({gemm_transposed});
  for (const auto& device : made.devices) {
    std::uint32_t seed = 900;
    const int before = rewritings();
    for (const DType source : {DType::none, DType::bf16}) {
      for (const auto& [m, n, k] :
           std::vector<std::tuple<int, int, int>>{{1, 17, 129}, {5, 100, 300}, {9, 64, 640}}) {
        Case c{.m = m, .n = n, .k = k, .a_source = source, .bias = DType::f32, .a_grid = {1, 64}, .seed = ++seed};
        const Outcome outcome = run(*device, c, make_data(c));
        EXPECT_EQ(outcome.info.variant, "gemm_transposed") << "chosen by its estimate, not by name";
        expect_right(outcome, c, device->props().name);
        const auto plan = std::dynamic_pointer_cast<Gemm>(device->create_gemm(c.desc()));
        const auto names = source == DType::none ? std::vector<std::string>{"pack transposed", "gemm_transposed"}
                                                 : std::vector<std::string>{"quantize rows", "quantize rows",
                                                                            "pack transposed", "gemm_transposed"};
        EXPECT_EQ(plan->step_names(), names);
      }
    }
    EXPECT_GT(rewritings(), before);
    EXPECT_NE(device->query("variants", nullptr).find("counted-1"), std::string::npos);
  }
}

TEST_F(OpenClHouse, AVariantWhoseTrialFailsIsPassedOverWithTheReason) {
  auto made = with({gemm_transposed_wrong});
  for (const auto& device : made.devices) {
    Case c{5, 100, 300};
    EXPECT_NE(run(*device, c, make_data(c)).info.variant, "gemm_transposed_wrong");
    const backend::GemmDesc desc = c.desc();
    EXPECT_NE(device->query("features", nullptr).find("1 elements are wrong, the first at [2, 5]"), std::string::npos)
        << device->query("features", nullptr);
    EXPECT_NE(device->query("candidates", &desc).find("gemm_transposed_wrong: does not work on this device"),
              std::string::npos);
    c.options = {{"variant", "gemm_transposed_wrong"}};
    expect_lacks(*device, c, "the first at [2, 5]");
  }
}

/// A variant of one type alone, which is not the usual one.
Variant of_bytes() {
  Variant v = another("of_bytes", "gemm_tiled");
  v.products = integer_codes();
  v.trial = Trial{};
  return v;
}

TEST_F(OpenClHouse, FeaturesSayHowTheTrialOfEveryTypeWent) {
  const auto made = with_file(of_bytes, "#include \"gemm_tiled.cl\"\n");
  for (const auto& device : made.devices) {
    const std::string features = device->query("features", nullptr);
    EXPECT_NE(features.find("\"of_bytes\":\"right\""), std::string::npos) << features;
  }
}

TEST_F(OpenClHouse, ATwoStepProgramComesFromTheCacheAsOneOfItsToolchain) {
  const std::string cache = (dir_ / "cache").string();
  const auto once = [&](std::size_t index) {
    auto made = with({gemm_transposed}, cache);
    Case c{5, 100, 300};
    expect_right(run(*made.devices[index], c, make_data(c)), c, made.devices[index]->props().name);
    return dynamic_cast<Device&>(*made.devices[index]).context()->builder->counts();
  };
  for (std::size_t index = 0; index < devices().size(); ++index) {
    fs::remove_all(cache);
    EXPECT_GT(once(index).from_source, 0);
    const int before = rewritings();
    EXPECT_EQ(once(index).from_source, 0);
    EXPECT_EQ(rewritings(), before) << "a program from the cache was rewritten again";
  }
}

TEST_F(OpenClHouse, AWeakerClassIsTakenOnlyWhereItIsAllowed) {
  auto made = with({gemm_transposed_weak});
  for (const auto& device : made.devices) {
    backend::GemmDesc desc = Case{5, 100, 300}.desc();
    EXPECT_NE(device->create_gemm(desc)->info().variant, "gemm_transposed");
    EXPECT_EQ(device->supports(desc).accuracy, backend::AccuracyClass::f32);
    EXPECT_NE(device->query("choice", &desc).find("gemm_transposed is of class tensor14"), std::string::npos);
    desc.weakest_accuracy = backend::AccuracyClass::tensor14;
    EXPECT_EQ(device->create_gemm(desc)->info().variant, "gemm_transposed");
    EXPECT_EQ(device->supports(desc).accuracy, backend::AccuracyClass::tensor14);
    desc.weakest_accuracy = backend::AccuracyClass::f32;
    desc.options = {{"variant", "gemm_transposed"}};
    EXPECT_EQ(device->supports(desc).reason, backend::Reason::accuracy);
  }
}

TEST_F(OpenClHouse, ACallThatFailsBetweenItsLaunchesLeavesNothingRunning) {
  auto made = with({gemm_transposed_failing});
  for (const auto& device : made.devices) {
    const auto& context = dynamic_cast<Device&>(*device).context();
    Case c{.m = 3, .n = 64, .k = 256, .options = {{"variant", "gemm_transposed"}}};
    const Data data = make_data(c);
    const Outcome whole = run(*device, c, data);
    expect_right(whole, c, device->props().name);

    Ready ready(*device, c);
    backend::GemmArgs& args = ready.args;
    args.m = 2;
    cl::UserEvent gate(context->context);
    args.wait = {
        std::make_shared<Event>(context, std::vector<cl::Event>{gate}, std::vector<std::shared_ptr<Event>>{})};
    std::atomic<bool> opened{false};
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      opened = true;
      gate.setStatus(CL_COMPLETE);
    });
    EXPECT_THROW(ready.plan->enqueue(ready.queue, args), Error);
    EXPECT_TRUE(opened) << "the error came while the first kernels still waited to run";
    opener.join();
    // The plan and the queue are as good as before.
    args.wait.clear();
    args.m = 3;
    EXPECT_EQ(ready.plan->enqueue(ready.queue, args)->wait(kForEver), Status::ok);
  }
}

TEST(OpenClForms, ComeBackBitForBitAndHaveEveryNumberInTheirNames) {
  Random random(5);
  const auto form_name = [](std::int64_t n_block, std::int64_t run, std::int64_t unit) {
    return blocked_form(n_block, run, unit)->name();
  };
  EXPECT_NE(form_name(32, 1, 16), form_name(16, 1, 16));
  EXPECT_NE(form_name(32, 1, 16), form_name(32, 2, 16));
  EXPECT_NE(form_name(32, 1, 16), form_name(32, 1, 64));
  for (const auto& form :
       {blocked_form(32, 1, 16), blocked_form(0, 16, 64), blocked_form(8, 4, 16), blocked_form(5, 3, 9)}) {
    for (const auto& [n, k, ld] : std::vector<std::tuple<int, int, int>>{
             {1, 1, 1}, {33, 100, 103}, {31, 64, 64}, {64, 65, 80}, {7, 130, 130}}) {
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(n * ld));
      for (auto& code : codes) code = static_cast<std::uint8_t>(random.next() >> 7 | 1);
      const WeightExtent extent = form->extent(n, k, 3);
      ASSERT_GE(extent.code_bytes.value(), n * k);
      std::vector<std::uint8_t> packed(extent.code_bytes.bytes(), 0xee), back(static_cast<std::size_t>(n * k), 0xee);
      form->pack(n, k, codes.data(), ld, packed.data());
      form->unpack(n, k, packed.data(), back.data());
      std::size_t zeros = 0;
      for (const std::uint8_t code : packed) zeros += code == 0 ? 1 : 0;
      EXPECT_EQ(zeros, packed.size() - back.size()) << form->name() << ": padding is zero codes, all of it";
      for (int row = 0; row < n; ++row)
        for (int col = 0; col < k; ++col)
          ASSERT_EQ(back[static_cast<std::size_t>(row * k + col)], codes[static_cast<std::size_t>(row * ld + col)])
              << form->name() << " " << n << "x" << k;
    }
  }
}

TEST(OpenClToolchains, MarkedLinesOfPtxBecomeInstructions) {
  const std::string ptx =
      ".version 8.7\n.target sm_90, debug\n.entry f(\n)\n.reqntid 384, 1, 1\n{\n//sm_90a wgmma.fence;\nret; // "
      "sm_90a\n}\n";
  const std::string text = rewrite_to_sm_90a(ptx + std::string(3, '\0'));
  EXPECT_EQ(text,
            std::string(".version 8.7\n.target sm_90a, debug\n.entry f(\n)\n.reqntid 384, 1, 1\n.minnctapersm 1\n{\n"
                        "wgmma.fence;\nret; // sm_90a\n}\n") +
                '\0');
  const std::string four = rewrite_at_once(ptx + "//at_once 4\n" + std::string(2, '\0'));
  EXPECT_NE(four.find(".reqntid 384, 1, 1\n.minnctapersm 4\n"), std::string::npos) << four;
  EXPECT_EQ(rewrite_at_once(ptx), ptx);
  EXPECT_THROW(rewrite_to_sm_90a("poclbin"), std::invalid_argument);
  EXPECT_THROW(rewrite_to_sm_90a(".target sm_80\n"), std::invalid_argument);
  EXPECT_THROW(rewrite_to_sm_90a(".target sm_900\n"), std::invalid_argument);
}

/// Builds under way that have met another one, or waited in vain.
struct Meeting {
  std::mutex mutex;
  std::condition_variable both;
  int inside = 0;
  bool alone = false;
};
Meeting& meeting() {
  static Meeting one;
  return one;
}
std::string meet(const std::string& binary) {
  std::unique_lock lock(meeting().mutex);
  ++meeting().inside;
  meeting().both.notify_all();
  if (!meeting().both.wait_for(lock, std::chrono::seconds(20), [] { return meeting().inside >= 2; }))
    meeting().alone = true;
  return binary;
}

TEST_F(OpenClHouse, ProgramsBuildAtTheSameTimeAndEachOnce) {
  for (const auto& device : devices()) {
    auto& builder = *dynamic_cast<Device&>(*device).context()->builder;
    meeting().inside = 0;
    const Toolchain toolchain{"meeting", false, "", meet};
    const std::string source = "__kernel void f(__global int* x) { *x = NUMBER; }";
    const auto build = [&](const char* number) {
      EXPECT_NO_THROW(builder.build_text("a test", source, {{"NUMBER", number}}, "", toolchain));
    };
    {
      std::vector<std::thread> threads;
      for (const char* const number : {"1", "2", "1", "2"}) threads.emplace_back(build, number);
      for (std::thread& thread : threads) thread.join();
    }
    EXPECT_FALSE(meeting().alone) << "a build waited for another to end";
    EXPECT_EQ(meeting().inside, 2) << "who asks for a program that is being built waits for it";
    // A build that failed is not remembered.
    EXPECT_THROW(builder.build_text("a test", "__kernel void broken(", {}), Error);
    EXPECT_THROW(builder.build_text("a test", "__kernel void broken(", {}), Error);
  }
}

Features features_of(int width, std::uint32_t units, std::uint64_t local, bool gpu) {
  Features f;
  f.type = gpu ? backend::DeviceType::gpu : backend::DeviceType::cpu;
  f.local_is_dedicated = gpu;
  f.vector_width = width;
  f.compute_units = units;
  f.local_bytes = local;
  f.max_work_group = gpu ? 1024 : 4096;
  f.max_buffer_bytes = std::uint64_t{1} << 34;
  f.clock_hz = 2e9;
  return f;
}

TEST(OpenClSelection, TakesTheKernelsOfCpusAndGpusWhereTheyWereMeasuredToBeBest) {
  const auto taken = [](const Features& f, std::int64_t m, std::int64_t n, std::int64_t k) {
    Case c{m, n, k};
    Choice choice;
    EXPECT_EQ(choose(f, c.desc(), &choice).reason, backend::Reason::none);
    return choice.variant == nullptr ? std::string() : choice.variant->name;
  };
  for (const auto& [n, k] : std::vector<std::pair<int, int>>{
           {4096, 4096}, {7168, 16384}, {2112, 7168}, {512, 7168}, {24576, 1536}, {4096, 512}, {1536, 1536}}) {
    for (const std::uint32_t cores : {2u, 4u, 8u, 16u}) {
      // Few columns for many cores: there the finer work-groups of gemm_stream may be taken longer. Measured is 2
      // cores.
      if (cores > 2 && (n == 512 || n == 2112)) continue;
      const Features cpu = features_of(16, cores, 2 << 20, false);
      for (const std::int64_t m : {1, 2, 5, 8, 14, 16, 17, 24, 28, 32})
        EXPECT_EQ(taken(cpu, m, n, k), "gemm_stream") << m << "x" << n << "x" << k << ", cores " << cores;
      for (const std::int64_t m : {33, 40, 48, 64, 100, 128, 1024, 4096})
        EXPECT_EQ(taken(cpu, m, n, k), "gemm_panel") << m << "x" << n << "x" << k << ", cores " << cores;
    }
    const Features gpu = features_of(1, 132, 47 << 10, true);
    for (const std::int64_t m : {1, 4, 8, 16}) EXPECT_EQ(taken(gpu, m, n, k), "gemm_skinny") << m << " " << n;
    if (n == 512) continue;  // Few columns for many units: which is better was not measured.
    for (const std::int64_t m : {64, 128, 4096}) EXPECT_EQ(taken(gpu, m, n, k), "gemm_tiled") << m << " " << n;
  }
}

TEST(OpenClSelection, TablesOfAClassServeProblemsThatAllowIt) {
  const Features f = features_of(16, 2, 2 << 20, false);
  backend::GemmDesc desc = Case{64, 4096, 4096}.desc();
  std::vector<Variant> all(variants().begin(), variants().end());
  const auto chosen = [&](const std::string& dtype, const std::string& more) {
    const auto tables =
        read_tables({{tuned::file_name(tuned::Key{4096, 4096, "cpu", dtype, 128, 128}),
                      R"({"64": {"ironcl": {"variant": "gemm_tiled", "options": {"tile_m": "8"})" + more + "}}}"}},
                    nullptr);
    Choice choice;
    EXPECT_EQ(choose({f, all}, desc, &choice, tables.get()).reason, backend::Reason::none);
    return choice.variant->name;
  };
  EXPECT_EQ(table_dtype(desc), "fp8_w8a8");
  EXPECT_NE(chosen("fp8_w8a8_tensor14", ""), "gemm_tiled") << "that table is not for class f32";
  desc.weakest_accuracy = backend::AccuracyClass::tensor14;
  EXPECT_EQ(table_dtype(desc), "fp8_w8a8_tensor14");
  EXPECT_EQ(chosen("fp8_w8a8_tensor14", ""), "gemm_tiled");
  EXPECT_EQ(chosen("fp8_w8a8", ""), "gemm_tiled") << "nothing weaker would be taken";
  for (Variant& variant : all)
    if (variant.name == "gemm_panel") variant.accuracy = backend::AccuracyClass::tensor14;
  EXPECT_EQ(chosen("fp8_w8a8", ""), "gemm_panel") << "the fastest of class f32 is not the fastest here";
  EXPECT_EQ(chosen("fp8_w8a8_tensor14", R"(, "accuracy_class": "f32")"), "gemm_tiled");
}

TEST(OpenClSelection, TilesOfManyMatricesAreForTheRowsThatTheyMayHave) {
  const Features cpu = features_of(16, 2, 2 << 20, false);
  const auto taken = [&](std::int64_t m, std::int64_t matrices) {
    backend::GemmDesc desc = Case{m, 1536, 2048}.desc();
    if (matrices != 0) desc.grouping = backend::Grouping::contiguous;
    desc.matrices = matrices;
    Choice choice;
    EXPECT_EQ(choose(cpu, desc, &choice).reason, backend::Reason::none);
    return choice;
  };
  // Two rows a matrix, but one in twenty has five and more: they too are to be decoded for once.
  const Choice few = taken(64, 32);
  EXPECT_EQ(few.variant->name, "gemm_stream");
  EXPECT_GE(few.tuning.at("tile_m"), 5);
  // 128 rows on average are ten tiles of 13, but half of the matrices have more.
  const Choice many = taken(4096, 32);
  EXPECT_EQ(many.variant->name, "gemm_panel");
  EXPECT_GT(many.tuning.at("tile_m") * many.tuning.at("block_m"), 140);
  for (const std::int64_t m : {1, 19, 70, 1000}) {
    const Choice one = taken(m, 1), dense = taken(m, 0);
    EXPECT_EQ(one.variant, dense.variant) << m << " rows of one matrix are the dense problem";
    EXPECT_EQ(one.tuning, dense.tuning) << m;
  }
}

TEST(OpenClSelection, ATunedEntryOfAWeakerClassIsPassedOver) {
  const Features f = features_of(16, 2, 2 << 20, false);
  backend::GemmDesc desc = Case{64, 4096, 4096}.desc();
  const auto chosen = [&](const std::string& more) {
    const TunedTable text{tuned::file_name(tuned::Key{4096, 4096, "cpu", "fp8_w8a8", 128, 128}),
                          R"({"64": {"ironcl": {"variant": "gemm_tiled", "options": {"tile_m": "8"})" + more + "}}}"};
    const auto tables = read_tables({text}, nullptr);
    Choice choice;
    EXPECT_EQ(choose(f, desc, &choice, tables.get()).reason, backend::Reason::none);
    return choice.variant->name;
  };
  EXPECT_EQ(chosen(""), "gemm_tiled") << "tables from before there were classes are of f32";
  EXPECT_EQ(chosen(R"(, "accuracy_class": "f32")"), "gemm_tiled");
  EXPECT_NE(chosen(R"(, "accuracy_class": "tensor14")"), "gemm_tiled");
  EXPECT_NE(chosen(R"(, "accuracy_class": "of tomorrow")"), "gemm_tiled");
  desc.weakest_accuracy = backend::AccuracyClass::tensor14;
  EXPECT_EQ(chosen(R"(, "accuracy_class": "tensor14")"), "gemm_tiled");

  // A table whose entry names a variant that has become weaker since.
  desc.weakest_accuracy = backend::AccuracyClass::f32;
  std::vector<Variant> all(variants().begin(), variants().end());
  for (Variant& variant : all)
    if (variant.name == "gemm_tiled") variant.accuracy = backend::AccuracyClass::tensor14;
  const auto tables = read_tables({{tuned::file_name(tuned::Key{4096, 4096, "cpu", "fp8_w8a8", 128, 128}),
                                    R"({"64": {"ironcl": {"variant": "gemm_tiled", "options": {}}}})"}},
                                  nullptr);
  Choice choice;
  EXPECT_EQ(choose({f, all}, desc, &choice, tables.get()).reason, backend::Reason::none);
  EXPECT_EQ(choice.source, "rule of thumb");
}

}  // namespace
}  // namespace ironcl::opencl::testing
