// SPDX-License-Identifier: Apache-2.0
// Device URIs: the grammar, what they name, and what is said where they name nothing.
#include <gmock/gmock.h>

#include "tests/registry/fakes.h"

namespace {

using ironcl::Registry;
using testing::HasSubstr;

class Uri : public testing::Test {
 protected:
  Uri() : registry_(fakes::with("fake", "devices", "cpu/10,gpu/20,gpu/30,model/40,accelerator/50")) {
    registry_.load_file(fakes::path("fake"));
    registry_.load_file(fakes::path("alpha"));
  }
  std::string find(const std::string& uri) const { return registry_.device(uri).uri(); }
  Registry registry_;
};

TEST_F(Uri, NamesADeviceByPluginNumberTypeOrTypeAndNumber) {
  EXPECT_EQ(find("fake"), "fake:0");
  EXPECT_EQ(find("fake:0"), "fake:0");
  EXPECT_EQ(find("fake:4"), "fake:4");
  EXPECT_EQ(find("fake:cpu"), "fake:0");
  EXPECT_EQ(find("fake:gpu"), "fake:1");
  EXPECT_EQ(find("fake:gpu:0"), "fake:1");
  EXPECT_EQ(find("fake:gpu:1"), "fake:2");
  EXPECT_EQ(find("fake:model"), "fake:3");
  EXPECT_EQ(find("fake:accelerator"), "fake:4");
  EXPECT_EQ(find("alpha"), "alpha:0");
  EXPECT_EQ(find("auto"), "fake:2") << "the GPU with more memory";
}

TEST_F(Uri, RoundTripsForEveryDevice) {
  for (const auto& device : registry_.devices()) EXPECT_EQ(find(device.uri()), device.uri());
}

TEST_F(Uri, IsRefusedWithTheGrammarWhereItIsMalformed) {
  for (const char* uri :
       {"", ":", "fake:", ":0", "Fake:0", "fake:-1", "fake:0x1", "fake:gpu:", "fake:gpu:x", "fake:0:1",
        "fake:gpu:0:1", "fake:tpu", "opencl://0", "auto:0", "fake:99999999999", "fake 0", "fake:0,fake:1"}) {
    const std::string text = fakes::error_of(IRONCL_INVALID_ARGUMENT, [&] { find(uri); });
    EXPECT_THAT(text, HasSubstr("PLUGIN:TYPE:INDEX")) << uri;
  }
}

TEST_F(Uri, ThatNamesNothingIsUnavailableAndTheMessageListsWhatThereIs) {
  for (const char* uri : {"opencl:0", "fake:5", "alpha:gpu", "fake:gpu:2", "nothing"}) {
    const std::string text = fakes::error_of(IRONCL_UNAVAILABLE, [&] { find(uri); });
    EXPECT_THAT(text, HasSubstr(uri));
    EXPECT_THAT(text, HasSubstr("there are fake:0, fake:1, fake:2, fake:3, fake:4, alpha:0"));
  }
}

TEST(UriOfNothing, SaysWhyThereIsNoDevice) {
  Registry registry(fakes::alone());
  EXPECT_THAT(fakes::error_of(IRONCL_UNAVAILABLE, [&] { registry.device("opencl:0"); }),
              HasSubstr("no plugin was found"));
  fakes::error_of(IRONCL_INCOMPATIBLE, [&] { registry.load_file(fakes::path("major")); });
  EXPECT_THAT(fakes::error_of(IRONCL_UNAVAILABLE, [&] { registry.device("opencl:0"); }),
              HasSubstr("libironcl_major.so: it has ABI 3.5"));
}

}  // namespace
