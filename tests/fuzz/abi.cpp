// SPDX-License-Identifier: Apache-2.0
// A real plugin called through its C table in any order: odd sizes, short structs, chains, spans, wait lists, objects
// destroyed while in use, from one thread or two. Every pointer is good and every size true, as plugin.h asks of a
// caller; all else is up to the input. Any status but INTERNAL is an answer; out parameters stay on failure.
#include <string_view>
#include <thread>

#include "tests/fuzz/abi_run.h"

namespace ironcl::fuzz {

const ironcl_plugin* table() {
  static const ironcl_plugin* const loaded = [] {
    const ironcl_plugin* const made = &open_plugin(IRONCL_FUZZ_PLUGIN);
    static const ironcl_key_value options[] = {{"cache_dir", IRONCL_FUZZ_CACHE}};
    const bool cached = std::string_view(made->name) == "opencl";
    must(made->load(nullptr, cached ? options : nullptr, cached ? 1 : 0, nullptr) == IRONCL_OK, "a plugin loads");
    return made;
  }();
  return loaded;
}

ironcl_device device() {
  static const ironcl_device found = [] {
    ironcl_device first = nullptr;
    std::uint32_t count = 0;
    table()->enumerate(&first, 1, &count, nullptr);
    return count == 0 ? nullptr : first;
  }();
  return found;
}

void Run::all() {
  for (int steps = 0; !in_.empty() && steps < 200; ++steps) step();
  // Transfers still write to memory of ours.
  for (const ironcl_event event : transfers_) {
    t_.event_wait(event, UINT64_MAX, nullptr);
    t_.event_destroy(event);
  }
  for (const auto event : events_) t_.event_destroy(event);
  for (const auto weights : weights_) t_.weights_destroy(weights);
  for (const auto* pool : {&plans_, &quantizers_, &routes_, &activates_, &combines_})
    for (const auto op : *pool) t_.op_destroy(op);
  for (const auto buffer : buffers_) t_.buffer_destroy(buffer);
  for (const auto queue : queues_) t_.queue_destroy(queue);
}

void Run::step() {
  const std::size_t word = in_.byte();
  if (word == 255) return enqueue_chain();
  if (word >= 232)
    return step_of_experts((word - 232) % 12);  // The others mean what they did before these were there.
  switch (word % 22) {
    case 0:
      if (queues_.size() < kMost)
        make("queue_create", queues_,
             [&](auto* out, auto* e) { return t_.queue_create(device(), in_.below(16) == 0, out, e); });
      break;
    case 1:
      call("queue_finish", [&](auto* e) { return t_.queue_finish(pick(queues_), e); });
      break;
    case 2:
      t_.queue_destroy(take(queues_));
      break;
    case 3:
      create_buffer();
      break;
    case 4:
      destroy_buffer();
      break;
    case 5:
    case 6:
      transfer();
      break;
    case 7:
      prepare();
      break;
    case 8:
      export_back();
      break;
    case 9:
      t_.weights_destroy(take(weights_));
      break;
    case 10:
    case 11: {
      Claimed<ironcl_gemm_desc> desc = describe();
      if (plans_.size() < kMost && is_small(desc.value())) make_op(plans_, desc);
      break;
    }
    case 12:
    case 13:
    case 14:
      enqueue();
      break;
    case 15:
      t_.op_destroy(take(plans_));
      break;
    case 16: {
      const std::uint64_t timeouts[] = {0, 1000, 1'000'000, UINT64_MAX};
      call("event_wait", [&](auto* e) { return t_.event_wait(pick(events_), in_.of(timeouts), e); });
      break;
    }
    case 17: {
      Claimed<ironcl_event_profile> profile(in_);
      call("event_profile", [&](auto* e) { return t_.event_profile(pick(events_), profile.get(), e); });
      break;
    }
    case 18:
      t_.event_destroy(take(events_));
      break;
    case 19: {
      Claimed<ironcl_gemm_desc> desc = describe();
      Claimed<ironcl_support> support(in_);
      call("supports", [&](auto* e) { return t_.supports(device(), desc.get(), support.get(), e); });
      break;
    }
    case 20:
      query();
      break;
    default:
      call("queue_wait", [&](auto* e) { return t_.queue_wait(pick(queues_), pick(events_), e); });
  }
}

}  // namespace ironcl::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ironcl::fuzz;
  if (size < 2 || size > 4096 || device() == nullptr) return 0;
  if (data[0] % 8 != 0) {
    Run(Bytes(data + 1, size - 1)).all();
    return 0;
  }
  const std::size_t half = size / 2;  // Two threads with objects of their own on one device.
  std::thread other([=] { Run(Bytes(data + half, size - half)).all(); });
  Run(Bytes(data + 1, half - 1)).all();
  other.join();
  return 0;
}
