// SPDX-License-Identifier: Apache-2.0
// What is thrown stays inside: every kind of exception at every slot, and out parameters untouched.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <new>
#include <stdexcept>

#include "tests/plugins/adapter_fixture.h"

namespace ironcl::fake {
namespace {

class AdapterGuard : public AdapterTest {
 protected:
  /// Every slot that reaches the backend, as a call with fresh out parameters; each checks that those stay untouched.
  std::map<std::string, std::function<ironcl_status()>> calls() {
    std::map<std::string, std::function<ironcl_status()>> all;
    all["device_props"] = [this] {
      auto out = sized<ironcl_device_props>();
      return untouched(out, [&] { return table->device_props(devices[0], &out, &error); });
    };
    all["supports"] = [this] {
      auto out = sized<ironcl_support>();
      const auto desc = gemm_desc();
      return untouched(out, [&] { return table->supports(devices[0], &desc, &out, &error); });
    };
    all["device_query"] = [this] {
      struct {
        char text[8] = "before";
        uint64_t size = 7;
      } out;
      return untouched(
          out, [&] { return table->device_query(devices[0], "features", nullptr, out.text, 8, &out.size, &error); });
    };
    all["queue_create"] = [this] {
      ironcl_queue out = nullptr;
      return untouched(out, [&] { return table->queue_create(devices[0], 0, &out, &error); });
    };
    all["queue_finish"] = [this] { return table->queue_finish(queue, &error); };
    all["queue_wait"] = [this] { return table->queue_wait(queue, events[0], &error); };
    all["buffer_create"] = [this] {
      ironcl_buffer out = nullptr;
      const auto desc = buffer_desc();
      return untouched(out, [&] { return table->buffer_create(devices[0], &desc, &out, &error); });
    };
    all["write"] = [this] {
      ironcl_event out = nullptr;
      return untouched(out, [&] { return table->write(queue, {buffer, 0, 4}, "abc", 0, &out, &error); });
    };
    all["read"] = [this] {
      ironcl_event out = nullptr;
      static char bytes[4];
      return untouched(out, [&] { return table->read(queue, {buffer, 0, 4}, bytes, &out, &error); });
    };
    all["weights_prepare"] = [this] {
      ironcl_weights out = nullptr;
      const auto desc = weights_desc();
      return untouched(out, [&] { return table->weights_prepare(devices[0], &desc, &out, &error); });
    };
    all["weights_export"] = [this] {
      std::array<char, 20> out{};
      return untouched(out, [&] { return table->weights_export(weights, &out[0], 16, &out[16], 4, &error); });
    };
    all["weights_info"] = [this] {
      auto out = sized<ironcl_weights_info>();
      return untouched(out, [&] { return table->weights_info(weights, &out, &error); });
    };
    all["gemm_info"] = [this] {
      auto out = sized<ironcl_op_info>();
      return untouched(out, [&] { return table->op_info(gemm, &out, &error); });
    };
    operation(all, "gemm", gemm, gemm_desc(), gemm_args());
    operation(all, "quantize", quantize, quantize_desc(), quantize_args());
    operation(all, "route", route, route_desc(), route_args());
    operation(all, "activate", activate, activate_desc(), activate_args());
    operation(all, "combine", combine, combine_desc(), combine_args());
    all["device_import"] = [this] {
      ironcl_device out = nullptr;
      auto native = sized<ironcl_native_device>();
      native.kind = IRONCL_NATIVE_OPENCL;
      native.device = native.context = &native;
      return untouched(out, [&] { return table->device_import(&native, &out, &error); });
    };
    all["event_wait"] = [this] { return table->event_wait(events[0], 0, &error); };
    all["event_profile"] = [this] {
      auto out = sized<ironcl_event_profile>();
      return untouched(out, [&] { return table->event_profile(events[0], &out, &error); });
    };
    return all;
  }

  /// The two slots of an operation of one kind.
  template <class Desc, class Args>
  void operation(std::map<std::string, std::function<ironcl_status()>>& all, const std::string& kind, ironcl_op op,
                 const Desc& desc, const Args& args) {
    all[kind + "_create"] = [this, desc] {
      ironcl_op out = nullptr;
      return untouched(out, [&] { return table->op_create(devices[0], &desc, &out, &error); });
    };
    all[kind + "_enqueue"] = [this, op, args] {
      ironcl_event out = nullptr;
      return untouched(out, [&] { return table->op_enqueue(op, queue, &args, &out, &error); });
    };
  }

  template <class T, class Call>
  ironcl_status untouched(T& out, Call&& call) {
    std::array<unsigned char, sizeof(T)> before;
    std::memcpy(before.data(), &out, sizeof out);
    const ironcl_status status = call();
    EXPECT_EQ(std::memcmp(before.data(), &out, sizeof out), 0) << "an out parameter was written on failure";
    return status;
  }

