// SPDX-License-Identifier: Apache-2.0
// The products of a GPU in both accuracy classes, through backends/interface.h: the multiplying kernel alone, and the
// whole plan with A as codes and as bf16. L2 cold (256 MiB written before every call, or --flush-mib), medians of
// device times, rows of D checked against the oracle. Or, with --chain, texts of kernels and options beside each
// other: the host's time of the products of so many layers, back to back, in turns.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/opencl/api.h"
#include "backends/opencl/backend.h"
#include "backends/opencl/gemm.h"
#include "backends/opencl/objects.h"
#include "backends/words.h"
#include "host/cli/parse_option.h"
#include "host/layer/expected.h"
#include "host/layer/synthetic.h"
#include "host/tuning/ceilings.h"

namespace {

using namespace ironcl;
using backend::DType;

constexpr std::int64_t kRowsChecked = 2;
constexpr std::int64_t kBlock = 128;

double median(std::vector<double> values) { return tuning::summarize(std::move(values)).median; }

backend::GemmDesc product(std::int64_t m, std::int64_t n, std::int64_t k, DType source) {
  backend::GemmDesc d;
  d.m = m;
  d.n = d.ldd = n;
  d.k = d.lda = k;
  d.a_source = source;
  d.a = d.b = DType::e4m3fn;
  d.d = DType::bf16;
  d.a_scale = {DType::f32, {1, kBlock}, numerics::ceil_div(k, kBlock)};
  d.b_scale = {DType::f32, {kBlock, kBlock}, numerics::ceil_div(k, kBlock)};
  return d;
}

struct Run {
  std::shared_ptr<backend::Device> device;
  std::shared_ptr<backend::Queue> queue = device->create_queue();

  backend::Span upload(std::span<const std::byte> values) {
    const std::uint64_t size = values.size();
    backend::Span span{device->create_buffer(size), 0, size};
    queue->write(span, values.data(), backend::HostSemantics::copied_before_return);
    return span;
  }
  std::vector<std::byte> read(const backend::Span& span) {
    std::vector<std::byte> bytes(span.size);
    queue->read(span, bytes.data());
    queue->finish();
    return bytes;
  }
  /// Some rows of the result that a plan has left in `d`, beside the oracle.
  layer::Check check(const backend::Gemm& plan, const backend::GemmDesc& desc, const layer::Operands& o,
                     const backend::Span& d) {
    const backend::GemmInfo info = plan.info();
    return layer::check(layer::expect(desc, o, kRowsChecked), read(d), 0,
                        {{info.accuracy, info.accumulation_length, info.variant, info.tuning}});
  }
};

struct Settings {
  std::size_t device = 0;
  int runs = 11;
  std::vector<std::int64_t> m{1, 16, 64, 128, 512, 4096};
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes{{4096, 4096}, {7168, 16384}, {24576, 1536}, {2112, 7168}};
  backend::Options options;
  std::vector<backend::AccuracyClass> classes{backend::AccuracyClass::f32, backend::AccuracyClass::tensor14};
  std::string csv;
  std::size_t flush_mib = 256;
  std::size_t layers = 0;          ///< Of a chain; 0: products by themselves.
  std::vector<std::string> texts;  ///< Of a chain: "FOLDER,key=value,...".
  bool apart = false;              ///< A chain's products are launches of their own.
};

/// Operands on the host, of the most rows: the same B beside codes and beside floats.
struct Made {
  layer::MadeOperands codes, floats;

