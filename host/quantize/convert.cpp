// SPDX-License-Identifier: Apache-2.0
#include "host/quantize/convert.h"

#include <atomic>
#include <bit>
#include <boost/algorithm/string/replace.hpp>
#include <boost/interprocess/sync/file_lock.hpp>
#include <cmath>
#include <future>
#include <thread>

#include "backends/numerics/casts.h"
#include "host/checkpoint/json_input.h"
#include "host/report/json.h"
#include "host/report/units.h"

namespace ironcl::quantize {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using checkpoint::Checkpoint;
using checkpoint::Error;
using checkpoint::ErrorKind;
using checkpoint::Tensor;

constexpr std::int64_t kStripe = 1 << 18;  ///< Elements that a thread has in hand: 1 MiB, which caches hold.
constexpr std::size_t kCopy = std::size_t{8} << 20;  ///< Bytes of a piece that is copied.

/// Weights of other forms.
constexpr std::array<std::string_view, 11> kWeightFiles = {
    ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".onnx", ".onnx_data", ".msgpack", ".index.json"};
constexpr std::array<std::string_view, 3> kConv1D = {"gpt2", "openai-gpt", "imagegpt"};

/// Calls task(i) for 0 <= i < count on `threads` threads; one of their exceptions is thrown when all have stopped.
void parallel(unsigned threads, std::size_t count, const std::function<void(std::size_t)>& task) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    try {
      for (std::size_t at = next++; at < count; at = next++) task(at);
    } catch (...) {
      next = count;
      throw;
    }
  };
  std::vector<std::future<void>> workers;  // each waits for its thread where it goes
  for (unsigned i = 0; i < threads; ++i) workers.push_back(std::async(std::launch::async, work));
  for (std::future<void>& worker : workers) worker.get();
}

/// Rows of a weight, or bytes of a tensor that stays.
struct Task {
  const Item* item = nullptr;
  const Tensor* copy = nullptr;
  std::int64_t first = 0, rows = 0;  ///< Of the copy: bytes.

  std::int64_t values() const { return rows * item->weight.k; }
};

std::vector<Task> tasks_of(const Shard& shard) {
  std::vector<Task> tasks;
  for (const Item& item : shard.items) {
    const Weight& weight = item.weight;
    const std::int64_t band = std::max<std::int64_t>(1, item.format->scheme.grid.group_rows);
    const std::int64_t rows = std::max(band, kStripe / weight.k / band * band);
    for (std::int64_t first = 0; first < weight.n; first += rows)
      tasks.push_back({&item, nullptr, first, std::min(rows, weight.n - first)});
  }
  for (const Tensor* tensor : shard.copies)
    for (std::size_t first = 0; first < tensor->data.size(); first += kCopy)
      tasks.push_back({nullptr, tensor, static_cast<std::int64_t>(first),
                       static_cast<std::int64_t>(std::min(kCopy, tensor->data.size() - first))});
  return tasks;
}

std::uint64_t bytes_of(const Task& task) {
  return static_cast<std::uint64_t>(task.rows) * (task.copy != nullptr ? 1 : task.item->weight.row_bytes());
}

/// Where a stripe's codes and scales lie in their tensors, in bytes.
struct Extent {
  std::int64_t codes_begin, codes, scales_begin, scales;
};
Extent extent_of(const Task& task) {
  const Weight& weight = task.item->weight;
  const Scheme& scheme = task.item->format->scheme;
  const std::int64_t row = numerics::bytes_of(scheme.code, weight.k);
  Extent extent{task.first * row, task.rows * row, 0, 0};
  if (!scheme.quantized()) return extent;
  const std::int64_t scale_row = scheme.grid.scale_cols(weight.k) * numerics::size_of(scheme.scale);
  extent.scales_begin = scheme.grid.row_of(task.first) * scale_row;
  extent.scales = scheme.grid.scale_rows(task.rows) * scale_row;
  return extent;
}

/// Memory of a thread, which grows to what its stripes need.
struct Buffers {
  std::vector<float> x, y;
  std::vector<std::byte> codes, scales;
};
thread_local Buffers buffers;

template <class T>
std::span<T> grown(std::vector<T>& buffer, std::int64_t count) {
  buffer.resize(std::max(buffer.size(), static_cast<std::size_t>(count)));
  return std::span(buffer).first(static_cast<std::size_t>(count));
}

