// SPDX-License-Identifier: Apache-2.0
// JSON that came from outside: syntax errors with their place, no name twice in one object, and members by name and
// type.
#pragma once

#include <boost/json.hpp>

#include "host/checkpoint/error.h"
#include "host/checkpoint/quantization_config.h"

namespace ironcl::checkpoint {

/// Parses all of `text`, which is `what` of `file`. Throws Error format with the byte offset.
boost::json::value parse_json(std::string_view text, const std::filesystem::path& file, std::string_view what);

/// Reads and parses a whole file of at most 1 GiB, in which NaN, Infinity and -Infinity may stand where a value may,
/// as Python writes them; they become texts. Throws Error: io, format.
boost::json::value read_json(const std::filesystem::path& file);

/// The object that a JSON file is. Throws Error as read_json, and config.
boost::json::object read_object(const std::filesystem::path& file);

/// Typed access to the members of one object, with errors that name the whole path of a member.
class Members {
 public:
  Members(const boost::json::object& object, const std::filesystem::path& file, std::string where)
      : object_(&object), file_(&file), where_(std::move(where)) {}

  template <class... Args>
  [[noreturn]] void fail(std::string_view name, fmt::format_string<Args...> message, Args&&... args) const {
    throw Error(ErrorKind::config, *file_, "", "{}.{} {}", where_, name,
                fmt::format(message, std::forward<Args>(args)...));
  }

  /// nullptr where the member is missing or null.
  const boost::json::value* find(std::string_view name) const {
    const boost::json::value* value = object_->if_contains(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  std::optional<std::string> text(std::string_view name) const {
    const boost::json::value* value = find(name, &boost::json::value::is_string, "a string");
    return value == nullptr ? std::nullopt : std::optional(boost::json::value_to<std::string>(*value));
  }

  std::vector<std::string> texts(std::string_view name) const {
    std::vector<std::string> result;
    const boost::json::value* value = find(name, &boost::json::value::is_array, "an array of strings");
    if (value == nullptr) return result;
    for (const boost::json::value& entry : value->get_array()) {
      if (!entry.is_string()) fail(name, "holds {}, expected strings", boost::json::serialize(entry));
      result.push_back(boost::json::value_to<std::string>(entry));
    }
    return result;
  }

  ModuleNames modules(std::string_view name) const {
    std::vector<std::string> entries = texts(name);
    try {
      return ModuleNames(std::move(entries));
    } catch (const std::runtime_error& error) {
      fail(name, "holds a malformed regular expression: {}", error.what());
    }
  }

  std::optional<std::int64_t> size(std::string_view name) const {
    const boost::json::value* value = find(name);
    return value == nullptr ? std::nullopt : std::optional(size_from(name, *value));
  }

  /// [rows, cols], or "rowsxcols" as older compressed-tensors configs write it.
  std::optional<ScaleGrid> block(std::string_view name) const {
    const boost::json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (const boost::json::array* pair = value->if_array(); pair != nullptr && pair->size() == 2)
      return ScaleGrid{size_from(name, (*pair)[0]), size_from(name, (*pair)[1])};
    if (value->is_string())
      if (const auto grid = parse_block(boost::json::value_to<std::string>(*value))) return grid;
    fail(name, "is {}, expected two sizes such as [128, 128]", boost::json::serialize(*value));
  }

  std::optional<bool> flag(std::string_view name) const {
    const boost::json::value* value = find(name, &boost::json::value::is_bool, "true or false");
    return value == nullptr ? std::nullopt : std::optional(value->get_bool());
  }

  std::optional<double> number(std::string_view name) const {
    const boost::json::value* value = find(name, &boost::json::value::is_number, "a number");
    return value == nullptr ? std::nullopt : std::optional(value->to_number<double>());
  }

  std::optional<Members> object(std::string_view name) const {
    const boost::json::value* value = find(name, &boost::json::value::is_object, "an object");
    if (value == nullptr) return std::nullopt;
    return Members(value->get_object(), *file_, fmt::format("{}.{}", where_, name));
  }

  const boost::json::object& all() const noexcept { return *object_; }

 private:
  /// find() of a type that `is` tells; fails with what was expected.
  const boost::json::value* find(std::string_view name, bool (boost::json::value::*is)() const noexcept,
                                 const char* expected) const {
    const boost::json::value* value = find(name);
    if (value != nullptr && !(value->*is)())
      fail(name, "is {}, expected {}", boost::json::serialize(*value), expected);
    return value;
  }

  std::int64_t size_from(std::string_view name, const boost::json::value& value) const {
    constexpr std::int64_t kLargest = 1 << 30;
    const std::int64_t* number = value.if_int64();
    if (number == nullptr || *number < 1 || *number > kLargest)
      fail(name, "has the size {}, expected a whole number of 1 to {}", boost::json::serialize(value), kLargest);
    return *number;
  }

  const boost::json::object* object_;
  const std::filesystem::path* file_;
  std::string where_;
};

}  // namespace ironcl::checkpoint
