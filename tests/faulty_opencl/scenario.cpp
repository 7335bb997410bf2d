// SPDX-License-Identifier: Apache-2.0
#include "tests/faulty_opencl/scenario.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <stdexcept>

#include "backends/numerics/bounds.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"

namespace ironcl::faulty {
namespace {

using numerics::DType;
constexpr std::uint64_t kForEver = UINT64_MAX;
constexpr std::int64_t kGroup = 128;

struct Error : ironcl_error {
  Error() : ironcl_error{} { struct_size = sizeof(ironcl_error); }
};

/// A step that did not succeed.
struct Failed {
  std::string step;
  ironcl_status status;
  Error error;
};
/// A call that said OK and left something wrong.
struct Wrong {
  std::string what;
};

/// The problem's bytes on the host and what D must be.
struct Data {
  std::vector<std::uint8_t> a, a_scales, b, b_scales, rows;
  std::vector<numerics::OracleResult> want;  ///< Of each matrix' rows.
};

std::int64_t matrices(const Problem& p) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(p.rows.size()));
}

Data make_data(const Problem& p) {
  std::uint32_t state = 77;
  const auto next = [&] { return state = state * 1664525u + 1013904223u; };
  const auto scales = [&](std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& v : values) v = 0.25f + static_cast<float>(next() >> 8) * 0x1p-24f;
    return values;
  };
  const auto codes = [&](std::int64_t count) {
    std::vector<std::uint8_t> values(static_cast<std::size_t>(count));
    for (auto& v : values) v = static_cast<std::uint8_t>((next() >> 24) & 0xbf);
    return values;
  };
  Data data;
  const std::int64_t groups = p.k / kGroup, sb_rows = (p.n + kGroup - 1) / kGroup;
  std::vector<std::uint8_t> a_codes = codes(p.m * p.k);
  std::vector<float> sa = scales(p.m * groups), sb = scales(matrices(p) * sb_rows * groups);
  data.b = codes(matrices(p) * p.n * p.k);
  if (p.dynamic) {
    std::vector<float> x(static_cast<std::size_t>(p.m * p.k));
    for (float& v : x) v = static_cast<float>(next() >> 8) * 0x1p-22f - 2.0f;
    data.a.resize(x.size() * 2);
    numerics::encode(DType::bf16, x, data.a.data());
    numerics::quantize(DType::bf16, data.a.data(), p.m, p.k, p.k, DType::e4m3fn, {1, kGroup}, {}, a_codes, sa);
  } else {
    data.a = a_codes;
    data.a_scales.resize(sa.size() * sizeof(float));
    std::memcpy(data.a_scales.data(), sa.data(), data.a_scales.size());
  }
  data.b_scales.resize(sb.size() * sizeof(float));
  std::memcpy(data.b_scales.data(), sb.data(), data.b_scales.size());
  data.rows.resize(p.rows.size() * sizeof(std::int32_t));
  if (!p.rows.empty()) std::memcpy(data.rows.data(), p.rows.data(), data.rows.size());
  std::int64_t first = 0;
  for (std::int64_t g = 0; g < matrices(p); ++g) {
    numerics::Operand a, b;
    a.dtype = b.dtype = DType::e4m3fn;
    a.scale_dtype = b.scale_dtype = DType::f32;
    a.data = a_codes.data() + first * p.k;
    a.rows = p.rows.empty() ? p.m : p.rows[static_cast<std::size_t>(g)];
    a.cols = a.ld = b.cols = b.ld = p.k;
    a.scales = sa.data() + first * groups;
    a.grid = {1, kGroup};
    a.scale_ld = b.scale_ld = groups;
    b.data = data.b.data() + g * p.n * p.k;
    b.rows = p.n;
    b.scales = sb.data() + g * sb_rows * groups;
    b.grid = {kGroup, kGroup};
    data.want.push_back(numerics::oracle(a, b));
    first += a.rows;
  }
  return data;
}

ironcl_gemm_desc describe(const Problem& p, ironcl_options& options) {
  ironcl_gemm_desc d{};
  d.struct_size = sizeof(d);
  d.m = p.m;
  d.n = p.n;
  d.k = p.k;
  if (p.dynamic) d.a_source_dtype = IRONCL_BF16;
  d.a_dtype = d.b_dtype = IRONCL_F8_E4M3FN;
  d.d_dtype = IRONCL_F32;
  d.a_scale = {IRONCL_F32, 1, kGroup, 0, 0};
  d.b_scale = {IRONCL_F32, kGroup, kGroup, 0, 0};
  if (!p.rows.empty()) {
    d.grouping = IRONCL_GROUPING_CONTIGUOUS;
    d.group_count = static_cast<std::uint32_t>(p.rows.size());
  }
  options = {};
  options.chain = {sizeof(options), IRONCL_CHAIN_OPTIONS, nullptr};
  options.count = static_cast<std::uint32_t>(p.options.size());
  options.items = p.options.data();
  if (!p.options.empty()) d.next = &options.chain;
  return d;
}

