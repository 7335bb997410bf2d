// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backends/numerics/casts.h"

namespace ironcl::opencl {

using backend::Error;

namespace {

/// Memory of the system's own, given back with this.
struct Mapping {
  Mapping(void* at, std::uint64_t bytes) : first(at), size(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(first, size); }
  void* first;
  std::uint64_t size;
};

constexpr std::uint64_t kLargePage = std::uint64_t{2} << 20;

/// A buffer in large pages of the system, where host and device share memory and it has some: weights, which are read
/// once from end to end, are read faster so (docs/performance/cpu-experts.md). Without them, one of the driver's.
cl::Buffer in_large_pages(const Context& context, std::uint64_t bytes) {
  const Features& f = context.features;
  if (f.unified_memory && f.prefers_vectors() && bytes >= kLargePage) {
    // Mapped with room to begin at a large page; what lies before and behind goes back.
    const std::uint64_t page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)),
                        size = (bytes + page - 1) / page * page;
    void* const all = mmap(nullptr, size + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all != MAP_FAILED) {
      const std::uint64_t before = (kLargePage - reinterpret_cast<std::uintptr_t>(all) % kLargePage) % kLargePage;
      std::byte* const first = static_cast<std::byte*>(all) + before;
      if (before != 0) munmap(all, before);
      if (before != kLargePage) munmap(first + size, kLargePage - before);
      madvise(first, size, MADV_HUGEPAGE);
      auto mapping = std::make_unique<Mapping>(first, size);
      cl::Buffer buffer(context.context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, bytes, first);
      // The driver lets go of it after the last command that uses it.
      buffer.setDestructorCallback([](cl_mem, void* held) { delete static_cast<Mapping*>(held); }, mapping.get());
      (void)mapping.release();
      return buffer;
    }
  }
  return cl::Buffer(context.context, CL_MEM_READ_ONLY, bytes);
}

/// For each byte of a type of codes, whether a code in it is NaN.
std::array<bool, 256> nan_codes(backend::DType type) {
  std::array<bool, 256> nan{};
  for (std::size_t code = 0; code < nan.size(); ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    for (std::uint32_t part = 0; part * numerics::bits_of(type) < 8; ++part)
      nan[code] = nan[code] || std::isnan(numerics::load_as_f64(type, &byte, part));
  }
  return nan;
}

/// Bytes of a buffer as the host sees them while this lives: where host and device share memory, the device's own;
/// elsewhere an image of them, in `spare`, so that drivers keep none for as long as the buffer lives.
class HostView {
 public:
  HostView(const Context& context, const cl::CommandQueue& queue, const cl::Buffer& buffer, cl_map_flags how,
           std::uint64_t at, std::uint64_t size, std::vector<std::uint8_t>& spare)
      : queue_(queue), buffer_(buffer), writes_(how != CL_MAP_READ), at_(at), size_(size) {
    if (context.features.unified_memory) {
      mapped_ = queue.enqueueMapBuffer(buffer, CL_TRUE, how, at, size);
      bytes_ = static_cast<std::uint8_t*>(mapped_);
    } else {
      spare.resize(size);
      bytes_ = spare.data();
      if (!writes_) queue.enqueueReadBuffer(buffer, CL_TRUE, at, size, bytes_);
    }
  }
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;
  ~HostView() {
    quietly([&] { unmap(); });  // Somebody is about to be told of an earlier failure.
  }

  std::uint8_t* bytes() const { return bytes_; }
  /// The last word: what was written reaches the device in the order of the queue.
  void close() {
    if (mapped_ == nullptr && writes_) queue_.enqueueWriteBuffer(buffer_, CL_TRUE, at_, size_, bytes_);
    unmap();
  }

 private:
  void unmap() {
    if (void* const mapped = std::exchange(mapped_, nullptr); mapped != nullptr) {
      queue_.enqueueUnmapMemObject(buffer_, mapped);
      queue_.finish();
    }
  }

  const cl::CommandQueue& queue_;
  const cl::Buffer& buffer_;
  bool writes_;
  std::uint64_t at_, size_;
  void* mapped_ = nullptr;
  std::uint8_t* bytes_ = nullptr;
};

}  // namespace

Weights::Weights(ContextPtr context, const backend::WeightsDesc& desc, WeightFormPtr form)
    : context_(std::move(context)),
      dtype_(desc.dtype),
      n_(desc.n),
      k_(desc.k),
      matrices_(desc.matrices),
      scale_(desc.scale),
      form_(std::move(form)),
      extent_(form_->extent(n_, k_, scale_.dtype == backend::DType::none ? 1 : scale_.grid.scale_cols(k_))),
      scale_bytes_(held_scales(*form_, extent_, scale_.dtype).bytes.bytes()) {
  if (desc.scale.dtype != backend::DType::none) {
    const std::int64_t rows = matrices_ * scale_.grid.scale_rows(n_), cols = scale_.grid.scale_cols(k_);
    const auto width = static_cast<std::size_t>(cols) * numerics::size_of(scale_.dtype);
    original_scales_.resize(static_cast<std::size_t>(rows) * width);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(original_scales_.data() + static_cast<std::size_t>(row) * width,
                  desc.scales + row * scale_.ld * numerics::size_of(scale_.dtype), width);
    }
    scale_.ld = cols;
    if (scale_.global) global_scales_.assign(desc.global_scales, desc.global_scales + matrices_);
  }
  fill(reinterpret_cast<const std::uint8_t*>(desc.data), desc.ld);
}

