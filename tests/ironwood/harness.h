// SPDX-License-Identifier: Apache-2.0
// The model's device, for the problems of tests/products.
#pragma once

#include "backends/ironwood/backend.h"
#include "tests/products/product.h"

namespace ironcl::ironwood::testing {

using namespace products;
using numerics::DType;
using numerics::ScaleGrid;

/// One for all tests.
inline backend::Device& device() {
  static const auto backend = make_backend(nullptr);
  static const auto only = backend->devices().at(0);
  return *only;
}

/// Memory of the host, lent to the device.
template <class T>
backend::Span lend(std::vector<T>& values) {
  const auto size = values.size() * sizeof(T);
  return {device().import_buffer(backend::Device::Memory::host_pointer, values.data(), size), 0, size};
}

/// Runs the case as it is made; D as bytes, tight.
inline std::vector<std::uint8_t> bytes_of_run(const Case& c, const Data& data) {
  return run(device(), c, data).bytes;
}

inline void expect_right(const Case& c) { expect_right(run(device(), c, make_data(c)), c, "the model"); }

}  // namespace ironcl::ironwood::testing
