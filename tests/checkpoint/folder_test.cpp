// SPDX-License-Identifier: Apache-2.0
// Which files make a checkpoint: single files, shards, indices, and what can be wrong with them.
#include "host/checkpoint/folder.h"

#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

namespace fs = std::filesystem;

fs::path index(const TempDir& dir, const std::string& weight_map) {
  return write_file(dir / "model.safetensors.index.json", R"({"metadata":{},"weight_map":)" + weight_map + "}");
}

OwnTensor one(const std::string& name) { return OwnTensor(name, {1}, {1.f}); }

TEST(Folder, OpensALoneFileOfAnyName) {
  const TempDir dir;
  save(dir / "anything.safetensors", {one("a")});
  write_file(dir / "README.md", "text");
  const Folder folder = open_folder(dir.path());
  ASSERT_EQ(folder.files.size(), 1u);
  EXPECT_EQ(folder.files[0].path(), dir / "anything.safetensors");
  EXPECT_TRUE(folder.config.empty());
  EXPECT_EQ(open_folder(dir / "anything.safetensors").tensors.size(), 1u);
}

TEST(Folder, PrefersModelSafetensorsToOtherFiles) {
  const TempDir dir;
  save(dir / "model.safetensors", {one("a")});
  save(dir / "adapter.safetensors", {one("b")});
  write_file(dir / "config.json", "{}");
  const Folder folder = open_folder(dir.path());
  EXPECT_EQ(folder.tensors.count("a"), 1u);
  EXPECT_EQ(folder.tensors.count("b"), 0u);
  EXPECT_EQ(folder.config, dir / "config.json");
}

