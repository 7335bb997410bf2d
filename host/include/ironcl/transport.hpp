// SPDX-License-Identifier: Apache-2.0
// ranks.hpp, part: bytes between ranks. Transport is what a message library must offer; ThreadRanks are ranks that
// are threads of one process. Collectives are made of Group and Exchange: every rank sees every failure, and none
// waits for ever. Next door: partition.hpp.
#pragma once

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "partition.hpp"

namespace ironcl::ranks {

/// Messages between the ranks of one group. Between two ranks they arrive in the order sent; they never mix with
/// those of another Transport. One thread at a time.
class Transport {
 public:
  /// A message in flight. Destroying it before it is done abandons it.
  class Message {
   public:
    Message() = default;
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;
    virtual ~Message() = default;
    /// Makes progress without waiting; whether it has been sent, or has arrived. Throws Error where it failed; where
    /// its size is not what the receiver expects, the bytes that fit have arrived.
    virtual bool done() = 0;
  };
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;  ///< Of one message; MPI counts in 31 bits.

  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// `bytes` must not change until the message is done.
  virtual std::unique_ptr<Message> send(int to, std::span<const std::byte> bytes) = 0;
  /// The next message of `from`, which must have exactly as many bytes.
  virtual std::unique_ptr<Message> receive(int from, std::span<std::byte> bytes) = 0;
};

/// The messages that carry `bytes`: of at most `most` bytes each; none for 0 bytes.
inline std::vector<Range> messages_of(std::uint64_t bytes, std::uint64_t most = Transport::kMostBytes) {
  std::vector<Range> all;
  for (std::uint64_t at = 0; at < bytes; at += most)
    all.push_back({static_cast<std::int64_t>(at), static_cast<std::int64_t>(std::min(at + most, bytes))});
  return all;
}

/// Ranks that are threads of this process. Must outlive the threads that use its transports.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size) {
    for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<Rank>(*this, rank));
  }
  int size() const noexcept { return static_cast<int>(ranks_.size()); }
  Transport& at(int rank) { return *ranks_.at(static_cast<std::size_t>(rank)); }

  /// Calls work(transport) in a thread per rank, and waits; throws what the lowest rank threw.
  template <class Work>
  void run(Work work) {
    std::vector<std::future<void>> threads;  // each waits for its thread where it goes
    for (const auto& rank : ranks_) threads.push_back(std::async(std::launch::async, [&] { work(*rank); }));
    for (std::future<void>& thread : threads) thread.get();
  }

 private:
  /// A message that has left: its bytes were copied.
  struct Sent final : Transport::Message {
    bool done() override { return true; }
  };
  /// From one rank to another: the messages that have arrived and await their receiver, by number.
  struct Box {
    std::uint64_t sent = 0, awaited = 0;
    std::map<std::uint64_t, std::vector<std::byte>> messages;
  };
  class Coming final : public Transport::Message {
   public:
    Coming(ThreadRanks& ranks, std::pair<int, int> way, std::uint64_t number, std::span<std::byte> bytes)
        : ranks_(ranks), way_(way), number_(number), bytes_(bytes) {}
    bool done() override {
      if (arrived_) return true;
      std::vector<std::byte> sent;
      {
        const std::lock_guard lock(ranks_.mutex_);
        auto message = ranks_.boxes_[way_].messages.extract(number_);
        if (message.empty()) return false;
        sent = std::move(message.mapped());
      }
      std::copy_n(sent.begin(), std::min(sent.size(), bytes_.size()), bytes_.begin());
      if (sent.size() != bytes_.size())
        throw Error(IRONCL_INTERNAL, 0,
                    text_of("rank ", way_.first, " sent ", sent.size(), " bytes where rank ", way_.second,
                            " expects ", bytes_.size(), "; every rank makes the same calls in the same order"));
      return arrived_ = true;
    }

   private:
    ThreadRanks& ranks_;
    std::pair<int, int> way_;
    std::uint64_t number_;
    std::span<std::byte> bytes_;
    bool arrived_ = false;
  };
  class Rank final : public Transport {
   public:
    Rank(ThreadRanks& ranks, int rank) : ranks_(ranks), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return ranks_.size(); }
    std::unique_ptr<Message> send(int to, std::span<const std::byte> bytes) override {
      std::vector<std::byte> copy(bytes.begin(), bytes.end());
      const std::lock_guard lock(ranks_.mutex_);
      Box& box = ranks_.boxes_[{rank_, to}];
      box.messages[box.sent++] = std::move(copy);
      return std::make_unique<Sent>();
    }
    std::unique_ptr<Message> receive(int from, std::span<std::byte> bytes) override {
      const std::lock_guard lock(ranks_.mutex_);
      return std::make_unique<Coming>(ranks_, std::pair{from, rank_}, ranks_.boxes_[{from, rank_}].awaited++, bytes);
    }

   private:
    ThreadRanks& ranks_;
    int rank_;
  };

  std::mutex mutex_;
  std::map<std::pair<int, int>, Box> boxes_;  ///< By sender and receiver.
  std::vector<std::unique_ptr<Rank>> ranks_;
};

