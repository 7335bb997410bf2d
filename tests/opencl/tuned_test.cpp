// SPDX-License-Identifier: Apache-2.0
// Tuned tables at the time of planning, and the space that a tuner searches. No device: made-up features.
#include "backends/opencl/tuned.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>

#include "backends/opencl/backend.h"
#include "backends/opencl/select.h"
#include "tests/errors.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

Features cpu() {
  Features f;
  f.type = backend::DeviceType::cpu;
  f.name = "pthread-skylake-avx512-AMD EPYC";
  f.vendor = "AuthenticAMD";
  f.platform = "Portable Computing Language";
  f.compute_units = 2;
  f.max_work_group = 4096;
  f.local_bytes = 512 * 1024;
  f.max_buffer_bytes = std::uint64_t{1} << 32;
  f.vector_width = 16;
  return f;
}

backend::GemmDesc problem(std::int64_t m = 64, std::int64_t n = 4096, std::int64_t k = 7168,
                          std::int64_t block = 128) {
  return Case{.m = m, .n = n, .k = k, .b_grid = {block, block}}.desc();
}

/// An entry of gemm_tiled whose tile_m is `tile_m`: not what a CPU's rule of thumb takes.
std::string entry(const std::string& tile_m, const std::string& more = "") {
  return R"({"64": {"ironcl": {"variant": "gemm_tiled", "options": {"tile_m": ")" + tile_m +
         R"(", "tile_n": "16", "tile_k": "16", "work_m": "1", "work_n": "4"})" + more + "}}}";
}

TunedTable table(const std::string& device, const std::string& text, std::int64_t n = 4096, std::int64_t k = 7168) {
  return {tuned::file_name(tuned::Key{n, k, device, "fp8_w8a8", 128, 128}), text};
}

/// A table of a layer of 32 experts of width 768 whose entry has two rows for each that is hit.
TunedTable experts_table(const std::string& tile_m, bool down) {
  return {tuned::file_name(tuned::Key{768, 0, "cpu", "fp8_w8a8", 128, 128, 32, down}),
          entry(tile_m, R"(, "rows_per_expert": 2.3)")};
}

Choice choice_of(const std::vector<TunedTable>& texts, const backend::GemmDesc& desc,
                 const Features& features = cpu()) {
  const auto tables = read_tables(texts, nullptr);
  Choice choice;
  const backend::Support support = choose(features, desc, &choice, tables.get());
  EXPECT_EQ(support.reason, backend::Reason::none) << support.text;
  return choice;
}

struct Lines final : backend::Log {
  void write(backend::LogLevel, const std::string& line) override { text += line + "\n"; }
  std::string text;
};

TEST(OpenClTuned, WeightsOfOtherSizesHaveTablesOfTheirOwn) {
  backend::GemmDesc desc = problem();
  EXPECT_EQ(table_dtype(desc), "fp8_w8a8");
  EXPECT_EQ(choice_of({table("cpu", entry("8"))}, desc).variant->name, "gemm_tiled");
  desc.b = DType::e2m1;
  EXPECT_EQ(table_dtype(desc), "fp4_w4a8");
  EXPECT_EQ(choice_of({table("cpu", entry("8"))}, desc).source, "rule of thumb") << "tuned for twice the bytes";
  desc.a = DType::f32;
  desc.a_scale = {};
  EXPECT_EQ(table_dtype(desc), "fp4_w4a16");
  desc.b = DType::bf16;
  desc.b_scale = {};
  EXPECT_EQ(table_dtype(desc), "bf16_w16a16");
}

