// SPDX-License-Identifier: Apache-2.0
// Buffers, transfers, weights, plans and questions. Next door: abi_run.h.
#include "tests/fuzz/abi_run.h"

namespace ironcl::fuzz {
namespace {

/// Never freed: a command may use a buffer's memory after the run that made it.
unsigned char* lent_memory() {
  static auto* const lent = new std::array<unsigned char, 65536 + 8192>{};
  return lent->data();
}

/// Of memory that is lent to the device.
std::uint64_t alignment() {
  static const std::uint64_t found = [] {
    ironcl_device_props props{};
    props.struct_size = sizeof(props);
    must(table()->device_props(device(), &props, nullptr) == IRONCL_OK, "a device has properties");
    return std::uint64_t{props.buffer_alignment};
  }();
  return found;
}

}  // namespace

Claimed<ironcl_gemm_desc> Run::describe() {
  Claimed<ironcl_gemm_desc> out(in_);
  ironcl_gemm_desc& d = out.value();
  const bool usual = in_.below(3) != 0;  // A problem that runs, with one thing or another changed.
  d.m = usual ? kSizes[in_.below(3)] : size();
  d.n = usual ? kSizes[in_.below(8)] : size();
  d.k = usual ? 256 : size();
  d.a_source_dtype = usual               ? static_cast<std::uint32_t>(in_.below(2)) * IRONCL_BF16
                     : in_.below(4) == 0 ? std::uint32_t{in_.byte()}
                                         : std::uint32_t{IRONCL_F32};
  d.a_dtype = usual ? static_cast<ironcl_dtype>(IRONCL_F8_E4M3FN) : type();
  d.b_dtype = usual ? static_cast<ironcl_dtype>(IRONCL_F8_E4M3FN) : type();
  d.d_dtype = usual ? 1 + 2 * static_cast<std::uint32_t>(in_.below(2)) : type();
  d.a_scale = scales(usual);
  d.b_scale = usual ? ironcl_scale_desc{IRONCL_F32, 128, 128, 0, 0, 0, 0} : scales(false);
  if (in_.below(8) == 0) d.d_scale = scales(false);
  if (in_.below(8) == 0) d.bias_dtype = type();
  if (in_.below(8) == 0) d.lda = size();
  if (in_.below(8) == 0) d.ldd = size();
  if (in_.below(16) == 0) d.flags = in_.byte();
  if (in_.below(16) == 0) d.grouping = in_.byte();
  if (in_.below(16) == 0) d.matrices = in_.byte();
  if (in_.below(16) == 0) d.weakest_accuracy = in_.byte();
  if (in_.below(16) == 0) d.a_quantizer.scale_rounding = in_.byte();
  if (in_.below(8) == 0) d.next = chain(in_.below(4) == 0);
  if (d.grouping != 0 && in_.below(2) == 0) d.a_rows = size();
  return out;
}

/// A chain of one to three parts; options that exist, or that do not.
const ironcl_chain* Run::chain(bool odd) {
  static constexpr ironcl_key_value kItems[] = {
      {"variant", "gemm_stream"},      {"split_k", "16"},         {"split_k", "2"},
      {"variant", "gemm_tiled"},       {"variant", ""},           {"buffers", "2"},
      {"tile_m", "99999999999999"},    {"expected_rows", "5"},    {"variant", "gemm_skinny"},
      {"expected_rows", "2147483647"}, {"variant", "gemm_panel"}, {"expected_rows", ""},
      {"variant", "gemm_bf16"},        {"expected_rows", "0"}};
  auto* part = reinterpret_cast<ironcl_options*>(memory(sizeof(ironcl_options)));
  *part = {};
  part->chain = {sizeof(ironcl_options), IRONCL_CHAIN_OPTIONS, nullptr};
  part->count = static_cast<std::uint32_t>(1 + in_.below(2));
  const std::size_t first = in_.below(std::size(kItems) - 1);
  part->items = kItems + first;
  if (odd) {
    part->chain.type = static_cast<std::uint32_t>(in_.number());
    part->chain.struct_size = in_.byte();
    if (in_.below(2) == 0) part->chain.next = &part->chain;
  }
  return &part->chain;
}

void Run::create_buffer() {
  if (buffers_.size() >= kMost) return;
  Claimed<ironcl_buffer_desc> desc(in_);
  const std::uint64_t wanted[] = {1, 64, 4096, 65536, 262144, 0, UINT64_MAX, std::uint64_t{1} << 62};
  desc.value().size = in_.of(wanted);
  if (in_.below(16) == 0) desc.value().flags = in_.byte();
  ironcl_native_memory native{};
  if (in_.below(6) == 0) {
    // Memory of ours, at an odd address now and then; it outlives everything.
    const std::uint64_t bytes = std::min<std::uint64_t>(desc.value().size, 65536);
    desc.value().size = bytes;
    native.chain = {sizeof(native), IRONCL_CHAIN_NATIVE_MEMORY | IRONCL_CHAIN_REQUIRED, nullptr};
    native.kind = IRONCL_MEMORY_HOST_POINTER;
    unsigned char* const lent = lent_memory();
    const auto aligned = (reinterpret_cast<std::uintptr_t>(lent) + 4095) / 4096 * 4096;
    const std::uintptr_t steps[] = {0, 1, 4, 16, 32, 64};
    native.handle = reinterpret_cast<void*>(aligned + in_.of(steps));
    desc.value().next = &native.chain;
  }
  const std::size_t before = buffers_.size();
  make("buffer_create", buffers_, [&](auto* out, auto* e) { return t_.buffer_create(device(), desc.get(), out, e); });
  if (buffers_.size() == before) return;
  sizes_.push_back(desc.value().size);
  must(reinterpret_cast<std::uintptr_t>(native.handle) % alignment() == 0, "memory off the alignment is refused");
}

void Run::destroy_buffer() {
  if (buffers_.empty()) return t_.buffer_destroy(nullptr);
  const std::size_t at = in_.below(buffers_.size());
  t_.buffer_destroy(buffers_[at]);
  buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(at));
  sizes_.erase(sizes_.begin() + static_cast<std::ptrdiff_t>(at));
}

