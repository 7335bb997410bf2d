// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/gemm.h"

#include <algorithm>
#include <bit>
#include <climits>

#include "backends/numerics/checked.h"
#include "backends/numerics/size.h"

namespace ironcl::opencl {

using backend::DType;
using backend::Error;
using backend::GemmDesc;
using backend::Span;
using backend::Status;
using numerics::ceil_div;
using numerics::checked_mul;
using numerics::Size;

namespace {

constexpr std::int64_t kPartAlignment = 256;

std::string number(DType type) { return std::to_string(static_cast<std::uint32_t>(type)); }

std::int64_t padded(std::int64_t k, int multiple) { return checked_mul(ceil_div(k, multiple), multiple); }

/// True where a kernel that takes rows can read the caller's A and scales as they are.
bool rows_as_given(const GemmDesc& d, const Activations& form) {
  return numerics::is_quantized(d.a) && d.a_scale.dtype == DType::f32 && d.k % form.k_pad == 0 && d.lda % 16 == 0;
}

/// True where A is quantised straight into the tiles that the kernel reads: quantize_tiles.cl.
bool quantizes_into_tiles(const GemmDesc& d, const Activations& form) {
  return form.tiles && d.a_source != DType::none && d.a_scale.grid.group_rows == 1;
}

bool needs_pack(const GemmDesc& d, const Activations& form) {
  if (form.tiles) return !quantizes_into_tiles(d, form);
  return d.a_source == DType::none && !rows_as_given(d, form);
}

template <class... Args>
void set_args(cl::Kernel& kernel, const Args&... args) {
  cl_uint index = 0;
  (kernel.setArg(index++, args), ...);
}

/// The width of a scale group as a kernel's literal; a group that spans k gets one that no k reaches.
std::string width(const backend::ScaleDesc& scale) {
  if (scale.dtype == DType::none || scale.grid.group_cols == 0) return std::to_string(INT_MAX);
  return std::to_string(std::min<std::int64_t>(scale.grid.group_cols, INT_MAX));
}

std::string height(const backend::ScaleDesc& scale) {
  if (scale.dtype == DType::none || scale.grid.group_rows == 0) return std::to_string(INT_MAX);
  return std::to_string(std::min<std::int64_t>(scale.grid.group_rows, INT_MAX));
}

}  // namespace

struct Gemm::Run {
  Queue* queue = nullptr;
  std::int64_t m = 0;
  Memory workspace;
  std::vector<cl::Event> wait;  ///< For the first command only: the queue is in order.
  cl::Event first, last;
  std::vector<std::shared_ptr<Event>> earlier;  ///< The commands before `last`.
  bool dry = false;                             ///< Warming up: launch one work-group with m = 0.