TEST(OpenClTuned, NamesADeviceFromItselfToItsKind) {
  EXPECT_EQ(device_classes(cpu()), (std::vector<std::string>{"pthread-skylake-avx512-AMD_EPYC",
                                                             "pthread-skylake-avx512", "AuthenticAMD", "cpu"}));
  Features f = cpu();
  f.name = "cpu-tigerlake-11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz";
  EXPECT_EQ(device_classes(f)[1], "cpu-tigerlake");
  f.name = "cpu-" + std::string(4 << 20, 'a');  // Drivers say what they like; that must not take the stack.
  EXPECT_EQ(device_classes(f).size(), 3u);
  f = cpu();
  struct Answers final : Trials {
    std::string why_not(const Variant& variant) override { return right.count(variant.name) != 0 ? "" : "wrong"; }
    std::set<std::string> right;
  } trials;
  const auto first_class = [&] { return device_classes({f, variants(), &trials})[0]; };
  const std::string plain = "pthread-skylake-avx512-AMD_EPYC";
  trials.right = {"gemm_amx", "gemm_bf16"};
  EXPECT_EQ(first_class(), plain) << "the processor does not name the units";
  f.amx_why_not.clear();
  f.dot_products_why_not.clear();
  EXPECT_EQ(device_classes({f, variants(), &trials}),
            (std::vector<std::string>{"pthread-skylake-avx512-AMD_EPYC-amx", "pthread-skylake-avx512-amx",
                                      "AuthenticAMD-amx", "cpu-amx"}))
      << "what was the fastest without tiles says nothing here";
  trials.right = {"gemm_bf16"};
  EXPECT_EQ(first_class(), plain + "-bf16") << "a unit that the system refuses is none";
  f.dot_products_of_bf16 = 0.25;
  EXPECT_EQ(first_class(), plain) << "nobody takes dot products that are slower than multiply-adds";
  f.dot_products_of_bf16 = 1;
  trials.right = {};
  EXPECT_EQ(first_class(), plain);
  f = {};
  f.type = backend::DeviceType::gpu;
  f.name = "NVIDIA H200";
  f.vendor = "NVIDIA Corporation";
  f.platform = "NVIDIA CUDA";
  EXPECT_EQ(device_classes(f), (std::vector<std::string>{"NVIDIA_H200", "NVIDIA_Corporation", "gpu"}));
  f.platform = "Portable Computing Language";
  EXPECT_EQ(device_classes(f)[0], "pocl-NVIDIA_H200") << "another driver is another device";
}

TEST(OpenClTuned, TakesAnEntryBeforeTheRuleOfThumbAndSaysFromWhere) {
  const Choice choice = choice_of({table("pthread-skylake-avx512-AMD_EPYC", entry("8"))}, problem());
  EXPECT_EQ(choice.variant->name, "gemm_tiled");
  EXPECT_EQ(choice.tuning.at("tile_m"), 8);
  EXPECT_NE(choice.source.find("N=4096,K=7168"), std::string::npos) << choice.source;
  EXPECT_NE(choice.source.find("M=64"), std::string::npos) << choice.source;
  EXPECT_EQ(choice_of({}, problem()).source, "rule of thumb");
}

TEST(OpenClTuned, GoesFromTheDeviceToItsArchitectureToItsKind) {
  const TunedTable device = table("pthread-skylake-avx512-AMD_EPYC", entry("8"));
  const TunedTable architecture = table("pthread-skylake-avx512", entry("16"));
  const TunedTable kind = table("cpu", entry("32"));
  EXPECT_EQ(choice_of({kind, architecture, device}, problem()).tuning.at("tile_m"), 8);
  EXPECT_EQ(choice_of({kind, architecture}, problem()).tuning.at("tile_m"), 16);
  EXPECT_EQ(choice_of({kind}, problem()).tuning.at("tile_m"), 32);
  EXPECT_EQ(choice_of({table("NVIDIA_H200", entry("8"))}, problem()).source, "rule of thumb");
}