bool is_one_of(const auto& list, std::string_view name) { return std::ranges::find(list, name) != list.end(); }

}  // namespace

struct Conversion::State : ConversionFacts {
  explicit State(Request asked) : request(std::move(asked)), checkpoint(open(request.in)) {
    if (!request.out.has_filename()) request.out = request.out.parent_path();  // "OUT/" is OUT
    check_out();
    if (!folder.config.empty()) {
      config = checkpoint::read_object(folder.config);
      const json::value* type = config.if_contains("model_type");
      const std::string model = type != nullptr && type->is_string() ? json::value_to<std::string>(*type) : "";
      if (is_one_of(kConv1D, model) && request.format.scheme.quantized())
        throw Error(ErrorKind::unsupported, folder.config, "",
                    "is of model_type {}, whose weights are stored as [K, N] (Conv1D), which no scheme supports",
                    model);
    }
    request.format.check_inputs(!request.clips.empty());
    plan = make_plan(checkpoint, request.format, request.keep, request.clips);
    if (request.threads == 0) request.threads = std::max(1u, std::thread::hardware_concurrency());
    for (const Shard& shard : plan.shards) {
      for (const Task& task : tasks_of(shard)) input_bytes += bytes_of(task);
      for (const Tensor& spec : specs_of(shard)) {
        const std::uint64_t bits = checkpoint::find_file_dtype(spec.dtype_name)->bits;
        output_bytes += (static_cast<std::uint64_t>(spec.elements()) * bits + 7) / 8;
      }
    }
    find_rest();
  }

  static Checkpoint open(const fs::path& in) {
    if (fs::is_regular_file(in))
      throw Error(ErrorKind::config, in, "", "is a file; name the folder of the checkpoint, with its config.json");
    return Checkpoint::open(in);
  }

  void check_out() const {
    const fs::path in = fs::weakly_canonical(request.in), out = fs::weakly_canonical(request.out);
    if (is_one_of(std::array{"", ".", ".."}, request.out.filename().string()))
      throw Error(ErrorKind::config, request.out, "", "is not a name for a new folder");
    if (std::mismatch(in.begin(), in.end(), out.begin(), out.end()).first == in.end())
      throw Error(ErrorKind::config, request.out, "", "is the input or inside of it; name another folder");
    if (!fs::exists(request.out) || is_renamed()) return;
    std::error_code not_empty;  // where a run was ended just before it removed this
    fs::remove(part(), not_empty);
    throw Error(ErrorKind::io, request.out, "", "exists already; remove it, or name another folder");
  }

  /// Whether an earlier run was ended between its last rename and clearing away.
  bool is_renamed() const {
    return fs::exists(request.out) && fs::exists(state_file()) && !fs::exists(work()) &&
           checkpoint::read_object(state_file()) == wishes();
  }

  /// Tokenizer, templates, licence, ... of the folder and of its own folders come along; weights that are not of the
  /// checkpoint stay behind, as do links to folders and what is hidden.
  void find_rest() {
    std::set<fs::path> ours;
    for (const auto& file : folder.files) ours.insert(file.path());
    for (auto at = fs::recursive_directory_iterator(request.in); at != fs::recursive_directory_iterator(); ++at) {
      const std::string name = at->path().filename();
      if (name.starts_with('.')) at.disable_recursion_pending();
      const bool entered = at->is_directory() && !at->is_symlink();
      if (name.starts_with('.') || entered || ours.contains(at->path())) continue;
      // By its name: a cache of downloads has links, and what they lead to lies elsewhere.
      const fs::path inside = at->path().lexically_relative(request.in);
      // Others are links to folders, which may lead anywhere, or to nothing.
      const bool is_file = at->is_regular_file();
      if (is_file && std::ranges::none_of(kWeightFiles, [&](auto suffix) { return name.ends_with(suffix); })) {
        const bool of_input = is_one_of(checkpoint::kQuantizationConfigs, name) || at->path() == folder.quanto_map;
        if (at.depth() > 0 || !of_input) rest.push_back(inside);
      } else if (!is_file || !name.ends_with(".index.json")) {
        left_behind.push_back(inside);
      }
    }
    std::ranges::sort(left_behind);
  }

  fs::path part() const { return request.out.string() + ".part"; }
  fs::path work() const { return part() / "out"; }
  fs::path state_file() const { return part() / "state.json"; }

