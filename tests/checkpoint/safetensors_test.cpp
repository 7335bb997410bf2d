// SPDX-License-Identifier: Apache-2.0
// One safetensors file: what is read, and each way in which a file contradicts the format.
#include "host/checkpoint/safetensors.h"

#include "host/checkpoint/matrix.h"
#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

constexpr auto kFormat = ErrorKind::format;

/// Opens a file with this header and `data_bytes` zero bytes behind it, which must fail.
void expect_refused(const std::string& header, std::size_t data_bytes, const std::string& tensor,
                    const std::vector<std::string>& parts) {
  const TempDir dir;
  const auto file = write_file(dir / "f.safetensors", raw_safetensors(header, data_bytes));
  expect_throw([&] { SafetensorsFile::open(file); }, kFormat, file, tensor, parts);
}

TEST(Safetensors, ReadsTensorsSortedByNameWithMetadata) {
  const TempDir dir;
  const auto path =
      write_file(dir / "f.safetensors",
                 raw_safetensors(
                     R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F8_E4M3","shape":[2,3],"data_offsets":[4,10]},)"
                     R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
                     10));
  const SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[0].shape_text(), "[]");
  EXPECT_EQ(file.tensors()[0].elements(), 1);
  const Tensor& b = file.at("b");
  EXPECT_EQ(b.dtype, DType::e4m3fn);
  EXPECT_EQ(b.dtype_name, "F8_E4M3");
  EXPECT_EQ(b.shape_text(), "[2, 3]");
  EXPECT_EQ(b.data.size(), 6u);
  EXPECT_EQ(b.data.data() - file.at("a").data.data(), 4);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.file_size(), std::filesystem::file_size(path));
}

TEST(Safetensors, KeepsTheMappingWhileACopyLives) {
  const TempDir dir;
  const auto path = save(dir / "f.safetensors", {OwnTensor("t", {2}, {1.5f, -2.5f})});
  auto file = std::make_unique<SafetensorsFile>(SafetensorsFile::open(path));
  const SafetensorsFile copy = *file;
  const std::span<const std::byte> data = file->at("t").data;
  file.reset();
  std::filesystem::remove(path);
  float value = 0;
  std::memcpy(&value, data.data() + 4, 4);
  EXPECT_EQ(value, -2.5f);
}

TEST(Safetensors, ListsTypesItDoesNotComputeWith) {
  const TempDir dir;
  const auto path = write_file(dir / "f.safetensors",
                               raw_safetensors(R"({"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                                               R"("z":{"dtype":"F8_E4M3FNUZ","shape":[2],"data_offsets":[8,10]},)"
                                               R"("f":{"dtype":"F4","shape":[4],"data_offsets":[10,12]}})",
                                               12));
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.at("i").dtype, DType::none);
  EXPECT_EQ(file.at("z").dtype, DType::none) << "FNUZ has another bias than e4m3fn";
  EXPECT_EQ(file.at("z").dtype_name, "F8_E4M3FNUZ");
  EXPECT_EQ(file.at("f").data.size(), 2u);
}

TEST(Safetensors, EveryComputedTypeHasOneFileTypeOfItsSize) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::e4m3fn, DType::e5m2, DType::e8m0, DType::i8,
                            DType::s32, DType::f64}) {
    const FileDType* type = find_file_dtype(numerics::file_name_of(dtype));
    ASSERT_NE(type, nullptr) << numerics::name_of(dtype);
    EXPECT_EQ(type->bits, 8 * numerics::size_of(dtype)) << type->name;
    EXPECT_EQ(find_file_dtype(type->name), type);
  }
  EXPECT_EQ(find_file_dtype(""), nullptr);
  EXPECT_EQ(find_file_dtype("F9"), nullptr);
}

TEST(Safetensors, TakesEmptyTensorsAndEmptyFiles) {
  const TempDir dir;
  const auto none = write_file(dir / "none.safetensors", raw_safetensors("{}", 0));
  EXPECT_TRUE(SafetensorsFile::open(none).tensors().empty());
  const auto empty = write_file(dir / "empty.safetensors",
                                raw_safetensors(R"({"e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},)"
                                                R"("t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                                4));
  EXPECT_EQ(SafetensorsFile::open(empty).at("e").elements(), 0);
}

TEST(Safetensors, SaysWhichTensorsAreThereWhenOneIsNot) {
  const TempDir dir;
  const auto path = save(dir / "f.safetensors", {OwnTensor("x", {1}, {1}), OwnTensor("y_f64", {1}, {1})});
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.find("z"), nullptr);
  expect_throw([&] { file.at("z"); }, ErrorKind::not_found, path, "z", {"is not in the file", "it has x, y_f64"});
}

TEST(Safetensors, RefusesAFileThatIsNotThere) {
  const TempDir dir;
  expect_throw([&] { SafetensorsFile::open(dir / "no"); }, ErrorKind::not_found, dir / "no", "", {"no such file"});
  expect_throw([&] { SafetensorsFile::open(dir.path()); }, ErrorKind::io, dir.path(), "", {"is not a file"});
}