void Run::transfer() {
  ironcl_span at = span();
  const std::uint64_t room = 262144;
  if (at.size > room) return;
  unsigned char* const host = memory(static_cast<std::size_t>(std::max<std::uint64_t>(at.size, 1)));
  ironcl_event event = nullptr;
  const ironcl_queue queue = pick(queues_);
  if (in_.below(2) == 0) {
    call("write",
         [&](auto* e) { return t_.write(queue, at, host, static_cast<std::uint32_t>(in_.below(3)), &event, e); });
  } else {
    call("read", [&](auto* e) { return t_.read(queue, at, host, &event, e); });
  }
  if (event != nullptr) transfers_.push_back(event);
}

void Run::prepare() {
  if (weights_.size() >= kMost) return;
  Claimed<ironcl_weights_desc> desc(in_);
  ironcl_weights_desc& w = desc.value();
  const bool usual = in_.below(3) != 0;
  w.dtype = usual ? static_cast<ironcl_dtype>(IRONCL_F8_E4M3FN) : type();
  w.n = usual ? kSizes[in_.below(8)] : size();
  w.k = usual ? 256 : size();
  w.scale = usual ? ironcl_scale_desc{IRONCL_F32, 128, 128, 0, 0, 0, 0} : scales(false);
  if (in_.below(8) == 0) w.ld = size();
  if (in_.below(16) == 0) w.matrices = in_.byte();
  const std::size_t room[] = {65536, 65536, 65536, 200 * 256, 1, 16};
  w.data_bytes = in_.of(room);
  w.scale_bytes = in_.of(room);
  w.data = memory(w.data_bytes);
  w.scales = memory(w.scale_bytes);
  if (in_.below(4) == 0) w.plan = pick(plans_);
  make("weights_prepare", weights_,
       [&](auto* out, auto* e) { return t_.weights_prepare(device(), desc.get(), out, e); });
}

