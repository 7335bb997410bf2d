// SPDX-License-Identifier: Apache-2.0
// What config.json and its like say about quantisation: the readers of each tool's form, and the words for those that
// are not read.
#include "host/checkpoint/quantization_config.h"

#include <boost/algorithm/string/case_conv.hpp>
#include <map>

#include "backends/words.h"
#include "host/checkpoint/json_input.h"

namespace ironcl::checkpoint {
namespace {

namespace json = boost::json;

QuantizationGroup& add_group(QuantizationConfig& result, std::vector<std::string> targets = {"Linear"}) {
  QuantizationGroup& group = result.groups.emplace_back();
  group.targets = ModuleNames(std::move(targets));
  return group;
}

/// The grid of quark's {qscheme, group_size}; empty, with `unsupported` filled, where there is no such grid.
std::optional<ScaleGrid> quark_grid(const Members& scheme, std::string& unsupported) {
  const std::string name = scheme.text("qscheme").value_or("per_tensor");
  if (name == "per_tensor") return ScaleGrid{0, 0};
  if (name == "per_channel" || name == "per_token") return ScaleGrid{1, 0};
  if (name == "per_group")
    if (const auto size = scheme.size("group_size")) return ScaleGrid{1, *size};
  unsupported = fmt::format("qscheme '{}' of quark is not read, only per_tensor, per_channel and per_group", name);
  return std::nullopt;
}

/// What quark calls the types of codes.
constexpr std::array<std::pair<std::string_view, numerics::DType>, 4> kQuarkTypes = {
    {{"fp8_e4m3", numerics::DType::e4m3fn},
     {"fp8_e5m2", numerics::DType::e5m2},
     {"int8", numerics::DType::i8},
     {"fp4", numerics::DType::e2m1}}};

std::optional<numerics::DType> quark_type(const Members& scheme) {
  const std::string name = scheme.text("dtype").value_or("");
  for (const auto& [known, type] : kQuarkTypes)
    if (known == name) return type;
  return std::nullopt;
}

/// quark writes one tensor's scheme, or a list of them where it quantises twice.
std::optional<Members> quark_scheme(const Members& config, std::string_view name, std::string& unsupported) {
  const json::value* value = config.find(name);
  if (value != nullptr && value->is_array()) {
    unsupported = fmt::format("{} of quark has several stages, which is not read", name);
    return std::nullopt;
  }
  auto scheme = config.object(name);
  if (!scheme) return std::nullopt;
  if (!quark_type(*scheme))
    unsupported = fmt::format("dtype '{}' of quark's {} is not read, only fp8_e4m3, fp8_e5m2, int8 and fp4",
                              scheme->text("dtype").value_or(""), name);
  return scheme;
}

/// A scheme that has a name.
struct Named {
  std::string_view name;
  QuantizationScheme scheme;
};
constexpr ScaleGrid kRow{1, 0}, kTensor{0, 0}, kMx{1, 32}, kNv{1, 16};
constexpr auto kNone = ActivationScheme::none, kDynamic = ActivationScheme::dynamic, kFixed = ActivationScheme::fixed;
constexpr auto kI8 = numerics::DType::i8, kE4m3 = numerics::DType::e4m3fn, kE2m1 = numerics::DType::e2m1;

/// modelopt's quant_algo.
constexpr std::array kAlgorithms = {
    Named{"FP8", {.activations = kFixed}},
    Named{"W8A8_SQ_PER_CHANNEL", {.activations = kFixed}},
    Named{"FP8_PER_CHANNEL_PER_TOKEN", {.weight_grid = kRow, .activations = kDynamic, .activation_grid = kRow}},
    Named{"FP8_PB_WO", {.activations = kNone}},
    Named{"MXFP8", {.weight_grid = kMx, .activations = kDynamic, .activation_grid = kMx}},
    Named{"NVFP4", {.weight_grid = kNv, .weight_dtype = kE2m1}},
};
/// msModelSlim's types of layers. Source: msmodelslim's ascendv1.md; vllm-ascend's w8a8_static.py and w8a16.py.
constexpr std::array kAscendTypes = {
    Named{"W8A8_DYNAMIC", {.weight_dtype = kI8, .activations = kDynamic, .activation_grid = kRow}},
    Named{"W8A16", {.weight_dtype = kI8, .activations = kNone}},
    Named{"WFP8AFP8_DYNAMIC", {.weight_dtype = kE4m3, .activations = kDynamic, .activation_grid = kRow}},
    Named{"W8A8_MXFP8", {.weight_grid = kMx, .weight_dtype = kE4m3, .activations = kDynamic, .activation_grid = kMx}},
    Named{"W8A8", {.weight_dtype = kI8, .activations = kFixed, .activation_grid = kTensor, .static_int8 = true}},
    // Both sets of scales; the dynamic one is at least as exact.
    Named{"W8A8_MIX",
          {.weight_dtype = kI8, .activations = kDynamic, .activation_grid = kRow, .input_scale_unused = true}},
};
/// Methods that mean one scheme: SGLang's and vLLM's, gpt-oss's, and bitsandbytes' LLM.int8 as weight-only, which is
/// what it comes to but for its rounding of x.
constexpr std::array kMethodSchemes = {
    Named{"w8a8_int8", {.weight_grid = kRow, .weight_dtype = kI8, .activation_grid = kRow}},
    Named{"w8a8_fp8", {.weight_grid = kRow, .weight_dtype = kE4m3, .activation_grid = kRow}},
    Named{"mxfp4", {.weight_grid = kMx, .weight_dtype = kE2m1, .activations = kNone}},
    Named{"bitsandbytes", {.weight_grid = kRow, .weight_dtype = kI8, .activations = kNone}},
    Named{"fbgemm_fp8", {.weight_grid = kRow, .activations = kDynamic, .activation_grid = kRow}},
};

/// Gives `group` the scheme of that name; false where there is none.
bool take_named(const auto& table, std::string_view name, QuantizationGroup& group) {
  const auto found = std::ranges::find(table, name, &Named::name);
  if (found == table.end()) return false;
  static_cast<QuantizationScheme&>(group) = found->scheme;
  if (group.activation_grid == kMx) group.activation_rounding = ScaleRounding::power_of_two;
  return true;
}

/// What one of modelopt's algorithms means for a group of layers.
void read_algorithm(const std::string& written, QuantizationGroup& group) {
  const std::string algorithm = boost::to_upper_copy(written);  // fp8_pb_wo is written in small letters
  if (!take_named(kAlgorithms, algorithm, group))
    group.unsupported = fmt::format(
        "is quantised with {} of modelopt, which is not read; quantise with FP8, MXFP8, FP8_PER_CHANNEL_PER_TOKEN, "
        "FP8_PB_WO or NVFP4",
        written);
  if (group.weight_dtype == kE2m1) group.leave_activations();
}

void read_ascend_type(const std::string& type, QuantizationGroup& group) {
  if (!take_named(kAscendTypes, type, group))
    group.unsupported = fmt::format(
        "is of the type {} of msModelSlim, which is not read; export with W8A8_DYNAMIC, W8A16, WFP8AFP8_DYNAMIC, "
        "W8A8_MXFP8 or W8A8",
        type);
  group.offsets = true;
}

/// A group for each name of a scheme, with the layers that have it as targets.
void add_groups(std::map<std::string, std::vector<std::string>>& by_scheme,
                void (*read)(const std::string&, QuantizationGroup&), QuantizationConfig& result) {
  for (auto& [scheme, layers] : by_scheme) read(scheme, add_group(result, std::move(layers)));
}

/// Methods that are not read, by the name in quant_method: what they are, and what helps where it is not the usual.
struct Unread {
  std::string_view method, what, help;
};
constexpr std::array kUnread = {
    Unread{"mlx", "the form of MLX (bits packed along K, with scales and biases)", ""},
    Unread{"tensorrt-llm", "the form of TensorRT-LLM", "export with modelopt's export_hf_checkpoint"},
    Unread{"inc",
           "a quantization_config without quant_method, as Intel's Neural Compressor writes it for Gaudi (weights "
           "stored as [K, N])",
           "export with its format=\"vllm\""},
    Unread{"w4afp8", "int4 in bytes (two to an I8) with fp8 activations", "fetch the model's FP8 folder"},
    Unread{"sdnq", "SDNQ, which may add a low-rank part or rotate", "take the model's fp8 or bf16 files"},
    Unread{"gemma", "Gemma's quantised release, whose inputs and outputs are quantised too", ""},
    Unread{"auto-round", "the own form of AutoRound", "export with its format llm_compressor"},
    Unread{"gptq", "packed integers of GPTQ", ""},
    Unread{"awq", "packed integers of AWQ", ""},
    Unread{"aqlm", "codebooks of AQLM", ""},
    Unread{"vptq", "codebooks of VPTQ", ""},
    Unread{"spqr", "the sparse form of SpQR", ""},
    Unread{"higgs", "lookup tables of HIGGS", ""},
    Unread{"exl3", "trellises of ExLlamaV3", ""},
    Unread{"hqq", "packed integers of HQQ", ""},
    Unread{"eetq", "int8 of EETQ, stored as [K, N]", ""},
    Unread{"bitnet", "ternary codes of BitNet, whose scale divides", ""},
    Unread{"fp_quant", "FP-Quant, which rotates", ""},
    Unread{"sinq", "packed integers of SINQ", ""},
    Unread{"svdquant", "SVDQuant of Nunchaku, four bits with a low-rank part", "take the model's fp8 or bf16 files"},
};

/// DeepSeek, Qwen3 and what transformers writes as FineGrainedFP8.
void read_fp8(const Members& config, QuantizationConfig& result) {
  QuantizationGroup& group = add_group(result);
  group.weight_grid = config.block("weight_block_size");
  if (const auto scheme = config.text("activation_scheme")) {
    group.activations = *scheme == "static" ? ActivationScheme::fixed : ActivationScheme::dynamic;
    if (*scheme != name_of(*group.activations))
      config.fail("activation_scheme", "is '{}', expected dynamic or static", *scheme);
  }
  if (group.weight_grid && group.activations != ActivationScheme::fixed)
    group.activation_grid = ScaleGrid{1, group.weight_grid->group_cols};
  if (result.method == "mxfp8" && !group.weight_grid) group.weight_grid = ScaleGrid{1, 32};
  if (const auto format = config.text("scale_fmt")) {
    if (*format == "ue8m0")
      group.activation_rounding = ScaleRounding::power_of_two;
    else if (*format != "float")
      config.fail("scale_fmt", "is '{}', expected ue8m0 or float", *format);
  }
}

/// The modules that stay as they are, under whichever of its names the list has.
void read_ignored(const Members& config, QuantizationConfig& result) {
  std::vector<std::string> entries;
  std::vector<std::string_view> members;
  for (const std::string_view name : {"ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules",
                                      "ignore_layers", "ignored_modules", "exclude", "llm_int8_skip_modules"}) {
    if (config.find(name) == nullptr) continue;
    const ModuleNames more = config.modules(name);
    if (more.entries().empty() && !members.empty()) continue;
    entries.insert(entries.end(), more.entries().begin(), more.entries().end());
    members.push_back(name);
  }
  result.ignored_member = fmt::format("{}", fmt::join(members, ", "));
  result.ignored = ModuleNames(std::move(entries));
}

/// The tool that wrote a config, with its version.
std::string writer_of(const Members& config, const std::string& method) {
  if (const auto producer = config.object("producer")) {
    const std::string version = producer->text("version").value_or("");
    return producer->text("name").value_or(method) + (version.empty() ? "" : " " + version);
  }
  if (method == "fp8") return config.find("scale_fmt") != nullptr ? "transformers or DeepSeek" : "";
  return method + (config.find("version") != nullptr && config.find("version")->is_string()
                       ? " " + config.text("version").value_or("")
                       : "");
}

std::optional<Members> quantization_of(const Members& model) {
  auto config = model.object("quantization_config");
  return config ? config : model.object("compression_config");
}

/// modelopt's MIXED_PRECISION, {quantized_layers: {name: {quant_algo}}}: a group for each algorithm, whose targets
/// are the names. False where it is not that.
bool read_quantized_layers(const Members& config, QuantizationConfig& result) {
  if (config.text("quant_algo") != "MIXED_PRECISION") return false;
  const auto layers = config.object("quantized_layers");
  if (!layers || layers->all().empty()) return false;
  std::map<std::string, std::vector<std::string>> by_algorithm;
  for (const auto& [key, value] : layers->all()) {
    const auto layer = layers->object(key);
    by_algorithm[layer ? layer->text("quant_algo").value_or("") : ""].emplace_back(key);
  }
  add_groups(by_algorithm, read_algorithm, result);
  return true;
}

/// A method that means one scheme. Appends a group.
QuantizationGroup& read_scheme(std::string_view method, QuantizationConfig& result) {
  QuantizationGroup& group = add_group(result);
  take_named(kMethodSchemes, method, group);
  return group;
}
void read_one_scheme(const Members&, QuantizationConfig& result) { read_scheme(result.method, result); }

/// Meta's: an upper bound of the activations' amax.
void read_fbgemm(const Members& config, QuantizationConfig& result) {
  QuantizationGroup& group = read_scheme(result.method, result);
  group.activation_limit = config.number("activation_scale_ub");
  if (group.activation_limit && !(*group.activation_limit > 0))
    config.fail("activation_scale_ub", "is {}, expected a bound above 0", *group.activation_limit);
}

/// AMD quark: global_quant_config.{weight, input_tensors}. Appends a group.
void read_quark(const Members& config, QuantizationConfig& result) {
  QuantizationGroup& group = add_group(result);
  for (const char* member : {"layer_quant_config", "layer_type_quant_config"})
    if (const auto layers = config.object(member); layers && !layers->all().empty())
      group.unsupported =
          fmt::format("is written by quark with a {}, which is not read; quantise all layers alike", member);
  const auto global = config.object("global_quant_config");
  if (!global) {
    group.unsupported = "is written by quark without a global_quant_config, which is not read";
    return;
  }
  for (const char* member : {"output_tensors", "bias"})
    if (global->find(member) != nullptr)
      group.unsupported =
          fmt::format("has quantised {} (quark), which are not computed here; quantise without", member);
  if (const auto weight = quark_scheme(*global, "weight", group.unsupported)) {
    group.weight_grid = quark_grid(*weight, group.unsupported);
    group.weight_dtype = quark_type(*weight);
    if (const auto axis = weight->number("ch_axis"); axis && *axis != 0 && group.weight_grid == ScaleGrid{1, 0})
      group.unsupported =
          fmt::format("has scales along axis {} (ch_axis of quark), which are not read, only 0", *axis);
    const bool fp4 = group.weight_dtype == numerics::DType::e2m1;
    if (fp4 && (group.weight_grid != ScaleGrid{1, 32} || weight->text("scale_format") != "e8m0"))
      group.unsupported = "has fp4 of quark without scales of e8m0 in groups of 32, which is not read";
  } else if (group.unsupported.empty()) {
    group.unsupported = "is written by quark without a scheme of its weight, which is not read";
  }
  const auto inputs = quark_scheme(*global, "input_tensors", group.unsupported);
  group.activations = ActivationScheme::none;
  if (!inputs) return;
  if (quark_type(*inputs) == numerics::DType::e2m1) return group.leave_activations();
  group.activation_grid = quark_grid(*inputs, group.unsupported);
  group.activation_dtype = quark_type(*inputs);
  if (inputs->flag("symmetric") == false)
    group.unsupported = "asymmetric activations (input_tensors of quark) are not read; quantise with symmetric: true";
  group.activations =
      inputs->flag("is_dynamic").value_or(false) ? ActivationScheme::dynamic : ActivationScheme::fixed;
}

/// LMDeploy's, by its quant_dtype.
void read_smooth_quant(const Members& config, QuantizationConfig& result) {
  const std::string type = config.text("quant_dtype").value_or("int8");
  if (type != "int8" && type != "float8_e4m3fn")
    config.fail("quant_dtype", "is '{}', expected int8 or float8_e4m3fn", type);
  read_scheme(type == "int8" ? "w8a8_int8" : "w8a8_fp8", result);
}

/// blockwise_int8 (SGLang): weight_block_size, and token groups as wide.
void read_block_int8(const Members& config, QuantizationConfig& result) {
  QuantizationGroup& group = add_group(result);
  group.weight_dtype = numerics::DType::i8;
  group.weight_grid = config.block("weight_block_size");
  if (!group.weight_grid) config.fail("weight_block_size", "is missing, blockwise_int8 needs it");
  if (const auto scheme = config.text("activation_scheme"); scheme && *scheme != "dynamic")
    config.fail("activation_scheme", "is '{}', expected dynamic", *scheme);
  group.activations = ActivationScheme::dynamic;
  group.activation_grid = ScaleGrid{1, group.weight_grid->group_cols};
}

void read_bitsandbytes(const Members& config, QuantizationConfig& result) {
  if (config.flag("load_in_8bit").value_or(false)) return read_one_scheme(config, result);
  result.refuse("is of bitsandbytes in four bits (nf4, fp4), which is not read; load_in_8bit is, or quantise to FP8");
}

/// Mistral's params.json: quantization.{qformat_weight, qscheme_act}.
void read_mistral(const Members& config, QuantizationConfig& result) {
  QuantizationGroup& group = add_group(result);
  if (const auto format = config.text("qformat_weight"); format != "fp8_e4m3")
    group.unsupported = fmt::format("has the qformat_weight '{}' of Mistral, which is not read, only fp8_e4m3",
                                    format.value_or("null"));
  const std::string scheme = config.text("qscheme_act").value_or("TENSOR");
  if (scheme == "NO_SCALES") {
    group.activations = ActivationScheme::dynamic;
    group.activation_grid = ScaleGrid{1, 0};
  } else if (scheme == "TENSOR") {
    group.activations = ActivationScheme::fixed;
  } else {
    config.fail("qscheme_act", "is '{}', expected TENSOR, NO_SCALES or null", scheme);
  }
}

/// A method without a reader: every layer is refused with what it is and what to do. Appends a group.
void refuse_method(QuantizationConfig& result) {
  const auto known = std::ranges::find(kUnread, result.method, &Unread::method);
  if (known == kUnread.end())
    return result.refuse(fmt::format(
        "is written with quant_method '{}', which is not read; convert it with llmcompressor (FP8)", result.method));
  result.refuse(
      fmt::format("is {}, which is not read; {}", known->what,
                  known->help.empty() ? "quantise the original model to FP8 with llmcompressor" : known->help));
}

/// modelopt: its quant_algo, where config_groups say nothing. Appends groups.
void read_modelopt(const Members& config, QuantizationConfig& result) {
  if (read_quantized_layers(config, result)) return;
  const std::optional<std::string> written = config.text("quant_algo");
  result.mixed = written == "MIXED_PRECISION";
  read_groups(config, result);
  if (written && result.groups.empty()) read_algorithm(*written, add_group(result));
}

/// Which methods are read, and by whom. All others are refused by name.
struct Method {
  std::string_view name;
  void (*read)(const Members& config, QuantizationConfig& result);  ///< Null: the tool says it beside its layers.
};
constexpr std::array kMethods = {
    Method{"fp8", read_fp8},
    Method{"mxfp8", read_fp8},
    Method{"compressed-tensors", read_groups},
    Method{"modelopt", read_modelopt},
    Method{"fbgemm_fp8", read_fbgemm},
    Method{"quark", read_quark},
    Method{"mxfp4", read_one_scheme},
    Method{"torchao", nullptr},
    Method{"quanto", nullptr},
    Method{"w8a8_int8", read_one_scheme},
    Method{"w8a8_fp8", read_one_scheme},
    Method{"smooth_quant", read_smooth_quant},
    Method{"blockwise_int8", read_block_int8},
    Method{"bitsandbytes", read_bitsandbytes},
};

/// The method that `config` names, or `unnamed` where it names none.
void read_method(const Members& config, std::string_view unnamed, QuantizationConfig& result) {
  result.method = config.text("quant_method").value_or(std::string(unnamed));
  result.writer = writer_of(config, result.method);
  const auto known = std::ranges::find(kMethods, result.method, &Method::name);
  if (known == kMethods.end()) return refuse_method(result);
  if (known->read != nullptr) known->read(config, result);
  read_ignored(config, result);
}

/// A config without a quant_method: whose it is shows in its members.
std::string_view unnamed_method(const Members& config) {
  if (config.find("bits") != nullptr && config.find("group_size") != nullptr) return "mlx";
  if (config.find("quant_algo") != nullptr) return "tensorrt-llm";
  if (config.find("mode") != nullptr || config.find("fp8_config") != nullptr) return "inc";
  return "unnamed";
}

// --- A reader for each kind of file; `root` is all of it.

void read_config(const Members& root, QuantizationConfig& result) {
  auto config = quantization_of(root);
  // Of a multi-modal model it may be in its text_config; MLX and TensorRT-LLM have a member of their own.
  const auto object = [&root](std::string_view name) {
    const json::value* value = root.find(name);
    return value != nullptr && value->is_object() ? root.object(name) : std::nullopt;
  };
  if (const auto text = object("text_config"); !config && text) config = quantization_of(*text);
  if (!config) config = object("quantization");
  if (config) read_method(*config, unnamed_method(*config), result);
}

void read_own_config(const Members& config, QuantizationConfig& result) {
  read_method(config, result.file.filename() == "quantize_config.json" ? "gptq" : "unnamed", result);
}

void read_modelopt_config(const Members& root, QuantizationConfig& result) {
  const auto config = root.object("quantization");
  if (!config) return;
  if (!config->all().contains("quant_algo")) config->fail("quant_algo", "is missing; fetch the file again");
  if (config->find("quant_algo") == nullptr) return;
  result.method = result.writer = "modelopt";
  read_modelopt(*config, result);
  read_ignored(*config, result);
}

void read_params(const Members& root, QuantizationConfig& result) {
  const auto config = root.object("quantization");
  if (!config) return;
  if (config->find("quant_method") != nullptr) return read_method(*config, {}, result);
  result.method = result.writer = "mistral";
  read_mistral(*config, result);
}

/// A group for each type that a weight has; types that are not read refuse their layers by name.
void read_ascend(const Members& root, QuantizationConfig& result) {
  constexpr std::string_view kWeight = ".weight";
  std::map<std::string, std::vector<std::string>> by_type;
  for (const auto& [key, value] : root.all()) {
    if (!key.ends_with(kWeight)) continue;
    const std::string type = root.text(key).value_or("");
    if (type != "FLOAT") by_type[type].emplace_back(key.substr(0, key.size() - kWeight.size()));
  }
  if (by_type.empty()) return;  // a model of floats
  result.method = "msmodelslim";
  result.writer = "msModelSlim " + root.text("version").value_or("");
  add_groups(by_type, read_ascend_type, result);
}

}  // namespace

std::string_view name_of(ActivationScheme scheme) noexcept {
  return scheme == ActivationScheme::none ? "none" : scheme == ActivationScheme::dynamic ? "dynamic" : "static";
}

const QuantizationGroup* QuantizationConfig::group_of(std::string_view layer) const {
  for (const QuantizationGroup& group : groups)
    if (group.targets.has(layer)) return &group;
  for (const QuantizationGroup& group : groups)
    if (group.targets.find(layer) != nullptr) return &group;
  for (const QuantizationGroup& group : groups)
    if (group.targets.has("Linear")) return &group;
  return nullptr;
}

std::optional<ScaleGrid> parse_block(std::string_view text) {
  const auto sides = words::split(text, text.find(',') != std::string_view::npos ? ',' : 'x');
  const auto size = [](std::string_view side) { return words::number<std::int64_t>(side).value_or(0); };
  const ScaleGrid grid{size(sides.front()), size(sides.back())};
  for (const std::int64_t side : {grid.group_rows, grid.group_cols})
    if (side < 1 || side > (1 << 30) || sides.size() > 2) return std::nullopt;
  return grid;
}

void QuantizationGroup::leave_activations() {
  activations = ActivationScheme::none;
  activation_dtype.reset();
  input_scale_unused = leaves_activations = true;
}

void QuantizationConfig::refuse(std::string why) { add_group(*this).unsupported = std::move(why); }

QuantizationConfig read_quantization_config(const std::filesystem::path& file) {
  constexpr std::array kReaders = {read_ascend, read_config,     read_modelopt_config,
                                   read_params, read_own_config, read_own_config};  // of kQuantizationConfigs
  const auto name = std::ranges::find(kQuantizationConfigs, file.filename().string());
  const json::object root = read_object(file);
  QuantizationConfig result;
  result.file = file;
  kReaders.at(static_cast<std::size_t>(name - kQuantizationConfigs.begin()))(
      Members(root, file, file.stem().string()), result);
  if (result.method.empty()) return {};
  return result;
}

}  // namespace ironcl::checkpoint
