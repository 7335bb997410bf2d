// SPDX-License-Identifier: Apache-2.0
// Messages by MPI: a communicator of its own, errors as exceptions. Built once for each MPI, whose types appear
// nowhere else. Next door: processes.cpp (opens it).
#include <mpi.h>

#include <deque>

#include "host/include/ironcl/ranks.hpp"

namespace {

using ironcl::ranks::Transport;

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw ironcl::Error(IRONCL_INTERNAL, code, std::string(call) + ": " + text);
}

class Processes final : public Transport {
 public:
  Processes() {
    int was = 0, provided = 0;
    check(MPI_Initialized(&was), "MPI_Initialized");
    owns_ = was == 0;
    // MPI is called by one thread at a time, not always by the one that initialised it.
    if (owns_) check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }
  ~Processes() override {
    // After a rank has hung, finalising might wait for ever: the process ends without, and mpirun then ends the job.
    // Rank 0 comes first, to say why.
    if (given_up_ && rank_ != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (given_up_) return;
    MPI_Comm_free(&comm_);
    if (owns_) MPI_Finalize();
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Message> send(int to, std::span<const std::byte> bytes) override {
    auto message = std::make_unique<Way>(*this);
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, 0, comm_, &message->request),
          "MPI_Isend");
    return message;
  }
  std::unique_ptr<Message> receive(int from, std::span<std::byte> bytes) override {
    auto message = std::make_unique<Coming>(*this, from, bytes);
    awaited_[from].push_back(message.get());
    return message;
  }

 private:
  struct Way : Message {
    explicit Way(Processes& owner) : all(owner) {}
    ~Way() override {
      if (request == MPI_REQUEST_NULL) return;
      all.given_up_ = true;
      MPI_Request_free(&request);
    }
    bool done() override {
      int is_done = 0;
      check(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
      return is_done != 0;
    }
    Processes& all;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  /// A message is probed first, so that one of another size comes too: what fits of it says why.
  struct Coming final : Way {
    Coming(Processes& owner, int sender, std::span<std::byte> to) : Way(owner), from(sender), bytes(to) {}
    ~Coming() override {
      if (std::erase(all.awaited_[from], this) != 0) all.given_up_ = true;
    }
    /// Whether it has come as far as that it can be received.
    bool probe() {
      int is_there = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status;
      check(MPI_Improbe(from, 0, all.comm_, &is_there, &message, &status), "MPI_Improbe");
      if (is_there == 0) return false;
      check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
      all.awaited_[from].pop_front();
      if (static_cast<std::size_t>(count) > bytes.size()) longer.resize(static_cast<std::size_t>(count));
      check(MPI_Imrecv(longer.empty() ? bytes.data() : longer.data(), count, MPI_BYTE, &message, &request),
            "MPI_Imrecv");
      return true;
    }
    bool done() override {
      auto& awaited = all.awaited_[from];  // in the order in which they come
      while (std::ranges::find(awaited, this) != awaited.end())
        if (!awaited.front()->probe()) return false;
      if (!Way::done()) return false;
      if (static_cast<std::size_t>(count) == bytes.size()) return true;
      if (!longer.empty()) std::copy_n(longer.begin(), bytes.size(), bytes.begin());
      throw ironcl::Error(
          IRONCL_INTERNAL, 0,
          ironcl::ranks::text_of("rank ", from, " sent ", count, " bytes where rank ", all.rank_, " expects ",
                                 bytes.size(), "; every rank makes the same calls in the same order"));
    }
    int from, count = 0;
    std::span<std::byte> bytes;
    std::vector<std::byte> longer;
  };

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::map<int, std::deque<Coming*>> awaited_;  ///< By sender: what has not been probed.
  int rank_ = 0, size_ = 1;
  bool owns_ = false, given_up_ = false;
};

}  // namespace

/// A transport over every process that the job has; the caller deletes it.
extern "C" IRONCL_EXPORT Transport* ironcl_mpi_transport() { return new Processes; }
