// SPDX-License-Identifier: Apache-2.0
// What the model says: the worked example of the closed forms, published measurements, traces, searches, the table.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <map>

#include "backends/ironwood/model_report.h"
#include "backends/ironwood/plan.h"
#include "backends/ironwood/program.h"
#include "backends/ironwood/search.h"
#include "tests/ironwood/harness.h"

namespace ironcl::ironwood::testing {
namespace {

namespace json = boost::json;

json::object query(const char* key, const Case& c) {
  const auto desc = c.desc();
  return json::parse(device().query(key, &desc)).as_object();
}

double number(const json::object& report, const char* path) {
  return json::value(report).at_pointer(path).to_number<double>();
}

/// bf16 x quantised in the kernel by Q x Q blocks, bf16 out.
Case published(std::int64_t size, std::int64_t q, backend::Options options) {
  return {.m = size,
          .n = size,
          .k = size,
          .a_source = DType::bf16,
          .d = DType::bf16,
          .a_grid = {q, q},
          .b_grid = {q, q},
          .options = std::move(options)};
}

std::string cube(std::int64_t block) { return fmt::format("{},{},{}", block, block, block); }

TEST(IronwoodModel, GivesTheBytesAndTimesOfTheWorkedExample) {
  struct Row {
    std::int64_t block, q;
    double steps, gigabytes, hbm_us;
    const char* bound;
  };
  // 4096 cubed, bf16 x and out, fp8 w, at 3.69e12 B/s.
  for (const Row& row : {Row{128, 128, 32768, 1.644, 446, "memory"},
                         {256, 256, 4096, 0.839, 227, "memory"},
                         {512, 512, 512, 0.436, 118, "memory"},
                         {1024, 512, 64, 0.235, 63.7, "compute"},
                         {2048, 512, 8, 0.134, 36.4, "compute"}}) {
    const auto report = query("model", published(4096, row.q, {{"kernel_blocks", cube(row.block)}}));
    EXPECT_EQ(number(report, "/steps"), row.steps);
    EXPECT_NEAR(number(report, "/hbm_bytes"), row.gigabytes * 1e9, 0.01 * row.gigabytes * 1e9) << row.block;
    EXPECT_NEAR(number(report, "/hbm_us"), row.hbm_us, 0.01 * row.hbm_us) << row.block;
    EXPECT_EQ(report.at("bound").as_string(), row.bound) << row.block;
    // Memory bound: the simulated time is the transfers', and the launch.
    if (report.at("bound") == "memory") {
      EXPECT_NEAR(number(report, "/time_us"), row.hbm_us + 1.6, 0.01 * row.hbm_us) << row.block;
    }
    const double waste = row.q == 128 ? 4 : 1;  // a 128-wide block fills a quarter of the array
    EXPECT_NEAR(number(report, "/compute_us"), 59.57 * waste, 0.01 * 59.57 * waste) << row.block;
  }
}

TEST(IronwoodModel, IsNearThePublishedBf16MeasurementsWithOneSetOfConstants) {
  struct Row {
    std::int64_t n;
    double us;
  };
  const double tera = 1e6;
  const Row rows[] = {{128, 1.62},
                      {256, 1.83},
                      {512, 2.55},
                      {1024, 6.14},
                      {2048, 25.3},
                      {4096, 153.9},
                      {16384, 2.0 * std::pow(16384.0, 3) / 950.1 / tera}};
  for (const auto& [hbm, limit] : {std::pair{"1", 0.16}, std::pair{"0.7", 0.12}}) {
    for (const Row& row : rows) {
      const Case c{
          .m = row.n,
          .n = row.n,
          .k = row.n,
          .a = DType::bf16,
          .b = DType::bf16,
          .d = DType::bf16,
          .b_scale = DType::none,
          .options = {{"kernel_blocks", cube(std::min<std::int64_t>(row.n, 1024))}, {"hbm_efficiency", hbm}}};
      const double model = number(query("model", c), "/time_us");
      EXPECT_NEAR(model / row.us, 1, limit) << row.n << ": modelled " << model << " us, published " << row.us;
    }
  }
}

TEST(IronwoodModel, BothProgramsFetchByTheClosedFormsOnEveryGridUpToFive) {
  for (const char* program : {"pipeline", "manual_dma"}) {
    for (std::int64_t nb = 1; nb <= 5; ++nb) {
      for (std::int64_t no = 1; no <= 5; ++no) {
        for (std::int64_t ni = 1; ni <= 5; ++ni) {
          const Case c{.m = nb * 128,
                       .n = no * 128,
                       .k = ni * 128,
                       .a_source = DType::bf16,
                       .d = DType::bf16,
                       .a_grid = {128, 128},
                       .options = {{"kernel_blocks", "128,128,128"}, {"program", program}}};
          const auto report = query("model", c);
          const auto x = static_cast<double>(ni > 1 ? nb * no * ni : nb);
          const auto w = static_cast<double>(no > 1 && ni > 1 ? nb * no * ni
                                             : no > 1         ? nb * no
                                             : ni > 1         ? nb * ni
                                                              : 1);
          EXPECT_EQ(number(report, "/fetches/x"), x) << program << nb << no << ni;
          EXPECT_EQ(number(report, "/fetches/x_scale"), x) << program << nb << no << ni;
          EXPECT_EQ(number(report, "/fetches/w"), w) << program << nb << no << ni;
          EXPECT_EQ(number(report, "/fetches/w_scale"), w) << program << nb << no << ni;
          EXPECT_EQ(number(report, "/writes/out"), static_cast<double>(nb * no)) << program << nb << no << ni;
        }
      }
    }
  }
}

TEST(IronwoodModel, OneBufferIsSlowerAndDeeperOnesAreNoSlower) {
  for (const char* program : {"pipeline", "manual_dma"}) {
    const auto time = [&](const char* buffers) {
      return number(
          query("model",
                published(4096, 512,
                          {{"kernel_blocks", "1024,1024,1024"}, {"buffers", buffers}, {"program", program}})),
          "/time_us");
    };
    EXPECT_GT(time("1"), 1.4 * time("2"));
    EXPECT_LE(time("3"), time("2") * 1.0001);
  }
}

TEST(IronwoodModel, BothProgramsFetchAndStoreTheSameBlocks) {
  for (const char* blocks : {"512,512,512", "512,1024,4096", "4096,512,512", "1024,512,4096"}) {
    const auto one = query("model", published(4096, 512, {{"kernel_blocks", blocks}}));
    const auto two = query("model", published(4096, 512, {{"kernel_blocks", blocks}, {"program", "manual_dma"}}));
    EXPECT_EQ(one.at("fetches"), two.at("fetches")) << blocks;
    EXPECT_EQ(one.at("writes"), two.at("writes")) << blocks;
    EXPECT_NEAR(number(one, "/time_us"), number(two, "/time_us"), 0.02 * number(one, "/time_us")) << blocks;
  }
}

TEST(IronwoodModel, DynamicSizesMakeARaggedBatchCheaper) {
  Case c{.m = 1056,
         .n = 4096,
         .k = 4096,
         .a_source = DType::bf16,
         .d = DType::bf16,
         .options = {{"kernel_blocks", "1024,512,1024"}, {"program", "pipeline"}}};
  const double fixed = number(query("model", c), "/busy_us/mxu");
  c.options.back().second = "manual_dma";
  EXPECT_LT(number(query("model", c), "/busy_us/mxu"), 0.6 * fixed);
}

TEST(IronwoodModel, KeepingTheQuantisedBlockSavesVectorWorkAndTakesVmem) {
  const auto report = [](const char* keep) {
    return query("model", published(2048, 512, {{"kernel_blocks", "512,512,2048"}, {"save_x_q", keep}}));
  };
  EXPECT_LT(number(report("on"), "/busy_us/vpu"), number(report("off"), "/busy_us/vpu"));
  EXPECT_EQ(number(report("on"), "/vmem/footprint_bytes") - number(report("off"), "/vmem/footprint_bytes"),
            512 * 2048);
}

TEST(IronwoodModel, SaysWhichVmemLimitsAPlanPasses) {
  const auto report =
      query("model", published(4096, 512, {{"kernel_blocks", "2048,2048,2048"}, {"vmem_limit_mib", "128"}}));
  EXPECT_EQ(number(report, "/vmem/formula_bytes"), 96'469'376);
  EXPECT_EQ(number(report, "/vmem/limit_bytes"), 128.0 * kMiB);
  const auto& against = report.at("vmem").at("against");
  EXPECT_EQ(against.at("physical").at("limit_bytes").to_number<std::int64_t>(), 64 * kMiB);
  EXPECT_FALSE(against.at("physical").at("formula").as_bool());
  EXPECT_FALSE(against.at("default_scoped").at("footprint").as_bool());
}

TEST(IronwoodModel, RefusesByFormulaOrByFootprintWithBlocksThatFit) {
  const auto ask = [](const std::string& blocks, const char* rule, const char* limit) {
    return device().supports(
        published(4096, 512, {{"kernel_blocks", blocks}, {"vmem_rule", rule}, {"vmem_limit_mib", limit}}).desc());
  };
  EXPECT_EQ(ask("2048,2048,2048", "footprint", "64").reason, backend::Reason::none);
  for (const auto& [rule, limit, bytes] :
       {std::array{"formula", "64", "96469376"}, std::array{"footprint", "48", "58736640"},
        std::array{"footprint", "32", "33554432"}}) {
    const auto answer = ask("2048,2048,2048", rule, limit);
    EXPECT_EQ(answer.reason, backend::Reason::device_memory) << rule << limit;
    EXPECT_NE(answer.text.find(bytes), std::string::npos) << answer.text;
    EXPECT_LT(answer.text.size(), 224u);
    const auto at = answer.text.find("nearest that fit: ");
    ASSERT_NE(at, std::string::npos) << answer.text;
    const std::string blocks = answer.text.substr(at + 18);
    EXPECT_EQ(ask(blocks, rule, limit).reason, backend::Reason::none) << blocks;
  }
}

TEST(IronwoodModel, EveryTpuHasATime) {
  double last = 0;
  for (const Tpu& tpu : all_tpus()) {
    const auto report =
        query("model", published(1024, 256, {{"tpu", std::string(tpu.key)}, {"kernel_blocks", "256,256,256"}}));
    EXPECT_GT(number(report, "/time_us"), 1.6) << tpu.key;
    EXPECT_EQ(report.at("time_kind").as_string(), "modelled");
    EXPECT_FALSE(tpu.source.empty());
    last = number(report, "/time_us");
  }
  EXPECT_GT(last, 0);
}

TEST(IronwoodTrace, HasNamedTracksOnWhichNothingOverlaps) {
  const auto trace = query("trace", published(1024, 512, {{"kernel_blocks", "512,512,512"}}));
  std::map<std::int64_t, std::string> names;
  std::map<std::int64_t, double> busy_until;
  std::map<std::string, int> spans;
  for (const auto& item : trace.at("traceEvents").as_array()) {
    const auto& event = item.as_object();
    if (event.at("name") == "thread_name") {
      names[event.at("tid").to_number<std::int64_t>()] = std::string(event.at("args").at("name").as_string());
    }
    if (event.at("ph") != "X") continue;
    const auto track = event.at("tid").to_number<std::int64_t>();
    const double start = event.at("ts").to_number<double>();
    EXPECT_GE(start, busy_until[track] - 1e-9) << names[track];
    busy_until[track] = start + event.at("dur").to_number<double>();
    ++spans[names[track]];
  }
  // 2 x 2 x 2 steps.
  EXPECT_EQ(spans["MXU"], 8);
  EXPECT_EQ(spans["DMA in x"], 8);
  EXPECT_EQ(spans["DMA in w"], 8);
  EXPECT_EQ(spans["DMA out out"], 4);
  EXPECT_EQ(trace.at("otherData").at("time_kind").as_string(), "modelled");
}

TEST(IronwoodSearch, FindsTheBestOfEveryBlockSize) {
  Problem problem;
  ASSERT_FALSE(read_problem(published(1024, 256, {}).desc(), &problem));
  SearchResult result;
  ASSERT_FALSE(search_blocks(problem, {}, &result));
  double best = 1e300;
  for (std::int64_t b = 256; b <= 1024; b += 256) {
    for (std::int64_t o = 256; o <= 1024; o += 256) {
      for (std::int64_t i = 256; i <= 1024; i += 256) {
        PlanRequest request;
        request.blocks = KernelBlocks{b, o, i};
        Plan plan;
        if (make_plan(problem, request, &plan)) continue;
        best = std::min(best, run_program(plan, describe_operands(plan, 1024), nullptr, nullptr).core.end_ns);
      }
    }
  }
  EXPECT_LE(result.best().time_ns, best * 1.0001);
  EXPECT_LE(result.best().time_ns, result.aligned.time_ns);
  for (std::size_t i = 1; i < result.frontier.size(); ++i) {
    EXPECT_LT(result.frontier[i].time_ns, result.frontier[i - 1].time_ns);
    EXPECT_GT(result.frontier[i].footprint_bytes, result.frontier[i - 1].footprint_bytes);
  }
}

TEST(IronwoodSearch, StaysUnderTheVmemLimit) {
  Problem problem;
  ASSERT_FALSE(read_problem(published(4096, 256, {}).desc(), &problem));
  PlanRequest request;
  request.vmem_limit = 4 * kMiB;
  SearchResult result;
  ASSERT_FALSE(search_blocks(problem, request, &result));
  EXPECT_GT(result.over_limit, 0);
  for (const Candidate& candidate : result.frontier) EXPECT_LE(candidate.footprint_bytes, request.vmem_limit);
}

TEST(IronwoodTunedTable, IsUsedForItsShapesAndAlignedIsTheFallback) {
  const auto source = [](const Case& c) { return std::string(query("model", c).at("blocks_from").as_string()); };
  for (const std::int64_t size : {1024, 2048, 4096, 8192}) {
    for (const std::int64_t q : {128, 256, 512})
      EXPECT_EQ(source(published(size, q, {})), "tuned") << size << " " << q;
  }
  for (const std::int64_t m : {1, 7, 128, 4096}) {
    Case c{.m = m, .n = 576, .k = 7168, .a_source = DType::bf16, .d = DType::bf16};
    EXPECT_EQ(source(c), "tuned");
    c.n = 577;
    const auto miss = query("model", c);
    EXPECT_EQ(miss.at("blocks_from").as_string(), "aligned");
    EXPECT_EQ(json::serialize(miss.at("kernel_blocks")), "[128,128,128]");
  }
}

TEST(IronwoodTunedTable, IsWhatTheSearchGivesToday) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1024, 1024, 1024}, {16, 576, 7168}, {4096, 3072, 1024}}) {
    const Case c{.m = m, .n = n, .k = k, .a_source = DType::bf16, .d = DType::bf16};
    const auto search = query("search", c);
    EXPECT_EQ(search.at("best").at("kernel_blocks"), query("model", c).at("kernel_blocks"))
        << c.line() << ": make the table again, docs/ironwood.md has the command";
  }
}

}  // namespace
}  // namespace ironcl::ironwood::testing