TEST(OpenClTuned, PassesOverWhatIsNotValidHere) {
  const TunedTable good = table("cpu", entry("32"));
  const auto first = [](const std::string& text) { return table("pthread-skylake-avx512-AMD_EPYC", text); };
  // A value that the variant does not have; a tunable and a variant that are not there; no number.
  EXPECT_EQ(choice_of({first(entry("7")), good}, problem()).tuning.at("tile_m"), 32);
  EXPECT_EQ(choice_of({first(entry("8x")), good}, problem()).tuning.at("tile_m"), 32);
  EXPECT_EQ(choice_of({first(R"({"64": {"ironcl": {"variant": "gemm_gone", "options": {}}}})"), good}, problem())
                .tuning.at("tile_m"),
            32);
  EXPECT_EQ(choice_of({first(R"({"64": {"ironcl": {"variant": "gemm_tiled", "options": {"gone": "1"}}}})"), good},
                      problem())
                .tuning.at("tile_m"),
            32);
  // A rule between tunables (tile_n under work_n cannot be; tile_k over the K group can).
  const std::string wide = R"({"64": {"ironcl": {"variant": "gemm_tiled", "options": {"tile_k": "64"}}}})";
  backend::GemmDesc narrow = problem();
  narrow.a_scale.grid.group_cols = narrow.b_scale.grid.group_cols = narrow.b_scale.grid.group_rows = 32;
  const TunedTable of_32{tuned::file_name(tuned::Key{4096, 7168, "cpu", "fp8_w8a8", 32, 32}), wide};
  EXPECT_EQ(choice_of({of_32}, narrow).source, "rule of thumb");
  // More local memory than there is.
  Features small = cpu();
  small.local_bytes = 16 * 1024;
  const std::string large =
      R"({"64": {"ironcl": {"variant": "gemm_tiled", "options": {"tile_m": "128", "tile_n": "128", "tile_k": "64"}}}})";
  EXPECT_EQ(choice_of({first(large)}, problem(), small).source, "rule of thumb");
}

TEST(OpenClTuned, PassesOverWhatWasMeasuredOnADeviceOfAnotherSize) {
  const auto units = [](const char* count) {
    return table("pthread-skylake-avx512-AMD_EPYC", entry("8", std::string(R"(, "compute_units": )") + count));
  };
  EXPECT_EQ(choice_of({units("4")}, problem()).variant->name, "gemm_tiled");
  EXPECT_EQ(choice_of({units("96")}, problem()).source, "rule of thumb");
}

TEST(OpenClTuned, LooksNoFartherThanItIsOfUse) {
  const TunedTable at_64 = table("cpu", entry("8"));
  EXPECT_EQ(choice_of({at_64}, problem(256)).variant->name, "gemm_tiled");
  EXPECT_EQ(choice_of({at_64}, problem(257)).source, "rule of thumb");
  EXPECT_EQ(choice_of({at_64}, problem(15)).source, "rule of thumb");
  EXPECT_EQ(choice_of({at_64}, problem(64, 2048, 7168)).variant->name, "gemm_tiled");
  EXPECT_EQ(choice_of({at_64}, problem(64, 512, 7168)).source, "rule of thumb");
}

TEST(OpenClTuned, TakesTheRuleOfThumbWhereAnEntrySaysThatItIsBest) {
  const TunedTable kept = table("pthread-skylake-avx512-AMD_EPYC", entry("8", R"(, "is_rule_of_thumb": true)"));
  EXPECT_EQ(choice_of({kept, table("cpu", entry("32"))}, problem()).source, "rule of thumb");
}

TEST(OpenClTuned, MakesTheRuleOfThumbOnceForACallerWhoAllowsAWeakerClass) {
  static int made = 0;
  std::vector<Variant> all(variants().begin(), variants().end());
  Variant& weak = all.emplace_back(*find_variant("gemm_panel"));
  weak.name = "gemm_weak";
  weak.accuracy = backend::AccuracyClass::tensor14;
  weak.rule_of_thumb = [](const Features& f, const Problem& p) {
    ++made;
    return find_variant("gemm_panel")->rule_of_thumb(f, p);
  };
  weak.estimate_ns = [](const Tuning&, const Problem&, const Features&) { return 1e-3; };
  const auto tables = read_tables({table("cpu", entry("8"))}, nullptr);
  const Features features = cpu();
  backend::GemmDesc desc = problem();
  desc.weakest_accuracy = backend::AccuracyClass::tensor14;
  Choice choice;
  EXPECT_EQ(choose({features, all}, desc, &choice, tables.get()).reason, backend::Reason::none);
  EXPECT_EQ(choice.variant->name, "gemm_weak") << "faster than the entry of class f32";
  EXPECT_EQ(made, 1);
}

