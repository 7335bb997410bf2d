// SPDX-License-Identifier: Apache-2.0
// ironcl model, on the real Ironwood plugin: its JSON, its trace, its search, its refusals.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "host/cli/model.h"
#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace json = boost::json;
using ironcl::numerics::ScaleRounding;

Outcome model(const std::vector<std::string>& words) { return ironcl_command(with({"model"}, words), Plugins::real); }

const std::vector<std::string> kSmall = {"--m", "1024", "--n", "1024", "--k", "1024", "--block", "512"};

TEST(ModelCommand, WritesTheReportThatProgramsRead) {
  const json::value report = model(with(kSmall, {"--kernel-blocks", "512,512,512", "--json", "-"})).json();
  for (const char* path : {"/time_us", "/compute_us", "/hbm_us", "/bound", "/hbm_bytes", "/steps", "/fetches/x",
                           "/fetches/w", "/fetches/x_scale", "/fetches/w_scale", "/writes/out", "/vmem/formula_bytes",
                           "/vmem/footprint_bytes", "/vmem/limit_bytes", "/mxu_utilisation"}) {
    boost::system::error_code error;
    EXPECT_NE(report.find_pointer(path, error), nullptr) << path;
  }
  EXPECT_EQ(report.at("steps"), json::value(8));
  EXPECT_EQ(report.at("time_kind"), json::value("modelled"));
}

TEST(ModelCommand, EveryTypeOfCodesHasAShareOfThePeak) {
  for (const char* tpu : {"7x", "v6e"}) {  // without a rate of its own for int8, and with one
    for (const char* x : {"bf16", "e5m2", "i8"}) {
      for (const char* w : {"e4m3fn", "i8"}) {
        const Outcome outcome =
            prints(model(with(kSmall, {"--x-dtype", x, "--w-dtype", w, "--tpu", tpu, "--json", "-"})), 0, {});
        const double share = outcome.json().at("mxu_utilisation").to_number<double>();
        EXPECT_GT(share, 0) << x << " " << w << " on " << tpu;
        EXPECT_LE(share, 1) << x << " " << w << " on " << tpu;
      }
    }
  }
}

TEST(ModelCommand, SaysThatNothingIsMeasured) {
  prints(model(with(kSmall, {"--kernel-blocks", "512,512,512"})), 0, {"modelled, none is measured", "MXU "});
}

TEST(ModelCommand, WritesAChromeTrace) {
  const Scratch scratch;
  const std::string file = scratch.path("trace.json");
  const Outcome outcome = prints(model(with(kSmall, {"--trace", file})), 0, {});
  EXPECT_GT(outcome.json(file).at("traceEvents").as_array().size(), 10u);
}

TEST(ModelCommand, WritesItsMachinesWhereItIsTold) {
  const Scratch scratch;
  const std::string file = scratch.path("machines.json");
  const Outcome outcome = prints(model({"--machines", "--json", file}), 0, {});
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.json(file), model({"--machines"}).json());
}

TEST(ModelCommand, SearchFindsBlocksThatAreNoSlowerThanAligned) {
  const json::value report = model(with(kSmall, {"--search", "--json", "-"})).json();
  EXPECT_GE(report.at("speedup_over_aligned").to_number<double>(), 1.0);
  EXPECT_FALSE(report.at("frontier").as_array().empty());
}

TEST(ModelCommand, ModelsTheLayersOfACheckpoint) {
  const json::value report = model({"--layers", data_file("tiny-qwen3-fp8"), "--m", "16", "--json", "-"}).json();
  EXPECT_GT(report.at("layers").as_array().size(), 2u);
  EXPECT_GT(report.at("time_us").to_number<double>(), 0);
}

TEST(ModelCommand, CarriesTheTypeOfTheOutputOfAProblemAndOfLayers) {
  const auto out_of = [](const char* type, std::vector<std::string> words) {
    return model(with(std::move(words), {"--out-dtype", type, "--json", "-"})).json();
  };
  const json::value wide = out_of("f32", kSmall), narrow = out_of("bf16", kSmall);
  EXPECT_EQ(wide.at("problem").at("out_dtype"), json::value("f32"));
  EXPECT_EQ(narrow.at("problem").at("out_dtype"), json::value("bf16"));
  const std::vector<std::string> layers = {"--layers", data_file("tiny-deepseek-fp8"), "--m", "16"};
  const json::value wide_layers = out_of("f32", layers), narrow_layers = out_of("bf16", layers);
  ASSERT_FALSE(wide_layers.at("layers").as_array().empty());
  for (std::size_t i = 0; i < wide_layers.at("layers").as_array().size(); ++i) {
    const json::value &of_f32 = wide_layers.at("layers").at(i), &of_bf16 = narrow_layers.at("layers").at(i);
    EXPECT_EQ(of_f32.at("problem").at("out_dtype"), json::value("f32"));
    EXPECT_EQ(of_bf16.at("problem").at("out_dtype"), json::value("bf16"));
    const std::int64_t lanes = (of_f32.at("problem").at("n").to_number<std::int64_t>() + 127) / 128 * 128;
    EXPECT_EQ(of_f32.at("hbm_bytes").to_number<std::int64_t>() - of_bf16.at("hbm_bytes").to_number<std::int64_t>(),
              2 * 16 * lanes)
        << "D is written once, in whole lanes, two bytes an element more";
  }
}