  layer::Operands of(const backend::GemmDesc& d) const {
    return layer::of_first_rows(d, d.a_source == DType::none ? codes : floats);
  }
};

double microseconds(const cl::Event& command) { return 1e6 * opencl::seconds_of_run(command); }

struct Measured {
  double kernel_us = 0;  ///< Of what multiplies: with parts of K that a kernel of its own adds, the sum of both.
  double plan_us = 0;    ///< From the first kernel's begin to the last one's end.
  layer::Check check;
};

/// Of a plan's kernels those of the step that multiplies, its last one: each step before it is one kernel.
double microseconds_multiplying(const opencl::Gemm& plan, const std::vector<cl::Event>& commands) {
  double sum = 0;
  for (std::size_t i = plan.step_names().size() - 1; i < commands.size(); ++i) sum += microseconds(commands[i]);
  return sum;
}

/// Times one plan, and compares some rows of its first D with the oracle. D is poisoned before.
Measured measure(Run& run, const std::shared_ptr<backend::Gemm>& plan, const backend::GemmDesc& d,
                 const std::shared_ptr<backend::Weights>& weights, const layer::Operands& o, const cl::Buffer& flush,
                 int runs) {
  backend::GemmArgs args;
  args.m = d.m;
  args.weights = weights;
  args.a = run.upload(o.a);
  if (!o.a_scale.empty()) args.a_scale = run.upload(o.a_scale);
  args.d = run.upload(std::vector(static_cast<std::size_t>(d.m * d.n * 2), std::byte{0xff}));
  auto& queue = dynamic_cast<opencl::Queue&>(*run.queue);
  std::vector<double> kernel, whole;
  layer::Check check;
  for (int i = 0; i <= runs; ++i) {
    cl::CommandQueue native = queue.native();
    native.enqueueFillBuffer(flush, static_cast<cl_uint>(i), 0, flush.getInfo<CL_MEM_SIZE>());
    const auto event = plan->enqueue(run.queue, args);
    event->wait(std::chrono::nanoseconds::max());
    if (i == 0) {
      check = run.check(*plan, d, o, args.d);
      continue;
    }
    const auto& events = dynamic_cast<opencl::Event&>(*event);
    kernel.push_back(microseconds_multiplying(dynamic_cast<const opencl::Gemm&>(*plan), events.commands()));
    const backend::Profile profile = event->profile();
    whole.push_back(static_cast<double>(profile.end_ns - profile.start_ns) / 1e3);
  }
  return {median(kernel), median(whole), check};
}

/// What the clock of every figure reads of a kernel that does nothing, in microseconds, as all are read: after a
/// flush.
double empty_kernel_us(Run& run, const cl::Context& context, const cl::Buffer& flush, int runs) {
  const cl::Program program(context, std::string("__kernel void empty(void) {}"), true);
  const cl::Kernel kernel(program, "empty");
  const cl::CommandQueue queue = dynamic_cast<opencl::Queue&>(*run.queue).native();
  std::vector<double> times;
  for (int i = 0; i <= runs; ++i) {
    queue.enqueueFillBuffer(flush, static_cast<cl_uint>(i), 0, flush.getInfo<CL_MEM_SIZE>());
    cl::Event event;
    queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(32), cl::NDRange(32), nullptr, &event);
    if (i > 0) times.push_back(microseconds(event));
  }
  return median(times);
}

/// The weights of a shape, prepared once for each form that a plan reads.
struct PreparedWeights {
  Run& run;
  const Made& operands;
  std::map<std::string, std::shared_ptr<backend::Weights>> of_form{};

  const std::shared_ptr<backend::Weights>& for_plan(const std::shared_ptr<backend::Gemm>& plan,
                                                    const backend::GemmDesc& desc) {
    auto& weights = of_form[dynamic_cast<const opencl::Gemm&>(*plan).weight_form()->name()];
    if (weights != nullptr) return weights;
    const layer::Operands o = operands.of(desc);
    return weights = run.device->prepare_weights({.dtype = desc.b,
                                                  .n = desc.n,
                                                  .k = desc.k,
                                                  .ld = desc.k,
                                                  .scale = desc.b_scale,
                                                  .data = o.b.data(),
                                                  .scales = o.b_scale.data(),
                                                  .plan = plan});
  }
};