TEST(OpenClTuned, OneMatrixTakesTheTablesOfTheDenseProblem) {
  backend::GemmDesc one = problem();
  one.grouping = backend::Grouping::contiguous;
  one.matrices = 1;
  const auto tables = {table("cpu", entry("32"))};
  const Choice dense = choice_of(tables, problem()), grouped = choice_of(tables, one);
  EXPECT_EQ(grouped.source, dense.source);
  EXPECT_EQ(grouped.tuning, dense.tuning);
  EXPECT_EQ(grouped.tuning.at("tile_m"), 32);
}

TEST(OpenClTuned, PassesOverTilesThatWouldBeMostlyPadding) {
  const TunedTable tile_of_64 = table("cpu", entry("64"));
  EXPECT_EQ(choice_of({tile_of_64}, problem(64)).variant->name, "gemm_tiled");
  EXPECT_EQ(choice_of({tile_of_64}, problem(128)).variant->name, "gemm_tiled");
  EXPECT_EQ(choice_of({tile_of_64}, problem(65)).source, "rule of thumb");       // 128 rows for 65
  EXPECT_EQ(choice_of({tile_of_64}, problem(100)).variant->name, "gemm_tiled");  // 128 rows for 100
}

TEST(OpenClTuned, PassesOverTilesThatWouldReadTheWeightsTwice) {
  const auto of_rows = [](const std::string& m) {
    std::string text = entry("8");
    return table("cpu", text.replace(text.find("64"), 2, m));
  };
  const TunedTable tile_of_8 = of_rows("8");
  EXPECT_EQ(choice_of({tile_of_8}, problem(8)).variant->name, "gemm_tiled");
  EXPECT_EQ(choice_of({tile_of_8}, problem(7)).variant->name, "gemm_tiled");
  EXPECT_EQ(choice_of({tile_of_8}, problem(16)).source, "rule of thumb") << "a second tile of eight";
  EXPECT_EQ(choice_of({of_rows("16")}, problem(16)).variant->name, "gemm_tiled") << "measured so";
}

TEST(OpenClTuned, UsesTablesOfBlocksOf128ForWiderBlocks) {
  EXPECT_EQ(choice_of({table("cpu", entry("8"))}, problem(64, 4096, 7168, 512)).variant->name, "gemm_tiled");
}

TEST(OpenClTuned, LeavesAProblemWithOptionsToThem) {
  backend::GemmDesc desc = problem();
  desc.options = {{"variant", "gemm_panel"}};
  const Choice choice = choice_of({table("cpu", entry("8"))}, desc);
  EXPECT_EQ(choice.variant->name, "gemm_panel");
  EXPECT_EQ(choice.source, "options");
}

TEST(OpenClTuned, LetsAnOverlayWin) {
  EXPECT_EQ(choice_of({table("cpu", entry("8")), table("cpu", entry("32"))}, problem()).tuning.at("tile_m"), 32);
}

TEST(OpenClTuned, SaysOfABrokenTableWhatIsWrongAndGoesOn) {
  Lines log;
  const auto tables = read_tables({{"readme.json", "{}"}, table("cpu", "no JSON"), table("cpu", entry("8"))}, &log);
  EXPECT_FALSE(tables->empty());
  EXPECT_NE(log.text.find("readme.json: not a name of the form"), std::string::npos) << log.text;
  EXPECT_NE(log.text.find("must be JSON"), std::string::npos) << log.text;
}