/// One life: what exists and the steps that make it.
class Run {
 public:
  Run(const ironcl_plugin& plugin, const Problem& problem, const Data& data, const std::string& cache_dir,
      const std::function<void(const char*)>& step, const std::function<void()>& mended)
      : p_(plugin), problem_(problem), data_(data), cache_dir_(cache_dir), step_(step), mended_(mended) {}

  Life live() {
    try {
      steps();
    } catch (const Failed& second) {
      life_.after = status_name(second.status) + " at " + second.step;
    } catch (const Wrong& wrong) {
      life_.wrong = true;
      life_.message += "; " + wrong.what;
    }
    end();
    return life_;
  }

 private:
  static void log(void* context, std::uint32_t level, const char* text) {
    auto* self = static_cast<Run*>(context);
    if (level <= IRONCL_LOG_WARN) self->warning_ = text;
  }

  /// Runs a block of steps; where it fails the first time in this life, once more after `mended`.
  template <class Block>
  void attempt(Block&& block) {
    try {
      block();
    } catch (const Failed& failed) {
      if (!life_.failed.empty()) throw;
      life_.failed = failed.step;
      life_.status = failed.status;
      life_.native_code = failed.error.native_code;
      life_.message = failed.error.message;
      mended_();
      block();
      life_.after = "right";
    }
  }

  template <class Call>
  void need(const char* name, Call&& call) {
    step_(name);
    Error error;
    const ironcl_status status = call(&error);
    if (status != IRONCL_OK) throw Failed{name, status, error};
  }

  /// The same for a call that makes an object: a failure leaves the handle alone.
  template <class Handle, class Call>
  void make(const char* name, Handle& handle, Call&& call) {
    if (handle != nullptr) return;
    const auto untouched = reinterpret_cast<Handle>(std::uintptr_t{0x5a5a});
    Handle made = untouched;
    step_(name);
    Error error;
    const ironcl_status status = call(&made, &error);
    if (status != IRONCL_OK) {
      if (made != untouched) throw Wrong{std::string(name) + " failed and wrote its out parameter"};
      throw Failed{name, status, error};
    }
    handle = made;
  }