/// One row of the table: an accuracy class of a problem. Returns whether all was right.
bool row(Run& run, const Settings& s, const Made& o, PreparedWeights& weights, backend::AccuracyClass weakest,
         std::int64_t m, std::int64_t n, std::int64_t k, const cl::Buffer& flush, std::ostream& csv) {
  const std::string asked(numerics::name_of(weakest));
  const auto described = [&](DType source) {
    backend::GemmDesc desc = product(m, n, k, source);
    desc.weakest_accuracy = weakest;
    desc.options = s.options;
    return desc;
  };
  const backend::GemmDesc of_codes = described(DType::none), of_floats = described(DType::bf16);
  const auto codes = run.device->create_gemm(of_codes), floats = run.device->create_gemm(of_floats);
  const Measured c = measure(run, codes, of_codes, weights.for_plan(codes, of_codes), o.of(of_codes), flush, s.runs);
  const Measured f =
      measure(run, floats, of_floats, weights.for_plan(floats, of_floats), o.of(of_floats), flush, s.runs);
  const double flop = 2e-6 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const double c_worst = c.check.comparison.max_error_over_bound, f_worst = f.check.comparison.max_error_over_bound;
  const bool pass = c.check.pass && f.check.pass;
  fmt::print("{:>5} {:>6} {:>6}  {:<8} {:<16} {:<52} {:>8.1f} {:>6.0f} {:>8.1f} {:>8.1f}  {:.3f} {:.3f} {}\n", m, n,
             k, asked, codes->info().variant, codes->info().tuning, c.kernel_us, flop / c.kernel_us, c.plan_us,
             f.plan_us, c_worst, f_worst, pass ? "pass" : "FAIL");
  std::fflush(stdout);
  csv << fmt::format("{},{},{},{},{},\"{}\",{:.2f},{:.2f},{:.2f},{:.4f},{:.4f},{}\n", m, n, k, asked,
                     codes->info().variant, codes->info().tuning, c.kernel_us, c.plan_us, f.plan_us, c_worst, f_worst,
                     pass ? "pass" : "fail");
  return pass;
}

/// A text of a chain: the device with it, and the plans of the shapes.
struct Text {
  std::string said;
  std::unique_ptr<backend::Backend> backend;
  std::shared_ptr<backend::Device> device;
  backend::Options options;
  std::vector<std::shared_ptr<backend::Gemm>> plans{};
  std::vector<backend::RecordedCall> calls{};  ///< Of a layer's shapes, then the next one's.
  std::shared_ptr<backend::Sequence> sequence{};
  std::vector<double> times{};  ///< Microseconds a layer.
  double worst = 0;
  bool pass = true;
};

/// Texts are built for one context, so that all read the same weights.
Text text_of(const std::string& said, const Settings& s, opencl::Config config, const backend::NativeDevice& native) {
  const auto parts = words::split(said, ',');
  Text text{said, nullptr, nullptr, s.options};
  for (const std::string_view part : std::span(parts).subspan(1)) {
    const std::size_t at = part.find('=');
    if (at == std::string_view::npos) throw std::runtime_error(fmt::format("--text {}: {} has no value", said, part));
    text.options.emplace_back(part.substr(0, at), part.substr(at + 1));
  }
  config.kernel_dir = parts.front();
  text.backend = opencl::make_backend(config, nullptr);
  text.device = text.backend->import_device(native);
  return text;
}

/// Of each shape a layer's weights by form, A, and D: 4 MiB follow, in which a text may leave what it wants to show,
/// 16 numbers of 64 bits for each work-group.
struct Shape {
  backend::GemmDesc desc;
  Made operands;
  std::vector<PreparedWeights> layers{};
  backend::Span a{}, all_of_d{};

  backend::Span d() const { return {all_of_d.buffer, 0, static_cast<std::uint64_t>(2 * desc.m * desc.n)}; }
  std::uint64_t behind_d() const { return (d().size + 255) / 256 * 256; }
};

/// What a text has left behind D, as means over work-groups of the numbers less the first; empty where it left none.
std::string left_behind(Run& run, const Shape& shape) {
  const std::vector<std::byte> bytes = run.read(shape.all_of_d);
  std::vector<std::uint64_t> numbers((bytes.size() - shape.behind_d()) / 8);
  std::memcpy(numbers.data(), bytes.data() + shape.behind_d(), numbers.size() * 8);
  std::string text;
  for (std::size_t i = 1; i < 16; ++i) {
    double sum = 0, most = 0, count = 0;
    for (std::size_t at = 0; at + 16 <= numbers.size(); at += 16) {
      if (numbers[at] == ~0ULL || numbers[at + i] == ~0ULL) continue;
      const auto since = static_cast<double>(numbers[at + i] - numbers[at]);
      sum += since, count += 1, most = std::max(most, since);
    }
    if (count > 0) text += fmt::format(" {}: {:.0f}, most {:.0f};", i, sum / count, most);
  }
  return text;
}

