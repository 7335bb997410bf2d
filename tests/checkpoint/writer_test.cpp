// SPDX-License-Identifier: Apache-2.0
// Writing safetensors: whole or not at all, readable again bit for bit.
#include "host/checkpoint/safetensors_writer.h"

#include "host/checkpoint/safetensors.h"
#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

std::vector<std::string> names_in(const std::filesystem::path& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    names.push_back(entry.path().filename().string());
  return names;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

Tensor spec(const char* name, DType dtype, std::vector<std::int64_t> shape) {
  return {.name = name, .dtype = dtype, .shape = std::move(shape)};
}

TEST(Writer, GivesBackTheSameBytesTypesShapesAndMetadata) {
  const TempDir dir;
  const OwnTensor y("y", {2, 3}, {1, -2, 3.5f, 0, 1e-30f, 7});
  const auto path = save(dir / "out.safetensors",
                         {OwnTensor("codes", DType::e4m3fn, {3}, 0x7e), y, OwnTensor("scalar", DType::f64, {}, 0x40)},
                         {{"x_group", "1x128"}, {"quote", "a\"b\\\n\u00e9"}});
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.at("y").dtype, DType::f32);
  EXPECT_EQ(file.at("y").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(std::ranges::equal(file.at("y").data, y.bytes));
  EXPECT_EQ(file.at("scalar").shape_text(), "[]");
  EXPECT_EQ(file.metadata().at("quote"), "a\"b\\\n\u00e9");
}

TEST(Writer, AlignsEveryTensorToItsElement) {
  const TempDir dir;
  const auto path =
      save(dir / "out.safetensors", {OwnTensor("a", DType::e4m3fn, {3}), OwnTensor("b", DType::f64, {1}),
                                     OwnTensor("c", DType::bf16, {1}), OwnTensor("d", DType::f32, {1})});
  const SafetensorsFile file = SafetensorsFile::open(path);
  for (const Tensor& tensor : file.tensors())
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data.data()) % numerics::size_of(tensor.dtype), 0u)
        << tensor.name;
}

TEST(Writer, TakesPiecesInAnyOrder) {
  const TempDir dir;
  SafetensorsWriter writer(dir / "out.safetensors", {spec("a", DType::i8, {4}), spec("b", DType::i8, {2})});
  writer.write_at("a", 2, bytes_of("cd"));
  writer.write_at("b", 0, bytes_of("xy"));
  writer.write_at("a", 0, bytes_of("ab"));
  writer.commit();
  const SafetensorsFile file = SafetensorsFile::open(dir / "out.safetensors");
  EXPECT_TRUE(std::ranges::equal(file.at("a").data, bytes_of("abcd")));
  EXPECT_TRUE(std::ranges::equal(file.at("b").data, bytes_of("xy")));
}

TEST(Writer, LeavesNothingBehindWithoutACommit) {
  const TempDir dir;
  write_file(dir / "out.safetensors", "old");
  {
    SafetensorsWriter writer(dir / "out.safetensors", {spec("a", DType::i8, {4})});
    writer.write_at("a", 0, bytes_of("abcd"));
    EXPECT_EQ(names_in(dir.path()).size(), 2u) << "the file is written aside";
  }
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"out.safetensors"});
  EXPECT_EQ(read_file(dir / "out.safetensors"), "old");
}

TEST(Writer, ReplacesAnOlderFileOnCommit) {
  const TempDir dir;
  write_file(dir / "out.safetensors", "old");
  save(dir / "out.safetensors", {OwnTensor("a", {1}, {1})});
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"out.safetensors"});
  EXPECT_NE(SafetensorsFile::open(dir / "out.safetensors").find("a"), nullptr);
}

TEST(Writer, RefusesTooManyAndTooFewBytes) {
  const TempDir dir;
  const auto path = dir / "out.safetensors";
  SafetensorsWriter writer(path, {spec("a", DType::i8, {4})});
  writer.write_at("a", 0, bytes_of("abc"));
  expect_throw([&] { writer.write_at("a", 3, bytes_of("de")); }, ErrorKind::shape, path, "a",
               {"gets 2 bytes, but has room for 1 more of 4"});
  expect_throw([&] { writer.commit(); }, ErrorKind::shape, path, "a", {"got 3 bytes, expected 4"});
  expect_throw([&] { writer.write_at("b", 0, {}); }, ErrorKind::not_found, path, "b", {"was not declared"});
}

TEST(Writer, RefusesTensorsThatNoFileCanHold) {
  const TempDir dir;
  const auto path = dir / "out.safetensors";
  const auto make = [&](std::vector<Tensor> specs) { return [&path, specs] { SafetensorsWriter(path, specs); }; };
  constexpr auto kConfig = ErrorKind::config;
  expect_throw(make({spec("a", DType::none, {1})}), kConfig, path, "a", {"no element type"});
  expect_throw(make({spec("a", DType::i8, {-1})}), kConfig, path, "a", {"negative dimension -1"});
  expect_throw(make({spec("a", DType::f64, {INT64_MAX})}), kConfig, path, "a", {"overflows"});
  expect_throw(make({spec("a", DType::i8, {1}), spec("a", DType::i8, {1})}), kConfig, path, "a", {"twice"});
  expect_throw(make({spec("__metadata__", DType::i8, {1})}), kConfig, path, "__metadata__", {"reserves"});
}

TEST(Writer, SaysWhyAFileCannotBeCreated) {
  const TempDir dir;
  const auto path = dir / "no-such-folder/out.safetensors";
  expect_throw([&] { SafetensorsWriter(path, {}); }, ErrorKind::io, path, "", {"cannot be written", "No such file"});
}

}  // namespace
}  // namespace ironcl::checkpoint