TEST(OpenClTuned, ShipsOnlyEntriesThatThisBuildUnderstands) {
  for (const TunedTable& shipped : embedded_tables()) {
    ASSERT_TRUE(tuned::parse_file_name(shipped.file_name)) << shipped.file_name;
    const tuned::Table parsed = tuned::Table::parse(shipped.text);
    for (const auto& [m, value] : parsed.entries()) {
      const tuned::Entry config = tuned::entry_of(value);
      if (config.variant.empty()) continue;
      const Variant* variant = find_variant(config.variant);
      ASSERT_NE(variant, nullptr) << shipped.file_name << ": M=" << m << ": " << config.variant;
      for (const auto& option : config.options) {
        const auto &name = option.first, &text = option.second;
        const auto tunable = std::find_if(variant->tunables.begin(), variant->tunables.end(),
                                          [&](const Tunable& t) { return t.name == name; });
        ASSERT_NE(tunable, variant->tunables.end()) << shipped.file_name << ": M=" << m << ": " << name;
        EXPECT_TRUE(std::any_of(tunable->values.begin(), tunable->values.end(),
                                [&](int v) { return std::to_string(v) == text; }))
            << shipped.file_name << ": M=" << m << ": " << name << "=" << text;
      }
      EXPECT_TRUE(value.at("ironcl").at("checked").as_bool()) << shipped.file_name << ": M=" << m;
    }
  }
}

boost::json::object candidates_of(const backend::GemmDesc& desc, const Features& features = cpu()) {
  return boost::json::parse(candidates_json(features, desc)).as_object();
}

backend::GemmDesc with_options(backend::GemmDesc desc, const boost::json::value& candidate) {
  desc.options = {{"variant", candidate.at("variant").as_string().c_str()}};
  for (const auto& option : candidate.at("options").as_object())
    desc.options.emplace_back(std::string(option.key()), option.value().as_string().c_str());
  return desc;
}

TEST(OpenClCandidates, AreEachOnceAndAllOfThemRun) {
  Features f = cpu();
  f.local_bytes = 40 * 1024;
  const auto answer = candidates_of(problem(), f);
  std::set<std::string> seen;
  for (const auto& candidate : answer.at("candidates").as_array()) {
    EXPECT_TRUE(seen.insert(boost::json::serialize(candidate)).second) << candidate;
    EXPECT_EQ(choose(f, with_options(problem(), candidate), nullptr).reason, backend::Reason::none) << candidate;
    EXPECT_LE(candidate.at("local_memory_bytes").to_number<std::uint64_t>(), f.local_bytes) << candidate;
  }
  EXPECT_GT(seen.size(), 100u);
}

TEST(OpenClCandidates, AndDroppedOnesAreTheWholeSpace) {
  const auto answer = candidates_of(problem());
  std::uint64_t space = 0;
  for (const Variant& variant : variants()) {
    std::uint64_t combinations = 1;
    for (const Tunable& tunable : variant.tunables) combinations *= tunable.values.size();
    space += combinations;
  }
  std::uint64_t counted = answer.at("candidates").as_array().size();
  for (const auto& reason : answer.at("dropped").as_array()) counted += reason.at("count").to_number<std::uint64_t>();
  EXPECT_EQ(counted, space);
}

