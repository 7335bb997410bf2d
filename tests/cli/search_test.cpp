// SPDX-License-Identifier: Apache-2.0
// Looking for an expression from outside ends where it may cost no more.
#include "host/report/search.h"

#include <gtest/gtest.h>

#include <boost/regex.hpp>
#include <stdexcept>
#include <string>

namespace ironcl::report {
namespace {

TEST(Searching, EndsWhereNoLookIsLeft) {
  const boost::regex expression("a*b");
  const std::string text(1000, 'a');
  std::int64_t enough = looks_for(text.size());
  EXPECT_FALSE(is_found(expression, text, true, enough));
  EXPECT_LT(enough, looks_for(text.size()));
  std::int64_t few = 100;
  EXPECT_THROW(is_found(expression, text, true, few), std::runtime_error);
  EXPECT_EQ(few, 0);
}

}  // namespace
}  // namespace ironcl::report