  static std::vector<Tensor> specs_of(const Shard& shard) {
    std::vector<Tensor> specs;
    for (const Tensor* copy : shard.copies) specs.push_back(*copy);
    for (const Item& item : shard.items) std::ranges::move(item.specs(), std::back_inserter(specs));
    return specs;
  }

  // --- Largest magnitudes of whole tensors

  /// Of each weight of the shard that needs it; a fused one's is that of all its parts, in whichever
  /// shard they are.
  using Amax = std::map<std::string, std::uint32_t>;
  Amax largest(const Shard& of) const {
    std::set<std::string> wanted;
    for (const Item& item : of.items)
      if (item.format->scheme.needs_tensor_amax()) wanted.insert(key(item));
    Amax result;
    if (wanted.empty()) return result;
    std::vector<Task> tasks;
    for (const Shard& shard : plan.shards)
      for (const Task& task : tasks_of(shard))
        if (task.item != nullptr && wanted.contains(key(*task.item))) {
          tasks.push_back(task);
          result[key(*task.item)] = 0;
        }
    std::mutex mutex;
    parallel(request.threads, tasks.size(), [&](std::size_t i) {
      const Task& task = tasks[i];
      const auto x = grown(buffers.x, task.values());
      task.item->weight.read(task.first, task.rows, x);
      const std::uint32_t bits = numerics::largest_magnitude_bits(x);
      const std::lock_guard lock(mutex);
      std::uint32_t& top = result[key(*task.item)];
      top = std::max(top, bits);
    });
    return result;
  }

  static const std::string& key(const Item& item) { return item.format->scheme.global ? item.fused : item.name; }

  // --- Files

  void write_shard(const Shard& shard, const std::function<void(std::uint64_t)>& advance) const {
    const Amax amax = largest(shard);
    checkpoint::Metadata metadata = shard.file->metadata();
    metadata.erase("_quantization_metadata");
    metadata.try_emplace("format", "pt");
    checkpoint::SafetensorsWriter writer(work() / shard.file->path().filename(), specs_of(shard), metadata);
    const std::vector<Task> tasks = tasks_of(shard);
    parallel(request.threads, tasks.size(), [&](std::size_t i) {
      const Task& task = tasks[i];
      if (task.copy != nullptr) {
        writer.write_at(task.copy->name, task.first, task.copy->bytes(task.first, task.rows));
      } else {
        const auto found = amax.find(key(*task.item));
        write_stripe(writer, task, found == amax.end() ? 0 : std::bit_cast<float>(found->second));
      }
      advance(bytes_of(task));
    });
    writer.commit();
  }

  void write_stripe(checkpoint::SafetensorsWriter& writer, const Task& task, float amax) const {
    const Item& item = *task.item;
    const Extent extent = extent_of(task);
    const auto x = grown(buffers.x, task.values());
    item.weight.read(task.first, task.rows, x);
    const Encoded out{grown(buffers.codes, extent.codes), grown(buffers.scales, extent.scales)};
    const Scheme& scheme = item.format->scheme;
    if (request.encoder && item.format == plan.format)
      request.encoder(x, task.rows, item.weight.k, out);
    else
      encode(scheme, x, task.rows, item.weight.k, amax, out);
    writer.write_at(item.names().codes, extent.codes_begin, out.codes);
    if (scheme.quantized() && (task.first == 0 || scheme.grid.group_rows != 0))
      writer.write_at(item.names().scale, extent.scales_begin, out.scales);
    if (task.first != 0) return;
    const auto write_one = [&](const std::string& name, float value) {
      writer.write_at(name, 0, std::as_bytes(std::span(&value, 1)));
    };
    if (scheme.global) write_one(item.names().global, global_scale(scheme, amax));
    if (item.input_clip != 0) write_one(item.names().input, item.format->input_scale(item.input_clip));
  }

  /// Names the weights of a file that is done of which a scale is no number, as a NaN or an infinity makes it.
  void find_spoiled(const Shard& shard) {
    const auto file = checkpoint::SafetensorsFile::open(work() / shard.file->path().filename());
    std::mutex mutex;
    parallel(request.threads, shard.items.size(), [&](std::size_t i) {
      const Item& item = shard.items[i];
      const Scheme& scheme = item.format->scheme;
      if (!scheme.quantized()) return;
      const Tensor& scales = file.at(item.names().scale);
      bool whole = !scheme.global || std::isnormal(file.at(item.names().global).element<float>(0));
      for (std::int64_t at = 0; whole && at < scales.elements(); ++at)
        whole = std::isfinite(numerics::load_as_f64(scheme.scale, scales.data.data(), at));
      const std::lock_guard lock(mutex);
      if (!whole) spoiled.push_back(item.name);
    });
    std::ranges::sort(spoiled, checkpoint::natural_less);
  }

