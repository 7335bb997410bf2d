// SPDX-License-Identifier: Apache-2.0
// The fake backend as a plugin, linked into the test program instead of being a library of its own.
#include "plugins/adapter/plugin_definition.h"
#include "tests/plugins/fake_backend.h"

IRONCL_DEFINE_PLUGIN("fake", ironcl::fake::make_backend);
