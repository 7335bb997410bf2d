// SPDX-License-Identifier: Apache-2.0
// Short texts that people and programs write, by the first byte: device URIs and lists of them, problem lines, scale
// grids, verbosity words with a filter, KEY=VALUE options.
#include "backends/words.h"
#include "host/registry/log.h"
#include "host/registry/uri.h"
#include "host/report/problem.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ironcl;
  fuzz::Bytes bytes(data, size);
  const std::size_t kind = bytes.below(6);
  const std::string text(bytes.rest());
  switch (kind) {
    case 0:
      try {
        fuzz::must(registry::parse_uri(text).text == text, "a URI is kept");
      } catch (const boundary::Refused& refused) {
        fuzz::must(refused.status() == IRONCL_INVALID_ARGUMENT && *refused.what() != '\0', "or refused with a text");
      }
      break;
    case 1:
      try {
        fuzz::must(!registry::parse_uri_list(text).empty(), "a list that is taken has URIs");
      } catch (const boundary::Refused&) {
      }
      break;
    case 2:
      try {
        const report::Problem problem = report::parse_problem(text);
        const std::string line = report::to_line(problem);
        fuzz::must(report::parse_problem(line) == problem, "a problem line reads as it is written: " + line);
        (void)report::to_desc(problem);
      } catch (const report::ProblemError& error) {
        fuzz::must(*error.what() != '\0', "an error has a text");
      }
      break;
    case 3:
      try {
        (void)report::parse_grid(text);
      } catch (const report::ProblemError&) {
      }
      break;
    case 4:
      try {
        registry::Logger logger(
            registry::parse_verbosity(text), [](void*, const char*) {}, nullptr);
        logger.write(registry::kError, text);
        // Long lines overflowed the stack once; looking for a costly filter in each would leave time for little else.
        logger.write(registry::kError, std::string(text.size() % 16 == 0 ? 100'000 : 500, 'a'));
      } catch (const boundary::Refused&) {
      }
      break;
    default:
      if (const auto pair = words::key_value(text)) {
        const std::string key(pair->first), value(pair->second);
        fuzz::must(!key.empty() && key + "=" + value == text, "a key and its value are what was written");
      }
  }
  return 0;
}
