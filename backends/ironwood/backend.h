// SPDX-License-Identifier: Apache-2.0
// The door of the Ironwood model: a backend with one device, "ironwood:0". Next door: machine.h (hardware tables),
// plan.h (blocks and constraints), core.h (DMA, semaphores), operations.h (what is enqueued).
#pragma once

#include "backends/interface.h"

namespace ironcl::ironwood {

/// Makes the backend. `log` may be null; otherwise it outlives the backend. Opens no driver, starts no thread.
std::unique_ptr<backend::Backend> make_backend(backend::Log* log);

}  // namespace ironcl::ironwood
