// SPDX-License-Identifier: Apache-2.0
// The one translation unit that compiles Boost.JSON, which the project uses header-only.
#include <boost/json/src.hpp>