/// Why a rank failed; OK where it did not.
struct Failure {
  ironcl_status status = IRONCL_OK;
  std::int32_t native = 0;
  std::string text;
  explicit operator bool() const noexcept { return status != IRONCL_OK; }
};

/// Of an exception: the status of an Error, else OUT_OF_HOST_MEMORY or INVALID_ARGUMENT.
inline Failure failure_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const std::string name = std::string(ironcl_status_name(error.status())) + ": ", what = error.what();
    return {error.status(), error.native_code(), what.starts_with(name) ? what.substr(name.size()) : what};
  } catch (const std::bad_alloc&) {
    return {IRONCL_OUT_OF_HOST_MEMORY, 0, "out of memory"};
  } catch (const std::exception& error) {
    return {IRONCL_INVALID_ARGUMENT, 0, error.what()};
  }
}

/// What a rank has sent.
struct Traffic {
  std::uint64_t messages = 0, bytes = 0;
};

/// Ranks that work together: every rank makes the same collective calls, in the same order, from one thread at a
/// time. The transport must outlive the group.
class Group {
 public:
  struct Settings {
    std::chrono::milliseconds timeout{300'000};  ///< A rank that is silent for longer is taken to hang.
    /// Partial results of at most this many bytes go to every rank, which adds them itself; larger ones go in slices
    /// to owners, which add them and send the sums. Both give the same bits.
    std::uint64_t gather_bytes = 256 << 10;
  };

  explicit Group(Transport& transport) : Group(transport, Settings()) {}
  Group(Transport& transport, Settings settings) : transport_(transport), settings_(settings) {}

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }
  const Settings& settings() const noexcept { return settings_; }
  const Traffic& sent() const noexcept { return sent_; }

  /// Calls work(), then tells every rank whether it failed, and `record`: a line of at most 239 bytes that ranks must
  /// agree on, such as sizes. Where a rank failed, or has another record than rank 0, throws the same Error on every
  /// rank, which names the lowest such rank.
  template <class Work>
  void together(const std::string& phase, const std::string& record, Work work);

 private:
  friend class Exchange;
  /// Memory of a message, used again by later ones.
  struct Room {
    std::shared_ptr<std::byte[]> memory;
    std::size_t held = 0;  ///< Bytes, at least as many as were asked for.
  };
  Room room(std::size_t bytes) {
    const auto make = [bytes] { return Room{std::shared_ptr<std::byte[]>(new std::byte[bytes]), bytes}; };
    if (bytes < kPooled) return make();
    const auto free = [](const Room& one) { return one.memory.use_count() == 1; };
    Room* best = nullptr;
    for (Room& one : rooms_)
      if (free(one) && one.held >= bytes && (best == nullptr || one.held < best->held)) best = &one;
    if (best != nullptr) return *best;
    if (rooms_.size() >= 16 * static_cast<std::size_t>(size())) std::erase_if(rooms_, free);
    return rooms_.emplace_back(make());
  }
  static constexpr std::size_t kPooled = 64 << 10;  ///< Smaller ones are cheap to allocate.