bool chain(Run& run, const Settings& s, const opencl::Config& config, std::int64_t m) {
  const opencl::ContextPtr context = dynamic_cast<opencl::Queue&>(*run.queue).context();
  const backend::NativeDevice native{backend::NativeDevice::Kind::opencl, context->device(), context->context()};
  std::vector<Text> texts;
  for (const std::string& said : s.texts) texts.push_back(text_of(said, s, config, native));
  std::vector<Shape> shapes;
  shapes.reserve(s.shapes.size());
  for (const auto& [n, k] : s.shapes) {
    const backend::GemmDesc desc = product(m, n, k, DType::bf16);
    Shape& shape = shapes.emplace_back(Shape{desc, {{}, layer::make_operands(desc, 1)}});
    shape.a = run.upload(shape.operands.of(shape.desc).a);
    shape.all_of_d = run.upload(std::vector(shape.behind_d() + (4U << 20U), std::byte{0xff}));
    for (std::size_t i = 0; i < s.layers; ++i) shape.layers.push_back({run, shape.operands});
  }
  const auto run_all = [&](Text& text) {
    backend::SequenceArgs args;
    args.wants_event = false;
    text.sequence->enqueue(run.queue, args);
    run.queue->finish();
  };
  const auto poison = [&](const Shape& shape) {
    const std::vector<std::byte> bytes(shape.all_of_d.size, std::byte{0xff});
    run.queue->write(shape.all_of_d, bytes.data(), backend::HostSemantics::copied_before_return);
  };
  for (Text& text : texts) {
    for (Shape& shape : shapes) {
      shape.desc.options = text.options;
      text.plans.push_back(text.device->create_gemm(shape.desc));
      poison(shape);
    }
    for (std::size_t call = 0; call < s.layers * shapes.size(); ++call) {
      const std::size_t i = call % shapes.size();
      backend::GemmArgs args;
      args.m = m;
      args.weights = shapes[i].layers[call / shapes.size()].for_plan(text.plans[i], shapes[i].desc);
      args.a = shapes[i].a;
      args.d = shapes[i].d();
      args.d.written = true;
      text.calls.emplace_back(backend::Recorded<backend::GemmArgs>{text.plans[i], std::move(args)});
    }
    text.sequence =
        s.apart ? std::make_shared<backend::Sequence>(text.calls) : text.device->create_sequence(text.calls);
    run_all(text);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Shape& shape = shapes[i];
      const layer::Check check = run.check(*text.plans[i], shape.desc, shape.operands.of(shape.desc), shape.d());
      text.worst = std::max(text.worst, check.comparison.max_error_over_bound);
      text.pass = text.pass && check.pass;
    }
  }
  for (int round = 0; round <= s.runs; ++round)
    for (Text& text : texts) {
      const auto start = std::chrono::steady_clock::now();
      run_all(text);
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
      if (round > 0) text.times.push_back(took.count() / static_cast<double>(s.layers));
    }
  for (Text& text : texts) {
    fmt::print("{:>5} {:>8.1f} {:>8.1f}  {:.3f} {}  {} {}\n", m, median(text.times),
               *std::ranges::min_element(text.times), text.worst, text.pass ? "pass" : "FAIL",
               text.sequence->variant(), text.said);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      poison(shapes[i]);
      auto& call = std::get<backend::Recorded<backend::GemmArgs>>(text.calls[i]);
      call.operation->enqueue(run.queue, call.args);
      if (const std::string left = left_behind(run, shapes[i]); !left.empty()) fmt::print("      {}\n", left);
    }
    std::fflush(stdout);
  }
  return std::ranges::all_of(texts, &Text::pass);
}

}  // namespace