TEST(ModelCommand, CarriesTheRoundingOfScalesThatACheckpointAsksFor) {
  ironcl::cli::ModelOptions options;
  options.m = 16;
  const auto roundings = [&](const char* checkpoint) {
    std::set<ScaleRounding> found;
    for (const auto& layer : ironcl::cli::model_layers(data_file(checkpoint), "*", options).layers) {
      EXPECT_NE(layer.problem.a_source, ironcl::numerics::DType::none) << layer.name << ": it quantises activations";
      found.insert(layer.problem.a_quantizer.rounding);
    }
    return found;
  };
  EXPECT_EQ(roundings("tiny-deepseek-fp8"), std::set{ScaleRounding::power_of_two}) << "ue8m0";
  EXPECT_EQ(roundings("tiny-qwen3-fp8"), std::set{ScaleRounding::exact});
}

const std::vector<std::string> kExperts = {"--experts",      "16",  "--top-k",  "4",  "--hidden", "1024",
                                           "--intermediate", "512", "--tokens", "32", "--seed",   "3"};

TEST(ModelCommand, ShowsALayerOfExpertsByEveryKernel) {
  const json::value report = model(with(kExperts, {"--json", "-"})).json();
  EXPECT_EQ(report.at("time_kind"), json::value("modelled"));
  const json::array& programs = report.at("programs").as_array();
  ASSERT_EQ(programs.size(), 3u);
  const char* const names[] = {"gmm_v1", "gmm_v2", "fused_moe"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(programs[i].at("program"), json::value(names[i]));
    EXPECT_GT(programs[i].at("time_us").to_number<double>(), 0);
  }
  const json::object& gate_up = programs[1].at("products").at(0).as_object();
  EXPECT_EQ(gate_up.at("problem").at("n"), json::value(1024));
  EXPECT_EQ(gate_up.at("grouped").at("rows"), json::value(128));
  EXPECT_EQ(gate_up.at("grouped").at("matrices_with_rows"), report.at("experts_hit"));
  EXPECT_EQ(programs[2].at("layer").at("rows"), json::value(128));
  // The time of a layer is that of its parts.
  double sum = programs[1].at("between").at("time_us").to_number<double>();
  for (const json::value& product : programs[1].at("products").as_array()) {
    sum += product.at("time_us").to_number<double>();
  }
  EXPECT_NEAR(programs[1].at("time_us").to_number<double>(), sum, 1e-9 * sum);
}

TEST(ModelCommand, MakesALoadFromItsSeedAndSkew) {
  const auto most = [](const std::vector<std::string>& more) {
    const json::value report = model(with(kExperts, with({"--json", "-"}, more))).json();
    return report.at("most_rows").to_number<int>();
  };
  EXPECT_EQ(most({}), most({}));
  EXPECT_GT(most({"--skew", "2"}), most({}));
  EXPECT_LE(most({"--skew", "9"}), 32);  // no token names an expert twice
}

TEST(ModelCommand, TracesExpertsAProcessEach) {
  const Scratch scratch;
  const std::string file = scratch.path("trace.json");
  const Outcome outcome = prints(model(with(kExperts, {"--trace", file})), 0, {"fused_moe"});
  std::set<std::string> processes;
  const json::value trace = outcome.json(file);
  for (const json::value& event : trace.at("traceEvents").as_array()) {
    if (event.at("name") == json::value("process_name")) {
      processes.insert(std::string(event.at("args").at("name").as_string()));
    }
  }
  EXPECT_EQ(processes.size(), 5u);
  EXPECT_EQ(processes.count("gmm_v2, down, modelled"), 1u);
}

TEST(ModelCommand, LeavesAKernelOutThatDoesNotTakeTheLayer) {
  const std::vector<std::string> odd = {"--experts",      "8",   "--top-k",  "2", "--hidden", "576",
                                        "--intermediate", "192", "--tokens", "4"};
  prints(model(odd), 0, {"multiples of 128"});
  EXPECT_EQ(model(with(odd, {"--program", "fused_moe"})).status, 4);
  EXPECT_EQ(model(with(odd, {"--program", "gmm_v1"})).status, 0);
}

TEST(ModelCommand, SaysWhatIsWrongWithAQuestion) {
  struct Row {
    std::vector<std::string> words;
    int status;
    const char* says;
  };
  for (const Row& row :
       {Row{{"--m", "1"}, 2, "--n is missing"}, Row{{"--experts", "8", "--tokens", "4"}, 2, "--hidden is missing"},
        Row{with(kExperts, {"--program", "pipeline"}), 2, "fused_moe are accepted"},
        Row{with(kExperts, {"--search"}), 2, "rules of their own"},
        Row{{"--experts", "4", "--top-k", "8", "--tokens", "1", "--hidden", "256", "--intermediate", "256"},
            2,
            "is more than"},
        Row{with(kSmall, {"--assume", "nonsense=1"}), 2, "launch_ns"}, Row{with(kSmall, {"--tpu", "v99"}), 2, "v99"},
        Row{with(kSmall, {"--kernel-blocks", "512,500,512"}), 4, "multiple of"},
        Row{with(kSmall, {"--kernel-blocks", "8192,8192,8192"}), 4, "VMEM"},
        Row{{"--m", "8", "--n", "8", "--k", "8", "--block", "48"}, 4, "multiple of 32"},
        Row{with(kSmall, {"--device", "ironwood:7"}), 4, "ironwood:7"}}) {
    complains(model(row.words), row.status, {row.says});
  }
}

}  // namespace
