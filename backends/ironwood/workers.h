// SPDX-License-Identifier: Apache-2.0
// Threads of the host that share the arithmetic of a step. What they compute does not depend on how many there are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace ironcl::ironwood {

class Workers {
 public:
  /// `threads` in all, the caller's included; 0: as many as the machine has. Threads start with the first big task.
  explicit Workers(unsigned threads = 0);
  ~Workers();

  /// Runs task(i) for 0 <= i < count, in any order, on at most `limit` threads (0: all); returns when all are done.
  /// Throws what a task threw (one of them). Any thread may call, several at once.
  void run(std::int64_t count, const std::function<void(std::int64_t)>& task, unsigned limit = 0);

 private:
  struct Pool;
  unsigned threads_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace ironcl::ironwood