int main(int argc, char** argv) try {
  Settings s;
  std::string accuracy;
  std::vector<std::string> shapes;
  opencl::Config config;
  CLI::App app("The products of a GPU in both accuracy classes: kernels alone and whole plans");
  app.footer("IRONCL_CACHE_DIR: folder of compiled programs; without it none are kept");
  app.add_option("--device", s.device, "its number")->capture_default_str();
  app.add_option("--runs", s.runs, "calls of each kind; medians are printed")->check(CLI::PositiveNumber);
  app.add_option("--class", accuracy, "one accuracy class; else both")->check(CLI::IsMember({"f32", "tensor14"}));
  app.add_option("--csv", s.csv, "a file for the rows");
  cli::add_key_values(app, "--opt", s.options, "an option of every plan");
  app.add_option("--flush-mib", s.flush_mib,
                 "written before every call; DeepGEMM's own test writes 8192, in which time the GPU cools")
      ->check(CLI::Range(1, 32768))
      ->capture_default_str();
  app.add_option("--ptx", config.ptx,
                 "the most compute capability whose instructions are tried, as IRONCL_OPENCL_PTX")
      ->check(CLI::IsMember({90, 89, 80, 0}));
  app.add_option("--m", s.m, "rows of A")->delimiter(',');
  app.add_option("--chain", s.layers, "the products of so many layers back to back, each with its own weights")
      ->check(CLI::Range(1, 64));
  app.add_option("--text", s.texts,
                 "of --chain: FOLDER,key=value,...: .cl files in place of those built in, options; may be repeated");
  app.add_flag("--apart", s.apart, "of --chain: a launch for each product, where a sequence has one for several");
  app.add_option("--shape", shapes, "NxK")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  if (const auto one = numerics::parse_accuracy(accuracy)) s.classes = {*one};
  if (!shapes.empty()) s.shapes.clear();
  for (const std::string& shape : shapes) {
    const auto sizes = words::split(shape, 'x');
    if (sizes.size() != 2) throw std::runtime_error(fmt::format("--shape {}: write NxK", shape));
    s.shapes.emplace_back(std::stoll(std::string(sizes[0])), std::stoll(std::string(sizes[1])));
  }
  config.trial_program = IRONCL_TRIAL_PROGRAM;
  if (const char* dir = std::getenv("IRONCL_CACHE_DIR")) config.cache_dir = dir;
  config.profiling = s.layers == 0;
  const auto backend = opencl::make_backend(config, nullptr);
  const auto devices = backend->devices();
  if (s.device >= devices.size()) throw std::runtime_error(fmt::format("there are {} devices", devices.size()));
  Run run{devices[s.device]};
  if (s.layers != 0) {
    if (s.texts.empty()) s.texts.emplace_back();
    fmt::print("{}\n{:>5} {:>8} {:>8}  errors  text\n", run.device->props().name, "M", "us/layer", "least");
    return std::ranges::all_of(s.m, [&](std::int64_t m) { return chain(run, s, config, m); }) ? 0 : 1;
  }
  const cl::Context context = dynamic_cast<opencl::Queue&>(*run.queue).context()->context;
  const cl::Buffer flush(context, CL_MEM_READ_WRITE, s.flush_mib << 20);
  std::ofstream csv;  // Not open where no file is named: then it takes nothing.
  if (!s.csv.empty()) csv.open(s.csv);
  if (!s.csv.empty() && !csv) throw std::runtime_error(fmt::format("--csv {}: it cannot be written", s.csv));
  csv << "m,n,k,class,variant,config,kernel_us,codes_us,bf16_us,error_codes,error_bf16,verdict\n";
  fmt::print(
      "{}; microseconds, L2 cold, an empty kernel reads {:.1f}; errors as a share of the class's bound, {} rows\n",
      run.device->props().name, empty_kernel_us(run, context, flush, s.runs), kRowsChecked);
  fmt::print("{:>5} {:>6} {:>6}  {:<8} {:<16} {:<52} {:>8} {:>6} {:>8} {:>8}  {}\n", "M", "N", "K", "class",
             "variant", "config", "kernel", "TFLOP", "codes", "bf16", "errors");
  bool pass = true;
  for (const auto& [n, k] : s.shapes) {
    const std::int64_t most = *std::max_element(s.m.begin(), s.m.end());
    const Made o{layer::make_operands(product(most, n, k, DType::none), 1),
                 layer::make_operands(product(most, n, k, DType::bf16), 1)};
    PreparedWeights weights{run, o};
    for (const std::int64_t m : s.m)
      for (const auto weakest : s.classes) pass = row(run, s, o, weights, weakest, m, n, k, flush, csv) && pass;
  }
  return pass ? 0 : 1;
} catch (const std::exception& error) {
  fmt::print(stderr, "ironcl_gpu_kernels: {}\n", error.what());
  return 1;
}