TEST(OpenClCandidates, OfAVariantThatIsThinnedOutHaveEveryValue) {
  Features f = cpu();
  f.type = backend::DeviceType::gpu;  // processors try gemm_skinny first
  const auto answer = candidates_of(problem(4096), f);
  std::set<std::string> thinned;
  for (const auto& reason : answer.at("dropped").as_array()) {
    const std::string why = reason.at("why").as_string().c_str();
    if (why.ends_with(": thinned out evenly")) thinned.insert(why.substr(0, why.find(':')));
  }
  ASSERT_FALSE(thinned.empty());
  std::set<std::string> seen;  // "variant tunable value"
  for (const auto& candidate : answer.at("candidates").as_array())
    for (const auto& option : candidate.at("options").as_object())
      seen.insert(std::string(candidate.at("variant").as_string()) + " " + std::string(option.key()) + " " +
                  std::string(option.value().as_string()));
  for (const std::string& name : thinned)
    for (const Tunable& tunable : find_variant(name)->tunables)
      for (const int value : tunable.values)
        EXPECT_TRUE(seen.contains(name + " " + tunable.name + " " + std::to_string(value)))
            << name << " " << tunable.name << " " << value;
}

TEST(OpenClCandidates, HaveNoTileThatSplitsAScaleGroup) {
  backend::GemmDesc desc = problem();
  desc.a_scale.grid.group_cols = desc.b_scale.grid.group_cols = 32;
  const auto answer = candidates_of(desc);
  for (const auto& candidate : answer.at("candidates").as_array()) {
    if (const auto* tile_k = candidate.at("options").as_object().if_contains("tile_k")) {
      EXPECT_NE(tile_k->as_string(), "64") << candidate;
    }
  }
  bool counted = false;
  for (const auto& reason : answer.at("dropped").as_array())
    if (std::string(reason.at("why").as_string().c_str()).find("straddles two scale groups") != std::string::npos)
      counted = true;
  EXPECT_TRUE(counted) << answer.at("dropped");
}

TEST(OpenClCandidates, HaveNoTilesForMoreRowsThanThereAre) {
  const auto answer = candidates_of(problem(3));
  for (const auto& candidate : answer.at("candidates").as_array()) {
    if (candidate.at("variant").as_string() != "gemm_panel") continue;
    EXPECT_LE(std::stoi(candidate.at("options").at("tile_m").as_string().c_str()), 3) << candidate;
  }
  EXPECT_LT(answer.at("candidates").as_array().size(),
            candidates_of(problem(4096)).at("candidates").as_array().size());
}

TEST(OpenClCandidates, HoldTheRuleOfThumbAndComeInAFixedOrder) {
  for (const std::int64_t m : {1, 17, 128, 4096}) {
    const auto answer = candidates_of(problem(m));
    const auto& all = answer.at("candidates").as_array();
    EXPECT_NE(std::find(all.begin(), all.end(), answer.at("rule_of_thumb")), all.end()) << m;
  }
  EXPECT_EQ(candidates_json(cpu(), problem(17)), candidates_json(cpu(), problem(17)));
}

TEST(OpenClCandidates, AreNarrowedByOptions) {
  backend::GemmDesc desc = problem();
  desc.options = {{"variant", "gemm_tiled"}, {"tile_m", "64"}};
  const auto answer = candidates_of(desc);
  EXPECT_GT(answer.at("candidates").as_array().size(), 1u);
  for (const auto& candidate : answer.at("candidates").as_array()) {
    EXPECT_EQ(candidate.at("variant").as_string(), "gemm_tiled");
    EXPECT_EQ(candidate.at("options").at("tile_m").as_string(), "64");
  }
}

TEST(OpenClCandidates, AskForNoTrialOfWhatADeviceHasNot) {
  class Asked final : public Trials {
   public:
    std::string why_not(const Variant& variant) override {
      all.insert(variant.name);
      return {};
    }
    std::set<std::string> all;
  } asked;
  const Features f = cpu();
  const auto answer = boost::json::parse(candidates_json({f, variants(), &asked}, problem()));
  for (const std::string& name : asked.all)
    EXPECT_FALSE(find_variant(name)->needs != nullptr &&
                 find_variant(name)->needs(f, {128, 4096, 4096, 128, DType::e4m3fn, DType::e4m3fn, DType::f32}))
        << name;
  EXPECT_NE(boost::json::serialize(answer.at("dropped")).find("cl_amd_device_attribute_query"), std::string::npos)
      << answer.at("dropped");
}

