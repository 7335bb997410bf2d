// SPDX-License-Identifier: Apache-2.0
// Which message library started this process, and its transport: a library of its own (host/ranks/mpi), opened only
// where there are other processes, so that single processes need no MPI.
#include <dlfcn.h>

#include <cstdlib>

#include "host/ranks/spread.h"

namespace ironcl::ranks {
namespace {

const char* first_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  return nullptr;
}

}  // namespace

int local_rank() {
  const char* text = first_of({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PMI_RANK"});
  return text == nullptr ? 0 : std::atoi(text);
}

std::unique_ptr<Transport> open_processes() {
  const bool open_mpi = first_of({"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}) != nullptr;
  if (!open_mpi && first_of({"PMI_SIZE", "PMI_RANK"}) == nullptr) {
    const char* tasks = first_of({"SLURM_STEP_NUM_TASKS"});
    if (tasks != nullptr && std::atoi(tasks) > 1)
      throw Error(IRONCL_UNAVAILABLE, 0,
                  "srun started this process without MPI; give srun --mpi=pmix for Open MPI, --mpi=pmi2 for MPICH");
    if (first_of({"TORCHELASTIC_RUN_ID"}) != nullptr)
      throw Error(IRONCL_UNAVAILABLE, 0,
                  "torchrun starts processes without MPI, by which ranks of a command talk; start it with mpirun, or "
                  "call ironcl.distributed from Python");
    return nullptr;
  }
  const char* wanted = first_of({"IRONCL_MPI"});
  const std::string name = wanted != nullptr ? wanted : open_mpi ? "openmpi" : "mpich";
  const std::string file = "libironcl_mpi_" + name + ".so";
  // MPI libraries find their components by symbols in the global scope.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  const char* why = library == nullptr ? dlerror() : nullptr;
  void* symbol = library == nullptr ? nullptr : dlsym(library, "ironcl_mpi_transport");
  if (symbol == nullptr)
    throw Error(IRONCL_UNAVAILABLE, 0,
                file + " cannot be opened: " + (why != nullptr ? why : "it has no ironcl_mpi_transport") +
                    "; it is built where MPI's headers are (libopenmpi-dev, libmpich-dev), and IRONCL_MPI says "
                    "which: openmpi or mpich");
  return std::unique_ptr<Transport>(reinterpret_cast<Transport* (*)()>(symbol)());
}

}  // namespace ironcl::ranks
