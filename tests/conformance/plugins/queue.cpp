// SPDX-License-Identifier: Apache-2.0
// Queues of the reference plugin: a thread each, commands in order, events that carry a status.
#include <chrono>
#include <thread>

#include "tests/conformance/plugins/objects.h"

namespace ironcl::reference {
namespace {

std::mutex workers_mutex;
std::condition_variable workers_changed;
int workers = 0;

std::uint64_t now_ns() {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

void complete(Completion& completion, ironcl_status status, const std::string& text) {
  const std::lock_guard lock(completion.mutex);
  completion.end_ns = now_ns();
  completion.status = status;
  completion.text = text;
  completion.done = true;
  completion.changed.notify_all();
}

}  // namespace

std::shared_ptr<Worker> Worker::start() {
  auto worker = std::make_shared<Worker>();
  {
    const std::lock_guard lock(workers_mutex);
    ++workers;
  }
  std::thread([worker] {
    worker->run();
    const std::lock_guard lock(workers_mutex);
    --workers;
    workers_changed.notify_all();
  }).detach();
  return worker;
}

void Worker::join_all() {
  std::unique_lock lock(workers_mutex);
  workers_changed.wait(lock, [] { return workers == 0; });
}

std::shared_ptr<Completion> Worker::push(Command command) {
  command.completion = std::make_shared<Completion>();
  command.completion->queued_ns = now_ns();
  auto completion = command.completion;
  if (fault("events_keep_their_causes")) completion->kept = command.wait;
  const std::lock_guard lock(mutex_);
  commands_.push_back(std::move(command));
  changed_.notify_all();
  if (fault("events_end_at_once")) complete(*completion, IRONCL_OK, "");
  return completion;
}

void Worker::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return commands_.empty() && !busy_; });
}

void Worker::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void Worker::run() {
  while (true) {
    Command command;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closed_ || !commands_.empty(); });
      if (commands_.empty()) return;
      command = std::move(commands_.front());
      commands_.pop_front();
      busy_ = true;
    }
    ironcl_status status = IRONCL_OK;
    std::string text;
    for (const auto& event : command.wait) {
      if (fault("wait_list_ignored") && !command.orders_only) break;
      std::unique_lock lock(event->mutex);
      event->changed.wait(lock, [&event] { return event->done; });
      if (event->status != IRONCL_OK && !command.orders_only && !fault("status_of_dependants_lost")) {
        status = event->status;
        text = "waited for a command that failed: " + event->text;
      }
    }
    command.completion->start_ns = now_ns();
    try {
      if (status == IRONCL_OK && command.work) command.work();
    } catch (const Refusal& e) {
      status = e.status;
      text = e.what();
    }
    complete(*command.completion, status, text);
    command = {};
    const std::lock_guard lock(mutex_);
    busy_ = false;
    changed_.notify_all();
  }
}

ironcl_status wait_for(Completion& completion, std::uint64_t timeout_ns) {
  std::unique_lock lock(completion.mutex);
  const auto done = [&completion] { return completion.done; };
  if (timeout_ns == UINT64_MAX) {
    completion.changed.wait(lock, done);
  } else if (!completion.changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), done)) {
    return IRONCL_TIMEOUT;
  }
  if (completion.status != IRONCL_OK) throw Refusal(completion.status, completion.text);
  return IRONCL_OK;
}

}  // namespace ironcl::reference
