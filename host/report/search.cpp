// SPDX-License-Identifier: Apache-2.0
#include "host/report/search.h"

#include <boost/iterator/iterator_adaptor.hpp>
#include <boost/regex.hpp>
#include <stdexcept>

namespace ironcl::report {
namespace {

/// A place in the text that counts how often it is looked at. The matcher's steps without a look are few for each.
class Counted : public boost::iterator_adaptor<Counted, const char*> {
 public:
  Counted() = default;
  Counted(const char* at, std::int64_t& looks) : iterator_adaptor_(at), looks_(&looks) {}

 private:
  friend class boost::iterator_core_access;
  const char& dereference() const {
    if (*looks_ <= 0) throw std::runtime_error("looking for this expression costs too much");
    --*looks_;
    return *base();
  }

  std::int64_t* looks_ = nullptr;
};

}  // namespace

std::optional<bool> is_found(const boost::regex& expression, std::string_view text, bool at_start,
                             std::int64_t& looks) {
  const auto where = at_start ? boost::regex_constants::match_continuous : boost::regex_constants::match_default;
  const char* const begin = text.data() == nullptr ? "" : text.data();
  try {
    return boost::regex_search(Counted(begin, looks), Counted(begin + text.size(), looks), expression, where);
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

}  // namespace ironcl::report