TEST(Folder, OpensTheShardsOfAnIndex) {
  const TempDir dir;
  save(dir / "s1.safetensors", {one("a")});
  save(dir / "s2.safetensors", {one("b"), one("not-in-the-index")});
  index(dir, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  const Folder folder = open_folder(dir.path());
  ASSERT_EQ(folder.files.size(), 2u);
  EXPECT_EQ(folder.tensors.at("b")->file(), dir / "s2.safetensors");
  EXPECT_EQ(folder.tensors.size(), 3u);
}

TEST(Folder, RefusesAMissingShardByName) {
  const TempDir dir;
  save(dir / "s1.safetensors", {one("a")});
  index(dir, R"({"a":"s1.safetensors","b":"s2.safetensors","c":"s3.safetensors"})");
  expect_throw([&] { open_folder(dir.path()); }, ErrorKind::not_found, dir / "s2.safetensors", "",
               {"2 of the 3 shards", "model.safetensors.index.json", "s2.safetensors, s3.safetensors", "fetch"});
}

/// The rest of the model would be missing without a word.
TEST(Folder, RefusesOneShardOfSeveralWithoutTheirIndex) {
  const TempDir dir;
  const auto shard = save(dir / "model-00001-of-00002.safetensors", {OwnTensor("a", DType::f32, {1})});
  expect_throw([&] { open_folder(dir.path()); }, ErrorKind::not_found, dir / "model.safetensors.index.json", "",
               {"is not there", "model-00001-of-00002.safetensors is one of 2 shards", "fetch the checkpoint again"});
  EXPECT_EQ(open_folder(shard).tensors.size(), 1u) << "named by itself it is what somebody wants";
  const TempDir whole;
  save(whole / "model-00001-of-00001.safetensors", {OwnTensor("a", DType::f32, {1})});
  EXPECT_EQ(open_folder(whole.path()).tensors.size(), 1u);
}

TEST(Folder, RefusesAnIndexThatNamesATensorItsShardLacks) {
  const TempDir dir;
  save(dir / "s1.safetensors", {one("a")});
  save(dir / "s2.safetensors", {one("b")});
  index(dir, R"({"a":"s1.safetensors","b":"s2.safetensors","gone":"s2.safetensors"})");
  expect_throw([&] { open_folder(dir.path()); }, ErrorKind::format, dir / "s2.safetensors", "gone",
               {"is not in this shard", "fetch the checkpoint again"});
  index(dir, R"({"a":"s2.safetensors","b":"s2.safetensors","c":"s1.safetensors"})");
  expect_throw([&] { open_folder(dir.path()); }, ErrorKind::format, dir / "s2.safetensors", "a",
               {"is not in this shard", "but in s1.safetensors"});
}

TEST(Folder, RefusesATensorInTwoShards) {
  const TempDir dir;
  save(dir / "s1.safetensors", {one("a")});
  save(dir / "s2.safetensors", {one("a"), one("b")});
  index(dir, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  expect_throw([&] { open_folder(dir.path()); }, ErrorKind::format, dir / "s2.safetensors", "a",
               {"is also in s1.safetensors"});
}

TEST(Folder, RefusesAnIndexThatLeavesTheFolder) {
  const TempDir dir;
  for (const std::string name : {"../secret.safetensors", "/etc/passwd", "..", "", "a\\\\b"}) {
    const auto file = index(dir, R"({"a":")" + name + R"("})");
    expect_throw([&] { open_folder(dir.path()); }, ErrorKind::format, file, "a", {"plain name of a file"});
  }
}

TEST(Folder, RefusesAMalformedIndex) {
  const TempDir dir;
  const auto file = write_file(dir / "model.safetensors.index.json", "{");
  expect_throw([&] { open_folder(dir.path()); }, ErrorKind::format, file, "", {"not valid JSON"});
  write_file(file, R"({"weight_map":[]})");
  expect_throw([&] { open_folder(dir.path()); }, ErrorKind::format, file, "", {"no object 'weight_map'"});
  write_file(file, R"({"weight_map":{}})");
  save(dir / "model-00001-of-00001.safetensors", {OwnTensor("a.weight", DType::e4m3fn, {2, 2})});
  expect_throw([&] { open_folder(dir.path()); }, ErrorKind::format, file, "", {"names no tensor"});
  write_file(file, R"({"weight_map":{"a":1}})");
  expect_throw([&] { open_folder(dir.path()); }, ErrorKind::format, file, "a", {"expected a file name"});
}

TEST(Folder, RecognisesFilesOfOtherFormats) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"m.gguf", "GGUF\3\0\0\0 and more"}, {"m.pt", "PK\3\4 and more"}, {"m.bin", "\x80\2 and more"}};
  const std::vector<std::string> said = {"is a GGUF file", "is a zip archive, as torch.save writes", "is a pickle"};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const TempDir dir;
    const auto file = write_file(dir / files[i].first, files[i].second);
    expect_throw([&] { open_folder(dir.path()); }, ErrorKind::unsupported, file, "", {said[i], "not read"});
    expect_throw([&] { open_folder(file); }, ErrorKind::unsupported, file, "", {said[i], "safetensors"});
  }
}

/// The length of their header begins with the bytes of a pickle.
TEST(Folder, HeadersOfThreeLengthsAreNoPickles) {
  for (const std::uint64_t length : {640, 896, 1152}) {
    const TempDir dir;
    std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", bytes(8, '\0');
    header.resize(length, ' ');
    std::memcpy(bytes.data(), &length, sizeof length);
    write_file(dir / "model.safetensors", bytes + header + "1234");
    EXPECT_NO_THROW(open_folder(dir.path())) << length;
  }
}

TEST(Folder, SaysWhatItExpectsWhereThereIsNoCheckpoint) {
  const TempDir dir;
  expect_throw([&] { open_folder(dir / "no"); }, ErrorKind::not_found, dir / "no", "", {"no such file or folder"});
  expect_throw([&] { open_folder(dir.path()); }, ErrorKind::not_found, dir.path(), "", {"has no *.safetensors"});
  save(dir / "a.safetensors", {one("a")});
  save(dir / "b.safetensors", {one("b")});
  expect_throw([&] { open_folder(dir.path()); }, ErrorKind::config, dir.path(), "",
               {"2 safetensors files (a.safetensors, b.safetensors)", "name one"});
  const auto json = write_file(dir / "config.json", "{}");
  expect_throw([&] { open_folder(json); }, ErrorKind::config, json, "", {"is JSON", "name the folder"});
}

}  // namespace
}  // namespace ironcl::checkpoint