void Run::export_back() {
  const ironcl_weights weights = pick(weights_);
  Claimed<ironcl_weights_info> info(in_);
  const bool known =
      call("weights_info", [&](auto* e) { return t_.weights_info(weights, info.get(), e); }) == IRONCL_OK &&
      info.value().struct_size >= sizeof(ironcl_weights_info);
  const std::uint64_t data = known && in_.below(4) != 0 ? info.value().data_bytes : in_.byte();
  const std::uint64_t scale = known && in_.below(4) != 0 ? info.value().scale_bytes : in_.byte();
  std::vector<unsigned char> values(data + 1), scales(scale + 1);
  call("weights_export",
       [&](auto* e) { return t_.weights_export(weights, values.data(), data, scales.data(), scale, e); });
}

void Run::enqueue() {
  Claimed<ironcl_gemm_args> args(in_);
  ironcl_gemm_args& a = args.value();
  a.m = in_.below(8) == 0 ? size() : kSizes[in_.below(3)];
  if (in_.below(8) == 0) a.m = 0;
  a.weights = pick(weights_);
  a.a = span();
  a.d = span();
  for (ironcl_span* other :
       {&a.a_scale, &a.workspace, &a.bias, &a.a_quantized, &a.a_quantized_scale, &a.d_scale, &a.matrix_rows})
    if (in_.below(4) == 0) *other = span();
  if (a.matrix_rows.buffer != nullptr && in_.below(2) == 0) a.a_rows = size(), a.a_index = span();
  enqueue_one(plans_, args);
}

/// Calls, each of which waits for the one before: now and then more of them than a stack has room for. They are made
/// faster than calls with rows end.
void Run::enqueue_chain() {
  constexpr int kDeep = 30'000;
  const ironcl_op plan = pick(plans_);
  const ironcl_queue queue = pick(queues_);
  ironcl_gemm_args args{};
  args.struct_size = sizeof(args), args.kind = IRONCL_OP_GEMM;
  args.m = in_.below(2) == 0 ? 0 : kSizes[in_.below(3)];
  args.weights = pick(weights_);
  args.a = span();
  args.d = span();
  ironcl_event last = nullptr;
  for (int left = in_.below(64) == 63 ? kDeep : 20; left > 0; --left) {
    args.wait = &last;
    args.wait_count = last == nullptr ? 0 : 1;
    Claimed<ironcl_error> error;
    error.value().struct_size = sizeof(ironcl_error);
    ironcl_event next = nullptr;
    if (answer("op_enqueue", t_.op_enqueue(plan, queue, &args, &next, error.get()), error) != IRONCL_OK) break;
    t_.event_destroy(last);
    last = next;
  }
  if (last == nullptr) return;
  if (in_.below(2) == 0) call("event_wait", [&](auto* e) { return t_.event_wait(last, UINT64_MAX, e); });
  t_.event_destroy(last);
}

void Run::query() {
  const char* const keys[] = {"features", "options", "variants", "choice", "candidates", "model", "", "\xff"};
  Claimed<ironcl_gemm_desc> desc = describe();
  std::array<char, 256> text;
  text.fill('\x7f');
  const std::uint64_t capacity = in_.below(text.size());
  std::uint64_t needed = 0;
  const bool with = in_.below(2) == 0;
  const ironcl_status status = call("device_query", [&](auto* e) {
    return t_.device_query(device(), in_.of(keys), with && is_small(desc.value()) ? desc.get() : nullptr,
                           capacity == 0 ? nullptr : text.data(), capacity, &needed, e);
  });
  if (status == IRONCL_OK) must(needed >= 1, "a text has room for its end");
  must(text[static_cast<std::size_t>(capacity)] == '\x7f', "a query writes no more than its room");
}

}  // namespace ironcl::fuzz
