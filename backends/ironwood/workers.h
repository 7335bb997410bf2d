// SPDX-License-Identifier: Apache-2.0
// Threads of the host that share the arithmetic of a step. What they compute does not depend on how many there are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace boost::asio {
class thread_pool;
}

namespace ironcl::ironwood {

/// As many as the machine has, the caller's included. They start with the first big task.
class Workers {
 public:
  Workers();
  ~Workers();

  /// Runs task(i) for 0 <= i < count, in any order, on at most `limit` threads (0: all); returns when all are done.
  /// Throws what a task threw (one of them). Any thread may call, several at once.
  void run(std::int64_t count, const std::function<void(std::int64_t)>& task, unsigned limit = 0);

 private:
  unsigned threads_;
  std::once_flag started_;
  std::unique_ptr<boost::asio::thread_pool> helpers_;
};

}  // namespace ironcl::ironwood