  /// What a run was asked for and of which files; another one's OUT.part is not gone on with.
  json::object wishes() const {
    json::array inputs;
    for (const auto& file : folder.files)
      inputs.push_back({{"file", file.path().filename().string()},
                        {"bytes", file.file_size()},
                        {"written", fs::last_write_time(file.path()).time_since_epoch().count()}});
    json::object clips;
    for (const auto& [name, clip] : request.clips) clips[name] = report::exact_number(clip.largest);
    return {{"scheme", request.format.name},
            {"format", describe(request.format)},
            {"keep", json::value_from(request.keep)},
            {"input", fs::weakly_canonical(request.in).string()},
            {"files", inputs},
            {"clips", clips}};
  }

  /// Makes OUT.part, or takes what an earlier run left in it.
  void begin() {
    fs::create_directories(part());
    if (!fs::exists(state_file())) {
      for (const fs::directory_entry& entry : fs::directory_iterator(part()))
        if (!entry.path().filename().string().starts_with("state.json."))
          throw Error(ErrorKind::config, part(), "", "holds '{}', which this command did not write; remove it first",
                      entry.path().filename().string());
      report::write_file(state_file(), report::to_text(wishes()));
    }
    if (checkpoint::read_object(state_file()) != wishes())
      throw Error(ErrorKind::config, part(), "", "is of a run with other options or another input; remove it first");
    running = boost::interprocess::file_lock(state_file().c_str());
    if (!running.try_lock())
      throw Error(ErrorKind::io, part(), "", "is being written by another run; wait for it, or name another folder");
    fs::create_directories(work());
    for (const fs::directory_entry& entry : fs::directory_iterator(work()))
      if (entry.path().extension() == ".partial") fs::remove(entry.path());
    for (const Shard& shard : plan.shards)
      if (fs::exists(work() / shard.file->path().filename())) resumed.push_back(shard.file->path().filename());
  }

  void check_room() const {
    std::uint64_t done = 0, need = output_bytes;
    for (const std::string& name : resumed) done += fs::file_size(work() / name);
    for (const fs::path& file : rest) need += fs::file_size(request.in / file);
    need -= std::min(done, need);
    const std::uint64_t room = fs::space(part()).available;
    if (room >= need) return;
    if (resumed.empty()) fs::remove_all(part());  // so that another scheme may be tried
    throw Error(ErrorKind::io, part(), "",
                "has room for {}, and {} are to be written; free some, or name another disk",
                report::human_bytes(static_cast<double>(room)), report::human_bytes(static_cast<double>(need)));
  }

  void write_configs() const {
    json::object made = config;
    for (const char* name : {"quantization_config", "compression_config", "quantization", "expert_dtype"})
      made.erase(name);
    if (json::value* text = made.if_contains("text_config"); text != nullptr && text->is_object())
      for (const char* name : {"quantization_config", "compression_config"}) text->get_object().erase(name);
    bool calibrated = false;
    for (const Shard& shard : plan.shards)
      for (const Item& item : shard.items) calibrated |= item.input_clip != 0;
    const Format& format = *plan.format;
    if (format.scheme.quantized()) {
      made["quantization_config"] = quantization_config(format, plan.ignored, calibrated);
      if (format.dialect == Dialect::modelopt)
        report::write_file(work() / "hf_quant_config.json", report::to_text(hf_quant_config(format, plan.ignored)));
    }
    // As Python writes them; read_object() made texts of the same length of them. (A NaN has become "N" for good.)
    std::string text = report::to_text(made);
    for (const std::string word : {"Infinity", "-Infinity"})
      boost::replace_all(text, '"' + word.substr(0, word.size() - 2) + '"', word);
    report::write_file(work() / "config.json", text);
    if (folder.index.empty()) return;
    json::object map;
    for (const Shard& shard : plan.shards)
      for (const Tensor& spec : specs_of(shard)) map[spec.name] = shard.file->path().filename().string();
    report::write_file(
        work() / folder.index.filename(),
        report::to_text(json::object{{"metadata", {{"total_size", output_bytes}}}, {"weight_map", map}}));
  }