  Transport& transport_;
  Settings settings_;
  Traffic sent_;
  std::vector<Room> rooms_;
  std::string ended_;  ///< Why the group is unusable; empty: it is not.
};

/// One message from each rank to each other, in flight while the caller computes. Each begins with a head that says
/// whether its sender has failed, so that failures need no messages of their own.
class Exchange {
 public:
  static constexpr std::size_t kHeadBytes = 256;

  /// `send[r]` goes to rank r; receive[r] bytes come from rank r. A rank's message to itself is not copied, and must
  /// live as long as from() is used. A rank with a `failure` sends that, and as many bytes as the others expect.
  Exchange(Group& group, std::string phase, const std::vector<std::span<const std::byte>>& send,
           const std::vector<std::size_t>& receive, const Failure& failure = {}, const std::string& record = {})
      : group_(&group), phase_(std::move(phase)) {
    if (!group.ended_.empty()) throw Error(IRONCL_UNAVAILABLE, 0, phase_ + ": " + group.ended_);
    const auto ranks = static_cast<std::size_t>(group.size()), self = static_cast<std::size_t>(group.rank());
    out_.resize(ranks);
    in_.resize(ranks);
    from_.resize(ranks);
    Head head;
    head.status = failure.status;
    head.native = failure.native;
    std::snprintf(head.text.data(), head.text.size(), "%s", (failure ? failure.text : record).c_str());
    in_[self] = group.room(kHeadBytes);
    std::memcpy(in_[self].memory.get(), &head, sizeof head);
    from_[self] = send[self];
    Head silent;  // Of a message of which nothing arrives because its transport failed.
    std::snprintf(silent.text.data(), silent.text.size(), "%s", record.c_str());
    const auto piece = [](const Group::Room& room, Range part) {
      return std::span(room.memory.get() + part.begin, static_cast<std::size_t>(part.size()));
    };
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (rank == self) continue;
      in_[rank] = group.room(kHeadBytes + receive[rank]);
      std::memcpy(in_[rank].memory.get(), &silent, sizeof silent);
      from_[rank] = std::span<const std::byte>(in_[rank].memory.get() + kHeadBytes, receive[rank]);
      for (const Range& part : messages_of(kHeadBytes + receive[rank]))
        pending_.push_back({group.transport_.receive(static_cast<int>(rank), piece(in_[rank], part)), rank});
    }
    for (std::size_t rank = 0, last = self; rank < ranks; ++rank) {
      if (rank == self) continue;
      const std::span<const std::byte> bytes = send[rank];
      if (last != self && bytes.data() == send[last].data() && bytes.size() == send[last].size()) {
        out_[rank] = out_[last];  // The same to every rank.
      } else {
        out_[rank] = group.room(kHeadBytes + bytes.size());
        std::memcpy(out_[rank].memory.get(), &head, sizeof head);
        std::ranges::copy(bytes, out_[rank].memory.get() + kHeadBytes);
      }
      last = rank;
      for (const Range& part : messages_of(kHeadBytes + bytes.size())) {
        pending_.push_back({group.transport_.send(static_cast<int>(rank), piece(out_[rank], part)), rank});
        ++group.sent_.messages;
      }
      group.sent_.bytes += kHeadBytes + bytes.size();
    }
  }

  /// Makes progress; whether every message has been sent and has arrived, or has failed.
  bool poll() {
    std::erase_if(pending_, [&](Pending& one) {
      try {
        return one.message->done();
      } catch (const Error&) {
        if (!broken_) broken_ = failure_of(std::current_exception());
        return true;
      }
    });
    return pending_.empty();
  }

  /// Waits for every message. Throws Error TIMEOUT with the silent rank; the group is then unusable.
  void wait() {
    const auto limit = group_->settings_.timeout;
    auto last = std::chrono::steady_clock::now();
    for (std::size_t left = pending_.size(), turns = 0; !poll(); ++turns) {
      if (pending_.size() != left) {
        left = pending_.size();
        last = std::chrono::steady_clock::now();
      }
      if (std::chrono::steady_clock::now() - last > limit) {
        std::array<char, 32> seconds{};
        std::snprintf(seconds.data(), seconds.size(), "%g", static_cast<double>(limit.count()) / 1000);
        group_->ended_ = text_of("rank ", pending_.front().rank, " was silent for ", seconds.data(), " s in '",
                                 phase_, "'; it hangs or has ended, and the group ends with it");
        throw Error(IRONCL_TIMEOUT, 0, group_->ended_);
      }
      // Ranks may share cores: a waiting one yields, and after a while sleeps.
      if (turns < 200)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  /// The failure of the lowest rank that failed, the same on every rank; empty where none did. Call after wait().
  Failure failure() {
    for (std::size_t rank = 0; rank < in_.size(); ++rank)
      if (const Head head = head_of(rank); head.status != IRONCL_OK)
        return {head.status, head.native, text_of(phase_, ": rank ", rank, ": ", head.text.data())};
    for (std::size_t rank = 1; rank < in_.size(); ++rank) {
      const Head first = head_of(0), head = head_of(rank);
      if (std::strcmp(first.text.data(), head.text.data()) != 0)
        return {IRONCL_INVALID_ARGUMENT, 0,
                text_of(phase_, ": rank ", rank, " has ", head.text.data(), ", rank 0 has ", first.text.data(),
                        "; start every rank with the same program, files and arguments")};
    }
    if (broken_) group_->ended_ = broken_.text;
    return broken_;
  }

  /// wait(), then throws failure(): the same Error on every rank.
  void finish() {
    wait();
    if (const Failure failed = failure()) throw Error(failed.status, failed.native, failed.text);
  }

  /// What rank `rank` sent. Call after wait().
  std::span<const std::byte> from(int rank) const { return from_[static_cast<std::size_t>(rank)]; }

 private:
  struct Head {
    ironcl_status status = IRONCL_OK;
    std::int32_t native = 0;
    std::array<char, 248> text{};
  };
  static_assert(sizeof(Head) == kHeadBytes);
  struct Pending {
    std::unique_ptr<Transport::Message> message;
    std::size_t rank;
  };

  Head head_of(std::size_t rank) const {
    Head head;
    std::memcpy(&head, in_[rank].memory.get(), sizeof head);
    return head;
  }

  Group* group_;
  std::string phase_;
  std::vector<Group::Room> out_, in_;  ///< By rank, heads included; before the messages that use them.
  std::vector<std::span<const std::byte>> from_;
  Failure broken_;  ///< Of a message.
  std::vector<Pending> pending_;
};

/// Sends the same bytes to every rank; rank r sends `receive[r]` bytes.
inline Exchange all_gather(Group& group, const std::string& phase, std::span<const std::byte> mine,
                           const std::vector<std::size_t>& receive, const Failure& failure = {},
                           const std::string& record = {}) {
  return {group, phase, std::vector(static_cast<std::size_t>(group.size()), mine), receive, failure, record};
}

template <class Work>
void Group::together(const std::string& phase, const std::string& record, Work work) {
  Failure failure;
  try {
    work();
  } catch (...) {
    failure = failure_of(std::current_exception());
  }
  all_gather(*this, phase, {}, std::vector<std::size_t>(static_cast<std::size_t>(size())), failure, record).finish();
}

}  // namespace ironcl::ranks