std::vector<std::uint8_t> Weights::column_scales(std::int64_t matrix, const std::uint8_t* codes,
                                                 std::int64_t ld) const {
  const bool scaled = scale_.dtype != backend::DType::none;
  const numerics::ScaleGrid grid = scaled ? scale_.grid.resolved(n_, k_) : numerics::ScaleGrid{n_, k_};
  const std::int64_t groups = numerics::ceil_div(k_, grid.group_cols);
  const bool marks = form_->marks_nan_codes() && numerics::is_quantized(dtype_);
  const std::array<bool, 256> is_nan = marks ? nan_codes(dtype_) : std::array<bool, 256>{};
  // Multiplied in here, or by kernels that read the scales as they were given: the scale of a column and group is
  // then rounded once more, for which the bound has room.
  const float global = global_scales_.empty() ? 1.0f : global_scales_[static_cast<std::size_t>(matrix)];
  const std::int64_t first_scale = matrix * (scaled ? scale_.grid.scale_rows(n_) : 0);
  const HeldScales layout = held_scales(*form_, extent_, scale_.dtype);
  std::vector<std::uint8_t> scales(layout.bytes.bytes());
  if (layout.type != backend::DType::f32) std::memcpy(scales.data(), &global, sizeof global);
  for (std::int64_t row = 0; row < n_; ++row) {
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t given = (first_scale + row / grid.group_rows) * scale_.ld + group;
      const std::int64_t at = form_->scale_at(extent_, row, group);
      if (layout.type != backend::DType::f32) {
        scales[(layout.first + at).bytes()] =
            static_cast<std::uint8_t>(original_scales_[static_cast<std::size_t>(given)]);
        continue;
      }
      float scale = 1.0f;
      if (scaled)
        scale = static_cast<float>(numerics::load_as_f64(scale_.dtype, original_scales_.data(), given)) * global;
      // A NaN code makes its whole column of D NaN: said once here, so that kernels need not look for it.
      const std::int64_t begin = group * grid.group_cols, end = std::min(begin + grid.group_cols, k_);
      const std::uint8_t* const first = codes + numerics::bytes_of(dtype_, row * ld + begin);
      const std::int64_t count = numerics::bytes_of(dtype_, end - begin);
      bool nan = false;
      for (std::int64_t c = 0; marks && c < count; ++c) nan |= is_nan[first[c]];
      if (nan) scale = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(scales.data() + at * static_cast<std::int64_t>(sizeof scale), &scale, sizeof scale);
    }
  }
  return scales;
}

void Weights::fill(const std::uint8_t* codes, std::int64_t ld) {
  const std::uint64_t bytes = extent_.code_bytes.bytes(), all = (extent_.code_bytes * matrices_).bytes();
  expect_room(context_->features, "weights", all);
  expect_room(context_->features, "weights",
              (numerics::Size(static_cast<std::int64_t>(scale_bytes_)) * matrices_).bytes());
  guarded("weights of " + std::to_string(all) + " bytes", [&] {
    const cl::CommandQueue queue(context_->context, context_->device);
    memory_ = {in_large_pages(*context_, all),
               in_large_pages(*context_, scale_bytes_ * static_cast<std::uint64_t>(matrices_))};
    std::vector<std::uint8_t> spare;
    for (std::int64_t matrix = 0; matrix < matrices_; ++matrix) {
      const std::uint8_t* const from = codes + numerics::bytes_of(dtype_, matrix * n_ * ld);
      const auto at = static_cast<std::uint64_t>(matrix);
      // Packed where they will lie: where memory is shared there is no second image of them, not even for a while.
      HostView packed(*context_, queue, memory_.codes, CL_MAP_WRITE_INVALIDATE_REGION, at * bytes, bytes, spare);
      form_->pack(n_, k_, from, ld, packed.bytes());
      packed.close();
      const std::vector<std::uint8_t> scales = column_scales(matrix, from, ld);
      queue.enqueueWriteBuffer(memory_.scales, CL_TRUE, at * scale_bytes_, scale_bytes_, scales.data());
    }
    // A write that blocks has taken its bytes from the host when it returns; only its queue knows when they are where
    // kernels of other queues find them.
    queue.finish();
  });
}

const DeviceWeights& Weights::in(const WeightForm& form) const {
  if (form_.get() != &form && form_->name() != form.name()) {
    throw Error(backend::Status::invalid_argument,
                "the weights are prepared as {}, this plan reads {}; prepare them with this plan (the plan of "
                "weights_desc)",
                this->form(), form.name());
  }
  return memory_;
}

std::uint64_t Weights::device_bytes() const noexcept {
  return (extent_.code_bytes.bytes() + scale_bytes_) * static_cast<std::uint64_t>(matrices_);
}

void Weights::export_to(std::byte* data, std::byte* scales) {
  const std::uint64_t packed_bytes = extent_.code_bytes.bytes(),
                      bytes = data_bytes() / static_cast<std::uint64_t>(matrices_);
  guarded("reading weights", [&] {
    const cl::CommandQueue queue(context_->context, context_->device);
    std::vector<std::uint8_t> spare;
    for (std::uint64_t matrix = 0; matrix < static_cast<std::uint64_t>(matrices_); ++matrix) {
      HostView packed(*context_, queue, memory_.codes, CL_MAP_READ, matrix * packed_bytes, packed_bytes, spare);
      form_->unpack(n_, k_, packed.bytes(), reinterpret_cast<std::uint8_t*>(data) + matrix * bytes);
      packed.close();
    }
  });
  if (!original_scales_.empty()) std::memcpy(scales, original_scales_.data(), original_scales_.size());
}

}  // namespace ironcl::opencl