  void copy_rest() const {
    for (const fs::path& file : rest) {
      fs::create_directories((work() / file).parent_path());
      fs::remove(work() / file);  // of an earlier run, perhaps read-only as its source
      fs::copy_file(request.in / file, work() / file);
    }
  }

  Request request;
  Checkpoint checkpoint;
  const checkpoint::Folder& folder = checkpoint.folder();
  json::object config;
  std::vector<fs::path> rest;  ///< Files that come along as they are, by their paths in the folder.
  boost::interprocess::file_lock running;
};

Conversion::Conversion(Request request)
    : state_(checkpoint::with_file_errors([&] { return std::make_unique<State>(std::move(request)); })) {}
Conversion::~Conversion() = default;

const ConversionFacts& Conversion::facts() const noexcept { return *state_; }

void Conversion::run(const Progress& progress) {
  State& state = *state_;
  checkpoint::with_file_errors([&] {
    if (state.is_renamed()) {
      fs::remove_all(state.part());
      return;
    }
    state.begin();
    state.check_room();
    std::mutex mutex;
    std::uint64_t done = 0;
    for (const Shard& shard : state.plan.shards) {
      const std::string name = shard.file->path().filename();
      const auto advance = [&](std::uint64_t bytes) {
        const std::lock_guard lock(mutex);
        done += bytes;
        if (progress) progress(done, state.input_bytes, name);
      };
      if (!is_one_of(state.resumed, name)) {
        state.write_shard(shard, advance);
      } else {
        for (const Task& task : tasks_of(shard)) advance(bytes_of(task));
      }
      state.find_spoiled(shard);
    }
    state.copy_rest();
    state.write_configs();
    fs::rename(state.work(), state.request.out);
    fs::remove_all(state.part());
  });
}

std::vector<LayerLoss> Conversion::verify(const Progress& progress) const {
  const State& state = *state_;
  std::vector<LayerLoss> losses;
  std::mutex mutex;
  std::uint64_t done = 0;
  for (const Shard& shard : state.plan.shards) {
    const auto file = checkpoint::SafetensorsFile::open(state.request.out / shard.file->path().filename());
    std::map<const Item*, std::size_t> place;
    for (const Item& item : shard.items) {
      place[&item] = losses.size();
      losses.push_back({item.name, {}});
      for (const Tensor& spec : item.specs())
        if (const Tensor& tensor = file.at(spec.name);
            tensor.shape != spec.shape || tensor.dtype_name != spec.dtype_name)
          throw Error(ErrorKind::shape, file.path(), spec.name,
                      "is {} {}, expected {}; it was written by something else", tensor.dtype_name,
                      tensor.shape_text(), spec.dtype_name);
    }
    const std::vector<Task> tasks = tasks_of(shard);
    parallel(state.request.threads, tasks.size(), [&](std::size_t i) {
      const Task& task = tasks[i];
      Loss loss;
      if (task.copy != nullptr) {
        const Tensor& kept = file.at(task.copy->name);
        if (kept.data.size() != task.copy->data.size() ||
            std::memcmp(kept.data.data() + task.first, task.copy->data.data() + task.first,
                        static_cast<std::size_t>(task.rows)) != 0)
          throw Error(ErrorKind::value, file.path(), kept.name,
                      "has other bytes than the input; the disk may be failing");
      } else {
        const Item& item = *task.item;
        const Scheme& scheme = item.format->scheme;
        const Extent extent = extent_of(task);
        const auto x = grown(buffers.x, task.values()), y = grown(buffers.y, task.values());
        item.weight.read(task.first, task.rows, x);
        std::span<const std::byte> scales;
        float global = 1;
        if (scheme.quantized()) scales = file.at(item.names().scale).bytes(extent.scales_begin, extent.scales);
        if (scheme.global) global = file.at(item.names().global).element<float>(0);
        decode(scheme, file.at(item.names().codes).bytes(extent.codes_begin, extent.codes), scales, task.rows,
               item.weight.k, global, y);
        loss.add(x, y);
      }
      const std::lock_guard lock(mutex);
      if (task.item != nullptr) losses[place.at(task.item)].loss.add(loss);
      done += bytes_of(task);
      if (progress) progress(done, state.input_bytes, file.path().filename());
    });
  }
  return losses;
}

}  // namespace ironcl::quantize