  void launch(const cl::Kernel& kernel, const cl::NDRange& groups, const cl::NDRange& local) {
    const std::size_t* const l = local.get();
    const std::size_t* const g = groups.get();
    const cl::NDRange global = dry ? cl::NDRange(l[0], l[1]) : cl::NDRange(g[0] * l[0], g[1] * l[1]);
    cl::Event event;
    queue->native().enqueueNDRangeKernel(kernel, cl::NullRange, global, local, wait.empty() ? nullptr : &wait,
                                         &event);
    wait.clear();
    if (first() == nullptr) {
      first = event;
    } else {
      // What comes later in a queue may end well although this one failed: the call's event must know them all.
      earlier.push_back(std::make_shared<Event>(queue->context(), last, last, std::vector<std::shared_ptr<Event>>{}));
    }
    last = event;
  }
  Memory part(const Workspace::Part& p) const { return {workspace.buffer, workspace.at + p.at}; }
};

Workspace Gemm::lay_out(const GemmDesc& d, const Choice& choice) {
  const Activations form = choice.variant->activations(choice.tuning);
  const Size k_pad = Size(d.k).padded_to(form.k_pad);
  Workspace w;
  Size total;
  const auto add = [&](Workspace::Part& part, Size bytes) {
    part = {total.bytes(), bytes.bytes()};
    total += bytes.padded_to(kPartAlignment);
  };
  if (d.a_source != DType::none && !quantizes_into_tiles(d, form)) {
    add(w.codes, Size(d.m) * (form.tiles ? Size(d.k) : k_pad));
    add(w.code_scales, Size(d.a_scale.grid.scale_rows(d.m)) * d.a_scale.grid.scale_cols(d.k) * 4);
  }
  if (needs_pack(d, form) || quantizes_into_tiles(d, form)) {
    const Size rows = form.tiles ? Size(d.m).padded_to(form.rows) : Size(d.m);
    const int size = form.tiles || numerics::is_float(d.a) ? 4 : 1;
    add(w.packed, rows * k_pad * size);
    add(w.packed_scales, rows * choice.problem.groups() * 4);
  }
  if (choice.variant->scratch_bytes != nullptr) {
    add(w.scratch, choice.variant->scratch_bytes(choice.tuning, choice.problem));
  }
  w.bytes = total.bytes();
  return w;
}

Gemm::Gemm(ContextPtr context, const GemmDesc& desc, Choice choice)
    : context_(std::move(context)), desc_(desc), choice_(std::move(choice)) {
  form_ = choice_.variant->activations(choice_.tuning);
  k_pad_ = padded(desc_.k, form_.k_pad);
  packs_ = needs_pack(desc_, form_);
  quantizes_into_tiles_ = quantizes_into_tiles(desc_, form_);
  layout_ = lay_out(desc_, choice_);
  const Features& f = context_->features;
  streams_tiles_ = form_.tiles && f.prefers_vectors() && layout_.packed.size > 2 * f.local_bytes * f.compute_units;
  guarded("building a plan", [&] {
    build();
    own_workspace_ = Buffer(context_, std::max<std::uint64_t>(layout_.bytes, std::uint64_t{kPartAlignment})).memory();
    warm_up();
  });
}

void Gemm::build() {
  const Features& f = context_->features;
  ProgramBuilder& builder = *context_->builder;
  Defines shared{{"USE_FMA", f.fma ? "1" : "0"}};
  if (f.min_vector_width) shared["MIN_VECTOR_WIDTH"] = "1";
  if (f.half_vectors) shared["HALF_VECTORS"] = "1";
  if (f.cache_builtins) shared["CACHE_BUILTINS"] = "1";
  if (desc_.a_source != DType::none) {
    Defines defines = shared;
    defines["SOURCE"] = number(desc_.a_source);
    defines["CODE"] = number(desc_.a);
    defines["POWER_OF_TWO"] = desc_.a_quantizer.rounding == numerics::ScaleRounding::power_of_two ? "1" : "0";
    defines["FMA_DIVIDE"] = f.fma_divide ? "1" : "0";
    defines["EXACT_DIVIDE"] = f.exact_divide ? "1" : "0";
    const char* const options = f.exact_divide ? "-cl-fp32-correctly-rounded-divide-sqrt" : "";
    if (quantizes_into_tiles_) {
      Defines tiles = defines;
      tiles["TILE"] = std::to_string(form_.rows);
      tiles["B_TYPE"] = number(desc_.b);
      tiles["GROUP"] = std::to_string(choice_.problem.group);
      tiles["GROUP_COLS"] = width(desc_.a_scale);
      if (streams_tiles_) tiles["STREAM_TILES"] = "1";
      quantize_tiles_ = cl::Kernel(builder.build("quantize_tiles.cl", tiles, options), "quantize_tiles");
    }
    quantize_lanes_ =
        f.prefers_vectors() ? 1 : static_cast<int>(std::bit_floor(std::min<std::uint64_t>(64, f.max_work_group)));
    defines["LANES"] = std::to_string(quantize_lanes_);
    quantize_ = cl::Kernel(builder.build("quantize.cl", defines, options), "quantize");
  }
  // The unit of the weights' decoding goes into packed codes, which cannot overflow; floats can, so there it goes
  // into sums.
  if (form_.tiles && numerics::is_quantized(desc_.a)) shared["UNIT_IN_A"] = "1";
  if (packs_) {
    Defines defines = shared;
    defines["B_TYPE"] = number(desc_.b);
    defines["TILE"] = std::to_string(form_.rows);
    defines["A_TYPE"] = number(desc_.a);
    defines["SCALE_TYPE"] = number(desc_.a_scale.dtype);
    defines["GROUP"] = std::to_string(choice_.problem.group);
    if (streams_tiles_) defines["STREAM_TILES"] = "1";
    pack_ = cl::Kernel(builder.build("pack_a.cl", defines), form_.tiles ? "pack_tiles" : "pack_rows");
  }
  Defines defines = shared;
  for (const auto& [name, value] : choice_.tuning) defines[macro_name(name)] = std::to_string(value);
  defines["A_TYPE"] = form_.tiles || (packs_ && numerics::is_float(desc_.a)) ? number(DType::f32) : number(desc_.a);
  defines["B_TYPE"] = number(desc_.b);
  defines["D_TYPE"] = number(desc_.d);
  defines["BIAS_TYPE"] = number(desc_.bias);
  defines["GROUP"] = std::to_string(choice_.problem.group);
  defines["B_SCALE_COLS"] = width(desc_.b_scale);
  if (!form_.tiles) {
    defines["A_SCALE_ROWS"] = packs_ ? "1" : height(desc_.a_scale);
    defines["A_SCALE_COLS"] = packs_ ? std::to_string(choice_.problem.group) : width(desc_.a_scale);
  }
  const cl::Program program = builder.build(choice_.variant->name + ".cl", defines);
  for (const Pass& pass : choice_.variant->passes(choice_.tuning, choice_.problem, 1)) {
    passes_.emplace_back(program, pass.kernel.c_str());
  }
}

void Gemm::warm_up() {
  Queue queue(context_);
  Run run;
  run.queue = &queue;
  run.dry = true;
  const Memory none{own_workspace_, 0};
  run.workspace = none;
  if (desc_.a_source != DType::none) quantize(run, none, none, 0, 0, none);
  if (quantizes_into_tiles_) quantize_tiles(run, none);
  if (packs_) pack(run, none, 0, none, 0);
  multiply(run, none, 0, none, 0, {layout(), own_workspace_, own_workspace_, 1, 1}, none, none);
  queue.native().finish();
}

backend::GemmInfo Gemm::info() const {
  return {choice_.variant->accuracy,
          std::min<std::int64_t>(choice_.problem.group, std::max<std::int64_t>(desc_.k, 1)), layout_.bytes,
          choice_.variant->name, to_string(choice_.tuning)};
}

Weights& Gemm::weights_of(const backend::GemmArgs& args) const {
  auto* weights = dynamic_cast<Weights*>(args.weights.get());
  if (weights == nullptr || weights->context() != context_) {
    throw Error(Status::invalid_argument, "the weights are not prepared for device " + context_->features.name);
  }
  const backend::ScaleDesc& has = weights->scale();
  const backend::ScaleDesc& want = desc_.b_scale;
  if (weights->n() != desc_.n || weights->k() != desc_.k || weights->dtype() != desc_.b || has.dtype != want.dtype ||
      (has.dtype != DType::none && has.grid.resolved(desc_.n, desc_.k) != want.grid.resolved(desc_.n, desc_.k))) {
    const auto text = [](std::int64_t n, std::int64_t k, DType type, const backend::ScaleDesc& s) {
      return std::string(numerics::name_of(type)) + " [" + std::to_string(n) + ", " + std::to_string(k) + "] with " +
             std::string(numerics::name_of(s.dtype)) + " scales of " + std::to_string(s.grid.group_rows) + "x" +
             std::to_string(s.grid.group_cols);
    };
    throw Error(Status::invalid_argument, "the weights are " +
                                              text(weights->n(), weights->k(), weights->dtype(), has) +
                                              ", the plan is for " + text(desc_.n, desc_.k, desc_.b, want));
  }
  return *weights;
}

void Gemm::check(const backend::GemmArgs& args) const {
  if (args.m < 0 || args.m > desc_.m) {
    throw Error(Status::invalid_argument,
                "m is " + std::to_string(args.m) + ", the plan takes 0 to " + std::to_string(desc_.m));
  }
  if (args.m == 0) return;
  const auto need = [&](const Span& span, const char* what, std::int64_t rows, std::int64_t ld, std::int64_t cols,
                        DType type) {
    const std::uint64_t size = numerics::size_of(type);
    const auto bytes = static_cast<std::uint64_t>(numerics::checked_add(checked_mul(rows - 1, ld), cols)) * size;
    own(span.buffer, *context_, what);
    if (span.size < bytes) {
      throw Error(Status::invalid_argument, std::string(what) + " has " + std::to_string(span.size) +
                                                " bytes, the call needs " + std::to_string(bytes));
    }
    if (span.offset % context_->features.alignment != 0) {
      throw Error(Status::invalid_argument, std::string(what) + " starts at byte " + std::to_string(span.offset) +
                                                "; offsets are multiples of " +
                                                std::to_string(context_->features.alignment));
    }
  };
  need(args.a, "a", args.m, desc_.lda, desc_.k, desc_.a_source != DType::none ? desc_.a_source : desc_.a);
  need(args.d, "d", args.m, desc_.ldd, desc_.n, desc_.d);
  if (desc_.bias != DType::none) need(args.bias, "bias", 1, desc_.n, desc_.n, desc_.bias);
  const numerics::ScaleGrid& grid = desc_.a_scale.grid;
  if (desc_.a_source == DType::none && desc_.a_scale.dtype != DType::none) {
    need(args.a_scale, "a_scale", grid.scale_rows(args.m), desc_.a_scale.ld, grid.scale_cols(desc_.k),
         desc_.a_scale.dtype);
  }
  if (args.workspace) {
    own(args.workspace.buffer, *context_, "workspace");
    if (args.workspace.size < layout_.bytes || args.workspace.offset % context_->features.alignment != 0) {
      throw Error(Status::invalid_argument,
                  "the workspace has " + std::to_string(args.workspace.size) + " bytes from byte " +
                      std::to_string(args.workspace.offset) + ", the plan needs " + std::to_string(layout_.bytes) +
                      " from a multiple of " + std::to_string(context_->features.alignment));
    }
  }
  if (static_cast<bool>(args.a_quantized) != static_cast<bool>(args.a_quantized_scale) ||
      (args.a_quantized && desc_.a_source == DType::none)) {
    throw Error(Status::invalid_argument,
                "a_quantized and a_quantized_scale come together, on a plan that quantises a");
  }
  if (args.a_quantized) {
    need(args.a_quantized, "a_quantized", args.m, desc_.k, desc_.k, desc_.a);
    need(args.a_quantized_scale, "a_quantized_scale", grid.scale_rows(args.m), grid.scale_cols(desc_.k),
         grid.scale_cols(desc_.k), DType::f32);
  }
}

void Gemm::quantize(Run& run, const Memory& x, const Memory& codes, std::int64_t ld, std::int64_t fill,
                    const Memory& scales) {
  const numerics::ScaleGrid grid = desc_.a_scale.grid.resolved(std::max<std::int64_t>(run.m, 1), desc_.k);
  const std::int64_t cols = ceil_div(desc_.k, grid.group_cols);
  set_args(quantize_, static_cast<cl_int>(run.m), static_cast<cl_int>(desc_.k), static_cast<cl_int>(fill),
           static_cast<cl_int>(std::min<std::int64_t>(grid.group_rows, INT_MAX)),
           static_cast<cl_int>(std::min<std::int64_t>(grid.group_cols, INT_MAX)),
           std::bit_cast<cl_uint>(desc_.a_quantizer.amax_floor), x.buffer,
           static_cast<cl_ulong>(x.at / numerics::size_of(desc_.a_source)), static_cast<cl_ulong>(desc_.lda),
           codes.buffer, static_cast<cl_ulong>(codes.at), static_cast<cl_ulong>(ld), scales.buffer,
           static_cast<cl_ulong>(scales.at / 4), static_cast<cl_ulong>(cols));
  run.launch(quantize_,
             cl::NDRange(static_cast<std::size_t>(cols), static_cast<std::size_t>(ceil_div(run.m, grid.group_rows))),
             cl::NDRange(static_cast<std::size_t>(quantize_lanes_), 1));
}

void Gemm::quantize_tiles(Run& run, const Memory& x) {
  const Memory out = run.part(layout_.packed), scales = run.part(layout_.packed_scales);
  set_args(quantize_tiles_, static_cast<cl_int>(run.m), static_cast<cl_int>(desc_.k), static_cast<cl_int>(k_pad_),
           static_cast<cl_int>(choice_.problem.groups()), std::bit_cast<cl_uint>(desc_.a_quantizer.amax_floor),
           x.buffer, static_cast<cl_ulong>(x.at / numerics::size_of(desc_.a_source)),
           static_cast<cl_ulong>(desc_.lda), out.buffer, static_cast<cl_ulong>(out.at / 4), scales.buffer,
           static_cast<cl_ulong>(scales.at / 4));
  run.launch(quantize_tiles_,
             cl::NDRange(static_cast<std::size_t>(desc_.a_scale.grid.scale_cols(desc_.k)),
                         static_cast<std::size_t>(ceil_div(run.m, form_.rows))),
             cl::NDRange(1, 1));
}

void Gemm::pack(Run& run, const Memory& a, std::int64_t lda, const Memory& scales, std::int64_t lds) {
  const numerics::ScaleGrid grid = desc_.a_scale.grid.resolved(std::max<std::int64_t>(run.m, 1), desc_.k);
  const auto size = numerics::size_of(desc_.a);
  const auto scale_size = std::max<std::uint32_t>(1, numerics::size_of(desc_.a_scale.dtype));
  const std::int64_t groups = choice_.problem.groups();
  const Memory out = run.part(layout_.packed), out_scales = run.part(layout_.packed_scales);
  set_args(pack_, static_cast<cl_int>(run.m), static_cast<cl_int>(desc_.k), static_cast<cl_int>(k_pad_),
           static_cast<cl_int>(groups), a.buffer, static_cast<cl_ulong>(a.at / size), static_cast<cl_ulong>(lda),
           scales.buffer, static_cast<cl_ulong>(scales.at / scale_size), static_cast<cl_ulong>(lds),
           static_cast<cl_int>(std::min<std::int64_t>(grid.group_rows, INT_MAX)),
           static_cast<cl_int>(std::min<std::int64_t>(grid.group_cols, INT_MAX)), out.buffer,
           static_cast<cl_ulong>(out.at), out_scales.buffer, static_cast<cl_ulong>(out_scales.at / 4));
  const std::int64_t rows = ceil_div(run.m, form_.tiles ? form_.rows : 1);
  const std::size_t items =
      context_->features.prefers_vectors() ? 1 : std::min<std::size_t>(context_->features.max_work_group, 64);
  run.launch(pack_,
             cl::NDRange(static_cast<std::size_t>(ceil_div(groups, static_cast<std::int64_t>(items))),
                         static_cast<std::size_t>(rows)),
             cl::NDRange(items, 1));
}

void Gemm::multiply(Run& run, const Memory& a, std::int64_t lda, const Memory& sa, std::int64_t sa_ld,
                    const PackedWeights& b, const Memory& d, const Memory& bias) {
  const std::uint64_t a_size = numerics::is_float(desc_.a) || form_.tiles ? 4 : 1;
  const Memory scratch = run.part(layout_.scratch);
  const auto passes = choice_.variant->passes(choice_.tuning, choice_.problem, std::max<std::int64_t>(run.m, 1));
  for (std::size_t i = 0; i < passes.size(); ++i) {
    set_args(passes_[i], static_cast<cl_int>(run.m), static_cast<cl_int>(desc_.n), static_cast<cl_int>(desc_.k),
             static_cast<cl_int>(b.n_pad), static_cast<cl_int>(b.k_pad), a.buffer,
             static_cast<cl_ulong>(a.at / a_size), static_cast<cl_ulong>(lda), sa.buffer,
             static_cast<cl_ulong>(sa.at / 4), static_cast<cl_ulong>(sa_ld), b.codes, b.scales, d.buffer,
             static_cast<cl_ulong>(d.at / numerics::size_of(desc_.d)), static_cast<cl_ulong>(desc_.ldd), bias.buffer,
             static_cast<cl_ulong>(desc_.bias == DType::none ? 0 : bias.at / numerics::size_of(desc_.bias)),
             scratch.buffer, static_cast<cl_ulong>(scratch.at / 4));
    run.launch(passes_[i], cl::NDRange(passes[i].global[0], passes[i].global[1]), cl::NDRange(passes[i].local, 1));
  }
}

std::shared_ptr<backend::Event> Gemm::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                              const backend::GemmArgs& args) {
  auto* ours = dynamic_cast<Queue*>(queue.get());
  if (ours == nullptr || ours->context() != context_) {
    throw Error(Status::invalid_argument, "the queue is not one of device " + context_->features.name);
  }
  check(args);
  Weights& weights = weights_of(args);
  return guarded("a call of plan " + choice_.variant->name, [&]() -> std::shared_ptr<backend::Event> {
    Run run;
    run.queue = ours;
    run.m = args.m;
    std::vector<std::shared_ptr<Event>> causes;
    for (const auto& event : args.wait) {
      causes.push_back(own(event, "an event of the wait list"));
      run.wait.push_back(native_for(*context_, *causes.back()));
    }
    if (args.m == 0) {
      cl::Event event;
      ours->native().enqueueMarkerWithWaitList(run.wait.empty() ? nullptr : &run.wait, &event);
      return ours->record(event, event, std::move(causes));
    }
    const auto memory = [&](const Span& span) {
      return Memory{own(span.buffer, *context_, "a span").memory(), span.offset};
    };
    const bool own_workspace = !args.workspace && layout_.bytes != 0;
    run.workspace = args.workspace ? memory(args.workspace) : Memory{own_workspace_, 0};
    // A call that has ended needs no waiting for; one that failed would fail this one too.
    if (own_workspace && last_ != nullptr && last_queue_() != ours->native()() && !last_->done())
      run.wait.push_back(last_->native());

    const PackedWeights& b = weights.packed(layout());
    const Memory d = memory(args.d), bias = args.bias ? memory(args.bias) : Memory{own_workspace_, 0};
    Memory a = memory(args.a);
    Memory sa = args.a_scale ? memory(args.a_scale) : Memory{own_workspace_, 0};
    std::int64_t lda = desc_.lda, sa_ld = desc_.a_scale.ld;
    if (args.a_quantized)
      quantize(run, a, memory(args.a_quantized), desc_.k, desc_.k, memory(args.a_quantized_scale));
    if (quantizes_into_tiles_) {
      quantize_tiles(run, a);
    } else if (desc_.a_source != DType::none) {
      const Memory codes = run.part(layout_.codes), scales = run.part(layout_.code_scales);
      lda = form_.tiles ? desc_.k : k_pad_;
      sa_ld = desc_.a_scale.grid.scale_cols(desc_.k);
      quantize(run, a, codes, lda, lda, scales);
      a = codes;
      sa = scales;
    }
    if (packs_) pack(run, a, lda, sa, sa_ld);
    if (packs_ || quantizes_into_tiles_) {
      a = run.part(layout_.packed);
      sa = run.part(layout_.packed_scales);
      lda = k_pad_;
      sa_ld = choice_.problem.groups();
    }
    multiply(run, a, lda, sa, sa_ld, b, d, bias);
    causes.insert(causes.end(), run.earlier.begin(), run.earlier.end());
    auto event = ours->record(run.first, run.last, std::move(causes));
    if (own_workspace) {
      last_ = event;
      last_queue_ = ours->native();
    }
    return event;
  });
}

}  // namespace ironcl::opencl