  void steps() {
    attempt([&] {
      const std::array<ironcl_key_value, 2> options{{{"cache_dir", cache_dir_.c_str()}, {"tuned_dir", "off"}}};
      ironcl_host host{sizeof(ironcl_host), IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR, 0, this, &Run::log};
      need("load", [&](Error* e) { return p_.load(&host, options.data(), options.size(), e); });
      loaded_ = true;
    });
    attempt([&] {
      std::uint32_t count = 0;
      need("enumerate", [&](Error* e) { return p_.enumerate(&device_, 1, &count, e); });
      if (count == 0) device_ = nullptr;
    });
    if (device_ == nullptr) {
      life_.no_device = true;
      if (life_.failed.empty()) life_.message = warning_;
      return;
    }
    ironcl_options options;
    const ironcl_gemm_desc desc = describe(problem_, options);
    attempt([&] {
      ironcl_device_props props{};
      props.struct_size = sizeof(props);
      need("device_props", [&](Error* e) { return p_.device_props(device_, &props, e); });
    });
    attempt([&] {
      ironcl_support support{};
      support.struct_size = sizeof(support);
      need("supports", [&](Error* e) { return p_.supports(device_, &desc, &support, e); });
      if (support.reason != 0) throw Wrong{std::string("supports refuses: ") + support.text};
    });
    attempt([&] {
      make("gemm_create", plan_, [&](auto* out, Error* e) { return p_.gemm_create(device_, &desc, out, e); });
    });
    attempt([&] {
      make("queue_create", queue_, [&](auto* out, Error* e) { return p_.queue_create(device_, 0, out, e); });
      make("queue_create", second_, [&](auto* out, Error* e) { return p_.queue_create(device_, 0, out, e); });
    });
    attempt([&] {
      buffer(a_, data_.a.size());
      if (!data_.a_scales.empty()) buffer(a_scales_, data_.a_scales.size());
      if (!data_.rows.empty()) buffer(rows_, data_.rows.size());
      buffer(d_, d_bytes());
    });
    attempt([&] {
      put(a_, data_.a);
      if (!data_.a_scales.empty()) put(a_scales_, data_.a_scales);
      if (!data_.rows.empty()) put(rows_, data_.rows);
    });
    attempt([&] { prepare(); });
    attempt([&] { call(queue_, nullptr); });
    attempt([&] {
      // Another queue, told to wait for the first one's command; both use the plan's own workspace.
      // What was told to wait for a failed command fails with it, so the second attempt takes a new queue.
      if (!life_.failed.empty() && second_ != nullptr) {
        p_.queue_destroy(second_);
        second_ = nullptr;
        make("queue_create", second_, [&](auto* out, Error* e) { return p_.queue_create(device_, 0, out, e); });
      }
      ironcl_event before = nullptr;
      enqueue(queue_, problem_.m, &before);
      events_.push_back(before);
      call(second_, before);
    });
    attempt([&] {
      ironcl_event none = nullptr;
      enqueue(queue_, 0, &none);
      events_.push_back(none);
      wait(none, 1'000'000'000);
      need("queue_finish", [&](Error* e) { return p_.queue_finish(queue_, e); });
    });
    attempt([&] { export_back(); });
  }

  std::size_t d_bytes() const { return static_cast<std::size_t>(problem_.m * problem_.n) * sizeof(float); }

  void buffer(ironcl_buffer& handle, std::uint64_t size) {
    const ironcl_buffer_desc desc{sizeof(ironcl_buffer_desc), 0, nullptr, size};
    make("buffer_create", handle, [&](auto* out, Error* e) { return p_.buffer_create(device_, &desc, out, e); });
  }

  void put(ironcl_buffer to, const std::vector<std::uint8_t>& bytes) {
    need("write", [&](Error* e) {
      return p_.write(queue_, {to, 0, bytes.size()}, bytes.data(), IRONCL_HOST_COPIED_BEFORE_RETURN, nullptr, e);
    });
  }

  void prepare() {
    ironcl_weights_desc w{};
    w.struct_size = sizeof(w);
    w.dtype = IRONCL_F8_E4M3FN;
    w.n = problem_.n;
    w.k = problem_.k;
    w.scale = {IRONCL_F32, kGroup, kGroup, 0, 0};
    w.group_count = static_cast<std::uint32_t>(problem_.rows.size());
    w.data = data_.b.data();
    w.data_bytes = data_.b.size();
    w.scales = data_.b_scales.data();
    w.scale_bytes = data_.b_scales.size();
    w.plan = plan_;
    make("weights_prepare", weights_, [&](auto* out, Error* e) { return p_.weights_prepare(device_, &w, out, e); });
  }

  void enqueue(ironcl_queue queue, std::int64_t rows, ironcl_event* event) {
    ironcl_gemm_args args{};
    args.struct_size = sizeof(args);
    args.m = rows;
    args.weights = weights_;
    args.a = {a_, 0, data_.a.size()};
    if (!data_.a_scales.empty()) args.a_scale = {a_scales_, 0, data_.a_scales.size()};
    if (!data_.rows.empty()) args.group_sizes = {rows_, 0, data_.rows.size()};
    args.d = {d_, 0, d_bytes()};
    make("gemm_enqueue", *event, [&](auto* out, Error* e) { return p_.gemm_enqueue(plan_, queue, &args, out, e); });
  }

  void wait(ironcl_event event, std::uint64_t timeout) {
    need("event_wait", [&](Error* e) { return p_.event_wait(event, timeout, e); });
  }

  /// Poisons D, multiplies on `queue`, reads D back and compares every element.
  void call(ironcl_queue queue, ironcl_event before) {
    const std::vector<std::uint8_t> poison(d_bytes(), 0xff);
    if (before != nullptr) need("queue_wait", [&](Error* e) { return p_.queue_wait(queue, before, e); });
    need("write", [&](Error* e) {
      return p_.write(queue, {d_, 0, poison.size()}, poison.data(), IRONCL_HOST_COPIED_BEFORE_RETURN, nullptr, e);
    });
    ironcl_event done = nullptr;
    enqueue(queue, problem_.m, &done);
    events_.push_back(done);
    wait(done, kForEver);
    ironcl_event_profile profile{};
    profile.struct_size = sizeof(profile);
    need("event_profile", [&](Error* e) { return p_.event_profile(done, &profile, e); });
    std::vector<float> got(static_cast<std::size_t>(problem_.m * problem_.n));
    ironcl_event read = nullptr;
    make("read", read, [&](auto* out, Error* e) { return p_.read(queue, {d_, 0, d_bytes()}, got.data(), out, e); });
    events_.push_back(read);
    try {
      wait(read, kForEver);
    } catch (const Failed&) {
      Error ignored;  // The bytes may still be on their way to `got`.
      p_.queue_finish(queue, &ignored);
      throw;
    }
    std::int64_t first = 0;
    for (const numerics::OracleResult& want : data_.want) {
      const auto count = static_cast<std::int64_t>(want.value.size());
      const std::vector<double> values(got.begin() + first, got.begin() + first + count);
      const auto verdict =
          numerics::compare(values, want, {DType::f32, numerics::AccuracyClass::f32, problem_.k, kGroup});
      if (!verdict.pass) {
        throw Wrong{"D is wrong at [" + std::to_string(first / problem_.n + verdict.first_row) + ", " +
                    std::to_string(verdict.first_col) + "] and " + std::to_string(verdict.out_of_bounds - 1) +
                    " other elements, and every call said OK"};
      }
      first += count;
    }
  }

  void export_back() {
    std::vector<std::uint8_t> codes(data_.b.size()), scales(data_.b_scales.size());
    need("weights_export", [&](Error* e) {
      return p_.weights_export(weights_, codes.data(), codes.size(), scales.data(), scales.size(), e);
    });
    if (codes != data_.b || scales != data_.b_scales) throw Wrong{"the weights came back changed"};
  }

  void end() {
    step_("destroy");
    for (const ironcl_event event : events_) p_.event_destroy(event);
    p_.weights_destroy(weights_);
    p_.gemm_destroy(plan_);
    for (const ironcl_buffer buffer : {a_, a_scales_, rows_, d_}) p_.buffer_destroy(buffer);
    p_.queue_destroy(second_);
    p_.queue_destroy(queue_);
    step_("unload");
    if (loaded_) p_.unload();
    step_("");
  }

  const ironcl_plugin& p_;
  const Problem& problem_;
  const Data& data_;
  const std::string& cache_dir_;
  const std::function<void(const char*)>& step_;
  const std::function<void()>& mended_;
  Life life_;
  std::string warning_;
  bool loaded_ = false;
  ironcl_device device_ = nullptr;
  ironcl_gemm plan_ = nullptr;
  ironcl_queue queue_ = nullptr, second_ = nullptr;
  ironcl_buffer a_ = nullptr, a_scales_ = nullptr, rows_ = nullptr, d_ = nullptr;
  ironcl_weights weights_ = nullptr;
  std::vector<ironcl_event> events_;
};

}  // namespace