  /// The slot of the table behind a method of the backend: operations of all kinds have the same.
  static std::string entry_of(const std::string& method) {
    const auto cut = method.find('_');
    for (const std::string_view kind : {"gemm", "quantize", "route", "activate", "combine"})
      if (method.substr(0, cut) == kind) return "op" + method.substr(cut);
    return method;
  }

  /// Calls every slot while its method throws `thrown`, and expects `status`.
  void expect_everywhere(const std::function<void()>& thrown, ironcl_status status, const std::string& text,
                         int32_t native_code) {
    make_all();
    make_steps();
    ASSERT_EQ(enqueue(gemm_args()), IRONCL_OK) << error.message;
    const auto all = calls();
    EXPECT_EQ(all.size(), 26u);
    for (const auto& [slot, call] : all) {
      SCOPED_TRACE(slot);
      script().before.clear();
      script().before[slot] = thrown;
      error = sized<ironcl_error>();
      EXPECT_EQ(call(), status);
      EXPECT_EQ(error.status, status);
      EXPECT_EQ(error.native_code, native_code);
      EXPECT_TRUE(says({text}));
      if (status == IRONCL_INTERNAL) {
        EXPECT_TRUE(says({entry_of(slot) + ":"}));
      }
    }
    script().before.clear();
  }
};

TEST_F(AdapterGuard, ABackendsErrorKeepsStatusTextAndNativeCode) {
  expect_everywhere([] { throw backend::Error(backend::Status::device_lost, -36, "gone: plug it in again"); },
                    IRONCL_DEVICE_LOST, "gone: plug it in again", -36);
}
TEST_F(AdapterGuard, BadAllocIsOutOfHostMemory) {
  expect_everywhere([] { throw std::bad_alloc(); }, IRONCL_OUT_OF_HOST_MEMORY, "memory", 0);
}
TEST_F(AdapterGuard, AnyStandardExceptionIsInternal) {
  expect_everywhere([] { throw std::out_of_range("index 7"); }, IRONCL_INTERNAL, "index 7", 0);
}
TEST_F(AdapterGuard, AnythingElseIsInternal) {
  expect_everywhere([] { throw 42; }, IRONCL_INTERNAL, "bug", 0);
}
TEST_F(AdapterGuard, AnErrorThatSaysOkIsInternal) {
  expect_everywhere([] { throw backend::Error(backend::Status::ok, "all is well"); }, IRONCL_INTERNAL, "all is well",
                    0);
}

TEST_F(AdapterGuard, ExceptionsOfLoadAndEnumerateStayInside) {
  script().before["load"] = [] { throw std::runtime_error("no"); };
  EXPECT_EQ(table->load(nullptr, nullptr, 0, &error), IRONCL_INTERNAL);
  EXPECT_TRUE(says({"load:", "no"}));
  script().before.clear();
  ASSERT_EQ(table->load(nullptr, nullptr, 0, &error), IRONCL_OK);
  script().before["enumerate"] = [] { throw 1; };
  uint32_t count = 3;
  EXPECT_EQ(table->enumerate(nullptr, 0, &count, &error), IRONCL_INTERNAL);
  EXPECT_EQ(count, 3u);
}

TEST_F(AdapterGuard, ErrorMayBeNullEverywhere) {
  make_all();
  EXPECT_EQ(table->queue_finish(nullptr, nullptr), IRONCL_INVALID_ARGUMENT);
  script().before["queue_finish"] = [] { throw 1; };
  EXPECT_EQ(table->queue_finish(queue, nullptr), IRONCL_INTERNAL);
}

TEST_F(AdapterGuard, AForkedChildIsToldInEverySlotAndMayDestroy) {
  make_all();
  make_steps();
  ASSERT_EQ(enqueue(gemm_args()), IRONCL_OK) << error.message;
  auto all = calls();
  all["enumerate"] = [this] {
    uint32_t count = 0;
    return table->enumerate(nullptr, 0, &count, &error);
  };
  all["load"] = [this] { return table->load(nullptr, nullptr, 0, &error); };
  script().calls.clear();
  const int live = script().live_objects;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // no assertions here: what is wrong is written to stderr, and counted
    int wrong = 0;
    const auto expect = [&](bool right, const std::string& what) {
      if (!right) std::fprintf(stderr, "in the child: %s: %s\n", what.c_str(), error.message), ++wrong;
    };
    for (const auto& [slot, call] : all) {
      error = sized<ironcl_error>();
      expect(call() == IRONCL_UNAVAILABLE && says({"forked", "load plugins after the fork"}), slot);
    }
    destroy_all();
    expect(script().calls.empty(), "the backend was called");
    expect(script().live_objects == live, "an object of the backend was released");
    _exit(wrong);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(table->queue_finish(queue, &error), IRONCL_OK) << "the parent goes on: " << error.message;
}

}  // namespace
}  // namespace ironcl::fake
