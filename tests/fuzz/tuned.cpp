// SPDX-License-Identifier: Apache-2.0
// Tuned tables, of single products and of layers of experts, their file names, and the look-up over them. What parses
// is written so that it parses to the same.
#include <bit>
#include <stdexcept>

#include "backends/tuned/tables.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ironcl;
  fuzz::Bytes bytes(data, size);
  const std::size_t kind = bytes.below(4);
  if (kind % 2 == 0) {
    const std::string name(bytes.rest());
    if (const auto key = tuned::parse_file_name(name)) {
      const auto again = tuned::parse_file_name(tuned::file_name(*key));
      fuzz::must(again && *again == *key, "a file name is written as it is read");
    }
    (void)tuned::sanitize(name);
    return 0;
  }
  const std::int64_t m = static_cast<std::int64_t>(bytes.number() >> bytes.below(64));
  const double rows = kind == 3 ? std::bit_cast<double>(bytes.number()) : 0;
  try {
    const tuned::Table table = tuned::Table::parse(bytes.rest());
    const std::string text = table.to_text();
    fuzz::must(tuned::Table::parse(text).to_text() == text, "a table is written as it is read");
    if (kind == 3) {
      tuned::Tables experts;
      experts.add({256, 0, "cpu", "fp8_w8a8", 128, 128, 8, (m & 1) != 0}, table);
      const tuned::Tables::Product product{8, 256, (m & 2) != 0, 512, 64, rows};
      (void)experts.find({"cpu"}, product, "fp8_w8a8", 128, 128);
      const double active = tuned::rows_per_active_expert(m, 8, 128);
      fuzz::must(m < 1 || active >= 0, "a load is a number");
      return 0;
    }
    tuned::Tables tables;
    tables.add({64, 256, "cpu", "fp8_w8a8", 128, 128}, table);
    for (const auto& choice : tables.find({"cpu"}, m, 64, 256, "fp8_w8a8", 128, 128))
      fuzz::must(choice.m >= 1, "an entry is for at least one row");
  } catch (const std::invalid_argument& error) {
    fuzz::must(*error.what() != '\0', "an error has a text");
  }
  return 0;
}
