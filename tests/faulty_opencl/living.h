// SPDX-License-Identifier: Apache-2.0
// What every life of a plugin has: load, a device, queues, buffers, the first failure and what came after it, the
// end. Next door: product_life.cpp (a plan and weights), steps_life.cpp (the steps of a layer of experts),
// scenario.h.
#pragma once

#include <array>
#include <vector>

#include "tests/faulty_opencl/scenario.h"

namespace ironcl::faulty {

inline constexpr std::uint64_t kForEver = UINT64_MAX;

struct Error : ironcl_error {
  Error() : ironcl_error{} { struct_size = sizeof(ironcl_error); }
};

/// A step that did not succeed.
struct Failed {
  std::string step;
  ironcl_status status;
  Error error;
};
/// The device said that it has not what the life needs.
struct Refused {
  std::string why;
};
/// A call that said OK and left something wrong.
struct Wrong {
  std::string what;
};

/// One life: what exists and the steps that make it. A kind of life adds its own objects.
class Living {
 public:
  explicit Living(const Surroundings& around) : p_(around.plugin), around_(around) {}
  Living(const Living&) = delete;
  Living& operator=(const Living&) = delete;
  virtual ~Living() = default;

  Life live() {
    try {
      load();
      if (device_ != nullptr) steps();
    } catch (const Failed& second) {
      life_.after = status_name(second.status) + " at " + second.step;
    } catch (const Refused& refused) {
      life_.refused = true;
      life_.message += refused.why;
    } catch (const Wrong& wrong) {
      life_.wrong = true;
      life_.message += "; " + wrong.what;
    }
    end();
    return life_;
  }

 protected:
  /// Everything on the device, in attempts.
  virtual void steps() = 0;
  /// The end of what a kind of life has beside queues, buffers and events.
  virtual void destroy() = 0;

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
      around_.mended();
      block();
      life_.after = "right";
    }
  }

  template <class Call>
  void need(const char* name, Call&& call) {
    around_.step(name);
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
    around_.step(name);
    Error error;
    const ironcl_status status = call(&made, &error);
    if (status != IRONCL_OK) {
      if (made != untouched) throw Wrong{std::string(name) + " failed and wrote its out parameter"};
      throw Failed{name, status, error};
    }
    handle = made;
  }

  template <class Desc>
  void make_op(ironcl_op& op, const Desc& desc) {
    make("op_create", op, [&](auto* out, Error* e) { return p_.op_create(device_, &desc, out, e); });
  }

  /// A call; its event, which the life keeps.
  template <class Args>
  ironcl_event enqueue(ironcl_op op, ironcl_queue queue, const Args& args) {
    ironcl_event event = nullptr;
    make("op_enqueue", event, [&](auto* out, Error* e) { return p_.op_enqueue(op, queue, &args, out, e); });
    events_.push_back(event);
    return event;
  }

  /// Two queues.
  void queues() {
    make("queue_create", queue_, [&](auto* out, Error* e) { return p_.queue_create(device_, 0, out, e); });
    make("queue_create", second_, [&](auto* out, Error* e) { return p_.queue_create(device_, 0, out, e); });
  }

  /// What was told to wait for a failed command fails with it, so a second attempt takes a new queue.
  void fresh_second_queue() {
    if (life_.failed.empty() || second_ == nullptr) return;
    p_.queue_destroy(second_);
    second_ = nullptr;
    make("queue_create", second_, [&](auto* out, Error* e) { return p_.queue_create(device_, 0, out, e); });
  }

  void buffer(ironcl_buffer& handle, std::uint64_t size) {
    const ironcl_buffer_desc desc{sizeof(ironcl_buffer_desc), 0, nullptr, size};
    const bool made = handle != nullptr;
    make("buffer_create", handle, [&](auto* out, Error* e) { return p_.buffer_create(device_, &desc, out, e); });
    if (!made) buffers_.push_back(handle);
  }

  void put(ironcl_queue queue, ironcl_buffer to, const void* bytes, std::uint64_t size) {
    need("write", [&](Error* e) {
      return p_.write(queue, {to, 0, size}, bytes, IRONCL_HOST_COPIED_BEFORE_RETURN, nullptr, e);
    });
  }

  /// Bytes that no computation makes, so that what is not written shows.
  void poison(ironcl_queue queue, ironcl_buffer to, std::uint64_t size) {
    const std::vector<std::uint8_t> bytes(size, 0xff);
    put(queue, to, bytes.data(), size);
  }

  /// Reads into `to`, and returns when it is there.
  void fetch(ironcl_queue queue, ironcl_buffer from, void* to, std::uint64_t size) {
    ironcl_event read = nullptr;
    make("read", read, [&](auto* out, Error* e) { return p_.read(queue, {from, 0, size}, to, out, e); });
    events_.push_back(read);
    try {
      wait(read, kForEver);
    } catch (const Failed&) {
      Error ignored;  // The bytes may still be on their way.
      p_.queue_finish(queue, &ignored);
      throw;
    }
  }

  void wait(ironcl_event event, std::uint64_t timeout) {
    need("event_wait", [&](Error* e) { return p_.event_wait(event, timeout, e); });
  }

  const ironcl_plugin& p_;
  Life life_;
  ironcl_device device_ = nullptr;
  ironcl_queue queue_ = nullptr, second_ = nullptr;
  std::vector<ironcl_event> events_;

 private:
  void load() {
    attempt([&] {
      const std::array<ironcl_key_value, 2> options{{{"cache_dir", around_.cache_dir.c_str()}, {"tuned_dir", "off"}}};
      ironcl_host host{sizeof(ironcl_host), IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR, 0, this, &Living::log};
      need("load", [&](Error* e) { return p_.load(&host, options.data(), options.size(), e); });
      loaded_ = true;
    });
    attempt([&] {
      std::uint32_t count = 0;
      need("enumerate", [&](Error* e) { return p_.enumerate(&device_, 1, &count, e); });
      if (count == 0) device_ = nullptr;
    });
    if (device_ != nullptr) return;
    life_.no_device = true;
    if (life_.failed.empty()) life_.message = warning_;
  }

  static void log(void* context, std::uint32_t level, const char* text) {
    auto* self = static_cast<Living*>(context);
    if (level <= IRONCL_LOG_WARN) self->warning_ = text;
  }

  void end() {
    around_.step("destroy");
    for (const ironcl_event event : events_) p_.event_destroy(event);
    destroy();
    for (const ironcl_buffer buffer : buffers_) p_.buffer_destroy(buffer);
    p_.queue_destroy(second_);
    p_.queue_destroy(queue_);
    around_.step("unload");
    if (loaded_) p_.unload();
    around_.step("");
  }

  const Surroundings& around_;
  std::string warning_;
  bool loaded_ = false;
  std::vector<ironcl_buffer> buffers_;
};

/// A life that makes a plan, prepares weights and multiplies.
Life live_product(const Surroundings& around, const Problem& problem);

/// A life that quantises, and takes tokens through the steps of a layer of experts but its products.
Life live_steps(const Surroundings& around);

}  // namespace ironcl::faulty