TEST(OpenClCandidates, AreRefusedWithTheReasonOfSupports) {
  backend::GemmDesc desc = problem();
  desc.a = DType::i8;
  expect_error<backend::Error>(backend::Status::unsupported, "i8 goes with i8 only",
                               [&] { candidates_json(cpu(), desc); });
}

TEST(OpenClTuned, ProductsOfALayerOfExpertsTakeTheirTables) {
  const std::vector<TunedTable> tables{experts_table("16", false), experts_table("32", true)};
  const auto grouped = [](std::int64_t rows, std::int64_t n, std::int64_t k, std::int64_t tokens) {
    backend::GemmDesc desc = problem(rows, n, k);
    desc.grouping = backend::Grouping::contiguous;
    desc.matrices = 32;
    desc.a_rows = tokens;
    return desc;
  };
  const Choice up = choice_of(tables, grouped(64, 1536, 2048, 8)),
               down = choice_of(tables, grouped(64, 2048, 768, 0));
  EXPECT_EQ(up.source, "E=32,N=768,device_name=cpu,dtype=fp8_w8a8,block_shape=[128,128].json: T=64");
  EXPECT_EQ(up.variant->name, "gemm_tiled");
  EXPECT_EQ(up.tuning.at("tile_m"), 16);
  EXPECT_EQ(down.source, "E=32,N=768,device_name=cpu,dtype=fp8_w8a8,block_shape=[128,128]_down.json: T=64");
  EXPECT_EQ(down.tuning.at("tile_m"), 32);
  EXPECT_EQ(choice_of(tables, grouped(64, 768, 2048, 8)).tuning.at("tile_m"), 16) << "gate and up apart";
  EXPECT_EQ(choice_of(tables, grouped(64, 1536, 2048, 0)).tuning.at("tile_m"), 16)
      << "rows that were gathered before";
  EXPECT_EQ(choice_of(tables, grouped(4096, 1536, 2048, 512)).source, "rule of thumb")
      << "128 rows of an expert, not 2";
  EXPECT_EQ(choice_of(tables, problem(64, 1536, 2048)).source, "rule of thumb") << "a dense problem";
  // A capacity says nothing of the rows; the caller may.
  backend::GemmDesc masked = grouped(512, 1536, 2048, 0);
  masked.grouping = backend::Grouping::masked;
  EXPECT_EQ(choice_of(tables, masked).source, "rule of thumb");
  masked.options = {{"expected_rows", "2"}};
  EXPECT_EQ(choice_of(tables, masked).tuning.at("tile_m"), 16);
}

TEST(OpenClTuned, ExpectedRowsSteerTheChoiceOfMaskedProblems) {
  backend::GemmDesc masked = problem(4096, 1536, 2048);
  masked.grouping = backend::Grouping::masked;
  masked.matrices = 32;
  EXPECT_EQ(choice_of({}, masked).variant->name, "gemm_panel");
  masked.options = {{"expected_rows", "3"}};
  const Choice few = choice_of({}, masked);
  EXPECT_EQ(few.variant->name, "gemm_stream");
  EXPECT_LE(few.tuning.at("tile_m"), 12);
  EXPECT_EQ(few.source, "rule of thumb");
  const auto refused = [](const backend::GemmDesc& desc) {
    Choice choice;
    return error_of<backend::Error>([&] { choose(cpu(), desc, &choice); });
  };
  for (const char* wrong : {"0", "-3", "many", "4x", ""}) {
    masked.options = {{"expected_rows", wrong}};
    EXPECT_NE(refused(masked).find("expected_rows=" + std::string(wrong)), std::string::npos) << refused(masked);
  }
  backend::GemmDesc dense = problem();
  dense.options = {{"expected_rows", "3"}};
  EXPECT_NE(refused(dense).find("grouped"), std::string::npos) << refused(dense);
}

}  // namespace
}  // namespace ironcl::opencl::testing
