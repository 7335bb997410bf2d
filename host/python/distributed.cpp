// SPDX-License-Identifier: Apache-2.0
// Linear layers over ranks whose messages Python carries (ironcl/distributed.py). Next door: ironcl/ranks.hpp.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "host/python/device.h"
#include "ironcl/ranks.hpp"

namespace nb = nanobind;

namespace ironcl::python {
namespace {

/// Calls Python; what it raises is an Error of the rank.
template <class Function>
auto ask(Function function) {
  const nb::gil_scoped_acquire gil;
  try {
    return function();
  } catch (const nb::python_error& error) {
    throw Error(IRONCL_INTERNAL, 0, error.what());
  }
}

/// An object with rank, size, send(rank, tensor) and receive(rank, tensor), which give objects with done().
class Messages final : public ranks::Transport {
 public:
  explicit Messages(nb::object python)
      : python_(std::move(python)),
        rank_(nb::cast<int>(python_.attr("rank"))),
        size_(nb::cast<int>(python_.attr("size"))) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Message> send(int to, std::span<const std::byte> bytes) override {
    return way("send", to, const_cast<std::byte*>(bytes.data()), bytes.size());
  }
  std::unique_ptr<Message> receive(int from, std::span<std::byte> bytes) override {
    return way("receive", from, bytes.data(), bytes.size());
  }

 private:
  class Way final : public Message {
   public:
    explicit Way(nb::object python) : python_(std::move(python)) {}
    ~Way() override {
      const nb::gil_scoped_acquire gil;
      python_.reset();
    }
    bool done() override {
      return ask([&] { return nb::cast<bool>(python_.attr("done")()); });
    }

   private:
    nb::object python_;
  };
  std::unique_ptr<Message> way(const char* call, int rank, std::byte* bytes, std::size_t count) {
    return ask([&] {
      const nb::ndarray<nb::pytorch, std::uint8_t, nb::ndim<1>> tensor(bytes, {count}, nb::handle());
      return std::make_unique<Way>(python_.attr(call)(rank, nb::cast(tensor, nb::rv_policy::reference)));
    });
  }

  nb::object python_;
  int rank_, size_;
};

/// A ranks::Linear with what it borrows.
class Spread {
 public:
  Spread(nb::object python, const Device& device, const ranks::Whole& whole, const ranks::Choices& choices,
         double timeout)
      : messages_(std::move(python)),
        group_(messages_, {.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1000))}) {
    const nb::gil_scoped_release release;
    linear_ = std::make_unique<ranks::Linear>(group_, device.device(), whole, choices);
  }
  void run(std::int64_t m, Address x, std::size_t x_bytes, Address d, std::size_t d_bytes) {
    linear_->run(m, bytes_at(x, x_bytes), bytes_at(d, d_bytes));
  }
  std::string ranges() const { return linear_->shards().text(); }

 private:
  Messages messages_;
  ranks::Group group_;
  std::unique_ptr<ranks::Linear> linear_;
};

}  // namespace

void add_distributed(nb::module_& module) {
  nb::class_<Spread>(module, "Spread")
      .def(nb::new_([](nb::object python, const std::shared_ptr<Device>& device, Address weight,
                       std::uint64_t weight_bytes, Address scale, std::uint64_t scale_bytes, Address bias,
                       std::uint64_t bias_bytes, std::int64_t m, std::int64_t n, std::int64_t k, ironcl_dtype x,
                       ironcl_dtype code, ironcl_dtype scale_type, ironcl_dtype bias_type, ironcl_dtype out,
                       Block block, bool row, bool ragged, int chunks, double timeout) {
        const Scale grid{scale_type, block.first, block.second};
        const ranks::Whole whole{{.m = m,
                                  .n = n,
                                  .k = k,
                                  .a_source = x,
                                  .a = code,
                                  .b = code,
                                  .d = out,
                                  .bias = bias_type,
                                  .a_scale = {IRONCL_F32, 1, block.second},
                                  .b_scale = grid},
                                 {.n = n,
                                  .k = k,
                                  .dtype = code,
                                  .scale = grid,
                                  .data = bytes_at(weight, weight_bytes),
                                  .scales = bytes_at(scale, scale_bytes)},
                                 bytes_at(bias, bias_bytes)};
        return std::make_shared<Spread>(
            std::move(python), *device, whole,
            ranks::Choices{
                .split = row ? ranks::Split::row : ranks::Split::column, .ragged = ragged, .chunks = chunks},
            timeout);
      }))
      .def("run", &Spread::run, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("ranges", &Spread::ranges);
}

}  // namespace ironcl::python