TEST(Safetensors, RefusesFilesTooShortForAHeaderLength) {
  const TempDir dir;
  const auto empty = write_file(dir / "empty", "");
  expect_throw([&] { SafetensorsFile::open(empty); }, kFormat, empty, "", {"is empty"});
  const auto three = write_file(dir / "three", "abc");
  expect_throw([&] { SafetensorsFile::open(three); }, kFormat, three, "",
               {"has 3 bytes", "8 bytes of header length"});
}

TEST(Safetensors, RefusesAHeaderLengthBeyondTheFile) {
  const TempDir dir;
  for (const int length : {3, 100}) {
    std::string bytes = raw_safetensors("{}", 0);
    bytes[0] = static_cast<char>(length);
    const auto file = write_file(dir / "f", bytes);
    expect_throw([&] { SafetensorsFile::open(file); }, kFormat, file, "",
                 {"claims a header of " + std::to_string(length) + " bytes", "only 2 follow", "cut off"});
  }
}

TEST(Safetensors, RefusesAnAbsurdHeaderLength) {
  const TempDir dir;
  const auto file = write_file(dir / "f", std::string(8, '\xff') + "{}");
  expect_throw([&] { SafetensorsFile::open(file); }, kFormat, file, "",
               {"claims a header of 18446744073709551615 bytes", "allows 100000000"});
}

TEST(Safetensors, NamesAGitLfsPointerForWhatItIs) {
  const TempDir dir;
  const auto file = write_file(dir / "f", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  expect_throw([&] { SafetensorsFile::open(file); }, kFormat, file, "", {"Git LFS pointer", "git lfs pull"});
}

TEST(Safetensors, RefusesAHeaderThatIsNoJsonObject) {
  expect_refused("{\"a\":}", 0, "", {"the header is not valid JSON at byte 5"});
  expect_refused("{} x", 0, "", {"not valid JSON at byte 3"});
  expect_refused("{", 0, "", {"not valid JSON at byte 1"});
  expect_refused("", 0, "", {"not valid JSON at byte 0"});
  expect_refused("[]", 0, "", {"not a JSON object"});
  expect_refused("{\"\xff\":1}", 0, "", {"not valid JSON"});
  expect_refused(std::string(5000, '['), 0, "", {"not valid JSON"});
}

TEST(Safetensors, RefusesATensorThatStandsTwice) {
  const std::string entry = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  expect_refused("{" + entry + "," + entry + "}", 0, "", {"the name 'a' twice"});
}

TEST(Safetensors, RefusesEntriesThatAreNotWhatTheFormatSays) {
  expect_refused(R"({"a":1})", 0, "a", {"not an object with dtype, shape and data_offsets"});
  expect_refused(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1, "a", {"no 'dtype'"});
  expect_refused(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "a", {"no 'shape'"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[1]}})", 1, "a", {"no 'data_offsets'"});
  expect_refused(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,1]}})", 1, "a", {"dtype is not a string"});
  expect_refused(R"({"a":{"dtype":"F9","shape":[1],"data_offsets":[0,1]}})", 1, "a", {"dtype 'F9'", "F8_E4M3"});
  expect_refused(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1, "a", {"shape is not an array"});
  expect_refused(R"({"__metadata__":3})", 0, "", {"__metadata__ is not an object"});
  expect_refused(R"({"__metadata__":{"k":3}})", 0, "", {"__metadata__ 'k' is 3, expected a string"});
}

TEST(Safetensors, RefusesNegativeFractionalAndOverflowingShapes) {
  expect_refused(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, "a", {"the dimension -1"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 1, "a", {"the dimension 1.5"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 1, "a",
                 {"the dimension 18446744073709551615"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "a",
                 {"[4294967296, 4294967296]", "overflows"});
  expect_refused(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, "a", {"12 bits"});
}

TEST(Safetensors, RefusesATruncatedFile) {
  const TempDir dir;
  const auto path = save(dir / "f.safetensors", {OwnTensor("weight", DType::e4m3fn, {64, 64})});
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 100);
  expect_throw([&] { SafetensorsFile::open(path); }, kFormat, path, "weight",
               {"data_offsets [0, 4096] reach beyond the file", "3996 bytes of tensor data", "cut off"});
}

TEST(Safetensors, RefusesOffsetsThatAreNotAPairInOrder) {
  for (const std::string offsets : {"[1]", "[0,1,2]", "7", "[2,1]", "[-1,0]", "[0,\"1\"]", "[0.0,1]"})
    expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":)" + offsets + "}}", 2, "a",
                   {"expected [begin, end] with 0 <= begin <= end"});
}

TEST(Safetensors, RefusesOffsetsThatDoNotFitShapeAndType) {
  expect_refused(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,15]}})", 15, "a",
                 {"[0, 15] are 15 bytes, but F32 [2, 2] needs 16"});
  expect_refused(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,17]}})", 17, "a",
                 {"[0, 17] are 17 bytes, but F32 [2, 2] needs 16"});
}

