// SPDX-License-Identifier: Apache-2.0
// The planted faults of the reference plugin: load option "fault=NAME" turns one on. docs/testing.md lists what each
// does and which test sees it; tests/conformance/faults_test.cpp proves it.
#pragma once

#include <span>
#include <string_view>

namespace ironcl::reference {

/// True where the fault `name` is planted. Every name is in kFaults.
bool fault(std::string_view name);
/// All of them.
std::span<const std::string_view> fault_names();
/// Plants `name`; empty: none. False where there is no such fault.
bool plant(std::string_view name);

}  // namespace ironcl::reference