Problem problem_named(const std::string& name) {
  Problem problem;
  problem.name = name;
  if (name == "stream") {
    problem.options = {{"variant", "gemm_stream"}, {"split_k", "2"}};
  } else if (name == "tiled") {
    problem.options = {{"variant", "gemm_tiled"}};
    problem.m = 20;
  } else if (name == "skinny") {
    problem.options = {{"variant", "gemm_skinny"}, {"split_k", "2"}};
  } else if (name == "panel") {
    problem.options = {{"variant", "gemm_panel"}};
    problem.dynamic = false;
  } else if (name == "grouped") {
    problem.options = {{"variant", "gemm_stream"}};
    problem.rows = {7, 0, 12, 1};
    problem.m = 20;
  } else if (name == "amx") {  // Only where the processor has tiles and the driver lets kernels use them.
    problem.options = {{"variant", "gemm_amx"}};
    problem.m = 20;
  } else {
    throw std::runtime_error("problem \"" + name + "\": expected stream, tiled, skinny, panel, grouped or amx");
  }
  return problem;
}

const ironcl_plugin* open_plugin(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(file + ": " + dlerror());
  const auto query = reinterpret_cast<ironcl_plugin_query_fn>(dlsym(library, IRONCL_PLUGIN_QUERY_SYMBOL));
  if (query == nullptr) throw std::runtime_error(file + ": no plugin of IronCL");
  const ironcl_plugin* const table = query(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
  if (table == nullptr || table->struct_size < sizeof(ironcl_plugin)) throw std::runtime_error(file + ": too old");
  return table;
}

Life live(const ironcl_plugin& plugin, const Problem& problem, const std::string& cache_dir,
          const std::function<void(const char*)>& step, const std::function<void()>& mended) {
  static std::map<std::string, Data> made;
  auto found = made.find(problem.name);
  if (found == made.end()) found = made.emplace(problem.name, make_data(problem)).first;
  return Run(plugin, problem, found->second, cache_dir, step, mended).live();
}

std::string status_name(ironcl_status status) {
  constexpr std::array<const char*, 12> kNames{"OK",
                                               "INVALID_ARGUMENT",
                                               "UNSUPPORTED",
                                               "UNIMPLEMENTED",
                                               "UNAVAILABLE",
                                               "OUT_OF_HOST_MEMORY",
                                               "OUT_OF_DEVICE_MEMORY",
                                               "BUILD_FAILED",
                                               "DEVICE_LOST",
                                               "TIMEOUT",
                                               "INCOMPATIBLE",
                                               "INTERNAL"};
  return status < kNames.size() ? kNames[status] : "status " + std::to_string(status);
}

}  // namespace ironcl::faulty
