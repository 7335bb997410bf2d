// SPDX-License-Identifier: Apache-2.0
// Messages by MPI: a communicator of its own, errors as exceptions. Built once for each MPI, whose types appear
// nowhere else. Next door: processes.cpp (opens it).
#include <mpi.h>

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
    // MPICH 4.0 calls this handler for a message that is longer than expected, on whichever communicator.
    if (owns_) check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }
  ~Processes() override {
    // After a rank has hung, finalising might wait for ever: the process ends without.
    if (given_up_) return;
    MPI_Comm_free(&comm_);
    if (owns_) MPI_Finalize();
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Message> send(int to, std::span<const std::byte> bytes) override {
    auto message = std::make_unique<Way>(*this, -1, 0);
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, 0, comm_, &message->request),
          "MPI_Isend");
    return message;
  }
  std::unique_ptr<Message> receive(int from, std::span<std::byte> bytes) override {
    auto message = std::make_unique<Way>(*this, from, static_cast<int>(bytes.size()));
    check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, 0, comm_, &message->request),
          "MPI_Irecv");
    return message;
  }

 private:
  struct Way final : Message {
    Way(Processes& owner, int sender, int expected) : all(owner), from(sender), bytes(expected) {}
    ~Way() override {
      if (request == MPI_REQUEST_NULL) return;
      all.given_up_ = true;
      if (from >= 0) MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    bool done() override {
      int is_done = 0, count = 0;
      MPI_Status status;
      const int code = MPI_Test(&request, &is_done, &status);
      int of = MPI_SUCCESS;
      MPI_Error_class(code, &of);
      if (of != MPI_ERR_TRUNCATE) check(code, "MPI_Test");
      if (of == MPI_SUCCESS && (is_done == 0 || from < 0)) return is_done != 0;
      if (of == MPI_SUCCESS) check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
      if (count != bytes)
        throw ironcl::Error(IRONCL_INTERNAL, 0,
                            "rank " + std::to_string(from) + " sent " +
                                (of == MPI_SUCCESS ? std::to_string(count) : "more") + " bytes where rank " +
                                std::to_string(all.rank_) + " expects " + std::to_string(bytes) +
                                "; every rank makes the same calls in the same order");
      return true;
    }
    Processes& all;
    int from, bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  bool owns_ = false, given_up_ = false;
};

}  // namespace

/// A transport over every process that the job has; the caller deletes it.
extern "C" IRONCL_EXPORT Transport* ironcl_mpi_transport() { return new Processes; }
