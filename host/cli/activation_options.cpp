// SPDX-License-Identifier: Apache-2.0
// The options that say what is multiplied.
#include "host/cli/activation_options.h"

#include <limits>

#include "host/cli/compare_report.h"
#include "host/cli/parse_option.h"

namespace ironcl::cli {

ActivationOptions::ActivationOptions(CLI::App& app, bool may_make_up) : app_(app) {
  app.add_option("PATH", path, "checkpoint folder, or one safetensors file")->option_text(" ")->required();
  CLI::Option* given = add_tensor_ref(app, "--input FILE:TENSOR", given_.input, 1,
                                      "activations [M, K], f32, f16 or bf16; devices quantise them");
  add_tensor_ref(app, "--input-q FILE:VALUES,SCALES", given_.input_q, 2, "activations as fp8 codes with their scales")
      ->excludes(given);
  add_value(app, "--m M", given_.m,
            may_make_up ? "rows (default: all of the input, 16 where random)" : "rows (default: all)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{std::numeric_limits<std::int32_t>::max()}));
  if (may_make_up) {
    add_value(app, "--seed N", given_.seed, "seed of the random activations used without an input (default: 1)")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 53));  // which every JSON reader keeps
  }
  add_dtype(app, "--x-dtype", given_.x_dtype, {DType::f32, DType::f16, DType::bf16},
            "what devices get: f32, f16 or bf16 (default: the input's type; bf16 where random)");
  add_out_dtype(app, out);
  add_block(app, "--block", block_, "weight block where neither file nor shapes say it: 128x128, 1x128, 1xall");
  add_block(app, "--x-block", given_.x_block,
            "block of the activations' scales (default: what the file says,\nelse 1 x the width of a weight block)");
  app.add_flag("--weight-only", given_.weight_only,
               "leave activations unquantised, whatever the layer says, as engines do that\n"
               "dequantise weights")
      ->excludes(app.get_option("--x-block"))
      ->excludes(app.get_option("--input-q"));
  add_accuracy(app, accuracies, may_make_up);
  add_tensor_ref(app, "--routing FILE:IDS,WEIGHTS", routing, 2,
                 "experts and weights of each token of a layer of experts, in place of the\n"
                 "router's");
}

const layer::ActivationSource& ActivationOptions::source() const {
  if (!given_.input_q.empty() && given_.x_dtype)
    usage("--x-dtype is about values, and --input-q brings codes; leave it out");
  return given_;
}

checkpoint::Checkpoint ActivationOptions::open_checkpoint() const {
  return checkpoint::Checkpoint::open(path, {.block = block_});
}

std::vector<std::filesystem::path> ActivationOptions::inputs(const checkpoint::Checkpoint& checkpoint,
                                                             const std::vector<std::string>& named) const {
  std::vector<std::filesystem::path> files = checkpoint.sources();
  std::vector<std::string> refs = named;
  refs.insert(refs.end(), {given_.input, given_.input_q, routing});
  for (const std::string& ref : refs)
    if (!ref.empty()) files.emplace_back(ref.substr(0, ref.rfind(':')));
  return files;
}

void ActivationOptions::check_for_experts(const std::string& name) const {
  if (given_.input_q.empty() && !given_.x_block) return;
  usage("{} is a layer of experts, whose x is quantised on the device in its own groups; give --input", name);
}

std::string ActivationOptions::command_tail(bool devices) const {
  std::string tail;
  for (const CLI::Option* option : app_.get_options()) {
    const std::string name = option->get_lnames().empty() ? "" : option->get_lnames().front();
    if (option->count() == 0 || name.empty() || name == "layer" || name == "json") continue;
    if (name == "device" && !devices) continue;
    for (const std::string& value : option->results())
      tail += " --" + name + (option->get_expected_max() == 0 ? "" : " " + shell_word(value));
  }
  return tail;
}

}  // namespace ironcl::cli
