// SPDX-License-Identifier: Apache-2.0
// Workers on Boost.Asio's thread pool.
#include "backends/ironwood/workers.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <latch>
#include <thread>

namespace ironcl::ironwood {

Workers::Workers() : threads_(std::max(1u, std::thread::hardware_concurrency())) {}

Workers::~Workers() = default;  // The pool waits for its threads.

void Workers::run(std::int64_t count, const std::function<void(std::int64_t)>& task, unsigned limit) {
  const auto most = static_cast<std::int64_t>(limit == 0 ? threads_ : std::min(limit, threads_));
  const std::int64_t helpers = std::min(most, count) - 1;
  if (helpers <= 0) {
    for (std::int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  std::call_once(started_, [this] { helpers_ = std::make_unique<boost::asio::thread_pool>(threads_ - 1); });

  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  // Shared: a helper may still be inside count_down when the waiter returns.
  const auto done = std::make_shared<std::latch>(helpers);
  const auto work = [&] {
    try {
      for (std::int64_t i = next++; i < count; i = next++) task(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  for (std::int64_t h = 0; h < helpers; ++h) {
    boost::asio::post(*helpers_, [&work, done] {
      work();
      done->count_down();
    });
  }
  work();
  done->wait();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ironcl::ironwood
