// SPDX-License-Identifier: Apache-2.0
// What tuned tables say about a problem on a device. Next door: select.h (asks here before the rule of thumb),
// ../tuned/tables.h (the tables), candidates.h (what a tuner may try).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/opencl/config.h"
#include "backends/opencl/select.h"
#include "backends/tuned/tables.h"

namespace ironcl::opencl {

/// The tables of a configuration, later ones over earlier ones. What is no table, or no table's file
/// name, is logged (`log` may be null) and skipped.
std::shared_ptr<const tuned::Tables> read_tables(const std::vector<TunedTable>& texts, backend::Log* log);

/// The names under which tables may speak for a device, the narrowest first: the device, its architecture, its
/// vendor, its kind. For example pthread-skylake-avx512-AMD_EPYC, pthread-skylake-avx512, AuthenticAMD, cpu. A CPU on
/// which gemm_amx was tried and right has -amx behind each of its names, else one on which gemm_bf16 was, with dot
/// products no slower than multiply-adds, -bf16; and no other: tables made without the unit do not speak for it.
std::vector<std::string> device_classes(const SelectionContext& selection);

/// The name of what is multiplied in tables: "fp8_w8a8", "int8_w8a8", "fp4_w4a8", "bf16_w16a16"; a16 for unquantised
/// A; with
/// "_tensor14" behind it for problems that allow this class, which have tables of their own.
std::string table_dtype(const backend::GemmDesc& desc);

/// A tuned configuration that is valid here, and the table entry that it comes from.
struct Tuned {
  const Variant* variant = nullptr;
  Tuning tuning;
  std::string source;        ///< "N=...json: M=64"
  bool of_own_class = true;  ///< False: of a table of class f32, for a problem that allows a weaker one.
};

/// The nearest configuration that this device runs within the problem's accuracy class; empty where no table has one.
/// Entries that name unknown variants or values, that ask() refuses, whose accuracy class or whose variant's is
/// weaker than the problem allows, that were measured on a device with more than twice or less than half the compute
/// units, or whose tile of rows would be more than a quarter padding at this other m, are skipped. Empty too
/// where the nearest valid entry says that the rule of thumb is best. A grouped problem is looked for in tables of
/// layers of experts, by the rows of a matrix that has any: with gathered rows as gate and up (together, or one of
/// them), else as down, then as those.
std::optional<Tuned> find_tuned(const tuned::Tables& tables, const SelectionContext& selection,
                                const Problem& problem);

}  // namespace ironcl::opencl