TEST(Safetensors, RefusesOverlapsHolesAndBytesAfterTheLastTensor) {
  expect_refused(
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
      7, "b", {"[3, 7] overlap those of 'a' [0, 4]"});
  expect_refused(
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})",
      9, "b", {"[5, 9] leave a hole", "ends at 4"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 6, "",
                 {"2 bytes after its last tensor"});
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const TempDir dir;
  const std::string good =
      read_file(save(dir / "f.safetensors",
                     {OwnTensor("a.weight", DType::e4m3fn, {3, 5}), OwnTensor("a.weight_scale_inv", {1, 1}, {1})},
                     {{"weight_block", "128"}}));
  for (std::size_t size = 0; size < good.size(); ++size) {
    const std::vector<char> exact(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    FileInfo file{"cut", {}};
    EXPECT_THROW(parse_safetensors({reinterpret_cast<const std::byte*>(exact.data()), size}, file), Error) << size;
  }
}

// --- Matrices that a command line names.

TEST(TensorRef, SplitsAtTheLastColonAndAtCommas) {
  const TensorRef one = parse_tensor_ref("dir/a:b.safetensors:y,z", 1);
  EXPECT_EQ(one.file, "dir/a:b.safetensors");
  EXPECT_EQ(one.tensors, std::vector<std::string>{"y,z"}) << "a comma belongs to a lone name";
  const TensorRef two = parse_tensor_ref("f:x_q,x_scale", 2);
  EXPECT_EQ(two.tensors, (std::vector<std::string>{"x_q", "x_scale"}));
}

TEST(TensorRef, RefusesOtherForms) {
  for (const std::string_view text : {"f", ":x", "", "f:"})
    expect_throw([&] { parse_tensor_ref(text, 1); }, ErrorKind::config, "", "",
                 {"'" + std::string(text) + "'", "expected FILE:TENSOR"});
  for (const std::string_view text : {"f:x", "f:x,", "f:x,y,z", "f:,x"})
    expect_throw([&] { parse_tensor_ref(text, 2); }, ErrorKind::config, "", "", {"expected FILE:VALUES,SCALES"});
}

TEST(Matrix, LoadsValuesOfEveryType) {
  const TempDir dir;
  const auto path =
      save(dir / "f", {OwnTensor("a", {2, 2}, {1, -2, 0.5f, 4}), OwnTensor("q", DType::e4m3fn, {1, 3}, 0x38),
                       OwnTensor("d", DType::f64, {1, 1})});
  const Matrix a = load_matrix(path, "a");
  EXPECT_EQ(a.rows, 2);
  EXPECT_EQ(a.cols, 2);
  EXPECT_EQ(a.to_f64(), (std::vector<double>{1, -2, 0.5, 4}));
  EXPECT_EQ(load_matrix(path, "q").to_f64(), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(load_matrix(path, "d").to_f64(), std::vector<double>{0});
}

TEST(Matrix, RefusesMissingTensorsOtherShapesAndOtherTypes) {
  const TempDir dir;
  const auto path = save(dir / "f", {OwnTensor("v", {2}, {1, 2}), OwnTensor("i", DType::s32, {1, 1})});
  expect_throw([&] { load_matrix(path, "x"); }, ErrorKind::not_found, path, "x", {"it has i, v"});
  expect_throw([&] { load_matrix(path, "v"); }, ErrorKind::shape, path, "v", {"is [2]", "two dimensions"});
  expect_throw([&] { load_matrix(path, "i"); }, ErrorKind::dtype, path, "i", {"is I32", "F8_E4M3"});
}

TEST(Scales, AreLoadedOnTheGridOfTheirOperand) {
  const TempDir dir;
  const auto path = save(dir / "f", {OwnTensor("s", {2, 3}, {1, 2, 3, 4, 5, 6}), OwnTensor("t", {2}, {1, 2}),
                                     OwnTensor("n", {2, 3}, {1, 2, 3, 4, NAN, 6})});
  const Matrix s = load_scales(path, "s", 2, 300, {1, 128});
  EXPECT_EQ(s.rows, 2);
  EXPECT_EQ(s.cols, 3);
  EXPECT_EQ(load_scales(path, "t", 2, 300, {1, 0}).cols, 1);
  expect_throw(
      [&] {
        load_scales(path, "s", 2, 300, {1, 64});
      },
      ErrorKind::shape, path, "s", {"is [2, 3], expected [2, 5]", "[2, 300]", "1x64"});
  expect_throw(
      [&] {
        load_scales(path, "n", 2, 300, {1, 128});
      },
      ErrorKind::value, path, "n", {"scale [1, 1] is nan"});
}

}  // namespace
}  // namespace ironcl::checkpoint
