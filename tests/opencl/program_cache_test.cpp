// SPDX-License-Identifier: Apache-2.0
// The program cache: cold, warm, damaged, foreign, shared by processes.
#include "backends/opencl/program_cache.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backends/opencl/device.h"
#include "backends/opencl/toolchain.h"
#include "tests/opencl/harness.h"
#include "tests/temp_dir.h"

namespace ironcl::opencl::testing {
namespace {

namespace fs = std::filesystem;

class ProgramCacheTest : public ::testing::Test {
 protected:
  int entries(const std::string& ending) const {
    int count = 0;
    if (fs::exists(dir_)) {
      for (const auto& entry : fs::directory_iterator(dir_)) count += entry.path().extension() == ending ? 1 : 0;
    }
    return count;
  }
  const TempDir temp_;
  const fs::path dir_ = temp_ / "cache";  ///< Not there yet.
};

std::vector<unsigned char> some_bytes(std::size_t count, unsigned seed) {
  std::vector<unsigned char> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(i * 31 + seed);
  return bytes;
}

TEST_F(ProgramCacheTest, GivesBackWhatWasStored) {
  const ProgramCache cache(dir_.string());
  const std::string key = ProgramCache::key_of("source and options");
  EXPECT_EQ(key.size(), 32u);
  EXPECT_FALSE(cache.load(key).has_value());
  EXPECT_TRUE(cache.store(key, some_bytes(5000, 1), nullptr));
  EXPECT_EQ(cache.load(key), some_bytes(5000, 1));
  EXPECT_FALSE(cache.load(ProgramCache::key_of("other options")).has_value());
  EXPECT_EQ(entries(".tmp"), 0);
}

TEST_F(ProgramCacheTest, IsForItsUserAlone) {
  const ProgramCache cache(dir_.string());
  const std::string key = ProgramCache::key_of("x");
  ASSERT_TRUE(cache.store(key, some_bytes(100, 3), nullptr));
  EXPECT_EQ(fs::status(dir_).permissions(), fs::perms::owner_all) << "the folder is made for the user";
  EXPECT_TRUE(cache.load(key).has_value());
  for (const fs::perms others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(cache.path_of(key), others, fs::perm_options::add);
    EXPECT_FALSE(cache.load(key).has_value()) << "an entry that others may write was taken";
    fs::permissions(cache.path_of(key), others, fs::perm_options::remove);
  }
  EXPECT_TRUE(cache.load(key).has_value());
}

TEST_F(ProgramCacheTest, TakesADamagedEntryForAbsent) {
  const ProgramCache cache(dir_.string());
  const std::string key = ProgramCache::key_of("x"), other = ProgramCache::key_of("y");
  const auto damage = [&](auto&& how) {
    ASSERT_TRUE(cache.store(key, some_bytes(1000, 2), nullptr));
    how(cache.path_of(key));
    EXPECT_FALSE(cache.load(key).has_value());
  };
  damage([](const std::string& path) { fs::resize_file(path, 500); });
  damage([](const std::string& path) { fs::resize_file(path, 10); });
  damage([](const std::string& path) { fs::resize_file(path, 0); });
  damage([](const std::string& path) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(700);
    file.put('!');
  });
  ASSERT_TRUE(cache.store(key, some_bytes(1000, 2), nullptr));
  fs::copy_file(cache.path_of(key), cache.path_of(other));
  EXPECT_FALSE(cache.load(other).has_value()) << "an entry under another key's name";
}

TEST_F(ProgramCacheTest, SaysWhyItCannotWrite) {
  std::ofstream(dir_) << "a file where the folder should be";
  std::string why;
  EXPECT_FALSE(ProgramCache(dir_.string()).store(ProgramCache::key_of("x"), some_bytes(10, 3), &why));
  EXPECT_NE(why.find(dir_.string()), std::string::npos) << why;
}

TEST_F(ProgramCacheTest, IsWholeWhileProcessesWriteTheSameEntry) {
  const ProgramCache cache(dir_.string());
  const std::string key = ProgramCache::key_of("contended");
  std::vector<pid_t> children;
  for (unsigned child = 0; child < 2; ++child) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      bool good = true;
      for (int i = 0; i < 200; ++i) good = cache.store(key, some_bytes(20000, child), nullptr) && good;
      _exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  int whole = 0;
  for (int i = 0; i < 200; ++i) {
    const auto entry = cache.load(key);
    if (!entry) continue;
    ++whole;
    EXPECT_TRUE(*entry == some_bytes(20000, 0) || *entry == some_bytes(20000, 1));
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(cache.load(key).has_value()) << whole << " whole reads before";
  EXPECT_EQ(entries(".tmp"), 0);
}

TEST_F(ProgramCacheTest, AnEntryThatIsWrittenAgainIsAnotherFile) {
  const ProgramCache cache(dir_.string());
  const std::string key = ProgramCache::key_of("x");
  const auto rest_of = [](std::ifstream& file) {
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  };
  ASSERT_TRUE(cache.store(key, some_bytes(30000, 1), nullptr));
  std::ifstream once(cache.path_of(key), std::ios::binary);
  const std::string before = rest_of(once);
  std::ifstream reader(cache.path_of(key), std::ios::binary);  // Opened before, read after.
  ASSERT_TRUE(cache.store(key, some_bytes(20000, 2), nullptr));
  EXPECT_TRUE(rest_of(reader) == before) << "the entry was written in place, under the eyes of a reader";
  EXPECT_EQ(cache.load(key), some_bytes(20000, 2));
}

TEST_F(ProgramCacheTest, ProcessesTakeTurnsAtAKey) {
  const std::string key = ProgramCache::key_of("x"), other = ProgramCache::key_of("y");
  int up[2], down[2];
  ASSERT_EQ(pipe(up), 0);
  ASSERT_EQ(pipe(down), 0);
  char byte = 0;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Turn turn(dir_.string(), key);
    const bool said = write(up[1], "!", 1) == 1 && read(down[0], &byte, 1) == 1;
    _exit(said ? 0 : 1);
  }
  ASSERT_EQ(read(up[0], &byte, 1), 1);
  { const Turn free(dir_.string(), other); }
  std::atomic<bool> taken{false};
  std::thread waits([&] {
    const Turn turn(dir_.string(), key);
    taken = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(taken) << "two processes have the turn of one key";
  ASSERT_EQ(write(down[1], "!", 1), 1);
  waits.join();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  for (const int end : {up[0], up[1], down[0], down[1]}) close(end);
}

TEST_F(ProgramCacheTest, AChildForkedInATurnDoesNotKeepIt) {
  int down[2];
  ASSERT_EQ(pipe(down), 0);
  pid_t child = -1;
  {
    const Turn turn(dir_.string(), ProgramCache::key_of("x"));
    child = fork();  // As a host may, while another of its threads makes a plan.
    if (child == 0) {
      close(down[1]);
      char byte = 0;
      _exit(read(down[0], &byte, 1) == 0 ? 0 : 1);
    }
  }
  const int file = open((dir_ / "turns").c_str(), O_RDWR | O_CLOEXEC);
  struct flock any {};
  any.l_type = F_WRLCK;
  any.l_whence = SEEK_SET;
  EXPECT_EQ(fcntl(file, F_OFD_GETLK, &any), 0);
  EXPECT_EQ(any.l_type, F_UNLCK) << "the turn has ended, and nobody else gets one while the child lives";
  close(file);
  close(down[0]);
  close(down[1]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(ProgramCacheTest, AKeyTellsProgramsOfOneDriverFromThoseOfTheNext) {
  const DriverIdentity driver{"device", "vendor", "OpenCL 3.0", "570.1", "platform", "OpenCL 3.0 one"};
  const std::string key = program_key(driver, "opencl-c", " -D X=1", "kernel");
  EXPECT_EQ(key, program_key(driver, "opencl-c", " -D X=1", "kernel"));
  for (std::string DriverIdentity::*part :
       {&DriverIdentity::device, &DriverIdentity::vendor, &DriverIdentity::device_version,
        &DriverIdentity::driver_version, &DriverIdentity::platform, &DriverIdentity::platform_version}) {
    DriverIdentity other = driver;
    other.*part += "2";
    EXPECT_NE(key, program_key(other, "opencl-c", " -D X=1", "kernel")) << driver.*part;
  }
  EXPECT_NE(key, program_key(driver, "opencl-c", " -D X=2", "kernel"));
  EXPECT_NE(key, program_key(driver, "opencl-c", " -D X=1", "Kernel"));
  EXPECT_NE(key, program_key(driver, "opencl-c", " -D X=1k", "ernel"))
      << "the end of one part is not the start of the next";
  EXPECT_NE(key, program_key(driver, "two-step", " -D X=1", "kernel"));
  // And what a builder takes for its driver is what the driver says.
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  for (const auto& device : devices()) {
    const cl::Device& native = dynamic_cast<Device&>(*device).context()->device;
    const DriverIdentity said = DriverIdentity::of(native);
    EXPECT_EQ(said.driver_version, native.getInfo<CL_DRIVER_VERSION>());
    EXPECT_EQ(said.device_version, native.getInfo<CL_DEVICE_VERSION>());
    EXPECT_EQ(said.device, native.getInfo<CL_DEVICE_NAME>());
    EXPECT_EQ(said.vendor, native.getInfo<CL_DEVICE_VENDOR>());
    const cl::Platform platform(native.getInfo<CL_DEVICE_PLATFORM>());
    EXPECT_EQ(said.platform, platform.getInfo<CL_PLATFORM_NAME>());
    EXPECT_EQ(said.platform_version, platform.getInfo<CL_PLATFORM_VERSION>());
  }
}

TEST_F(ProgramCacheTest, SavesBuildsAndSurvivesCorruption) {
  Config config{.cache_dir = dir_.string()};
  Case c{3, 64, 128};
  const Data data = make_data(c);
  const auto once = [&](std::size_t index) {
    auto made = make(config);  // A fresh backend: nothing in memory.
    if (made.devices.size() <= index) return ProgramBuilder::Counts{};
    expect_right(run(*made.devices[index], c, data), c, made.devices[index]->props().name);
    return dynamic_cast<Device&>(*made.devices[index]).context()->builder->counts();
  };
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  for (std::size_t index = 0; index < devices().size(); ++index) {
    fs::remove_all(dir_);
    const auto cold = once(index);
    EXPECT_GT(cold.from_source, 0);
    // A trial has a builder of its own, and may have stored a program that the plan asks for next.
    const Features& features = dynamic_cast<Device&>(*devices()[index]).context()->features;
    if (!features.ptx_sm_90 && !features.amx_why_not.empty() && !features.dot_products_why_not.empty()) {
      EXPECT_EQ(cold.from_disk, 0);
    }
    const int programs = cold.from_source + cold.from_disk;
    const auto warm = once(index);
    EXPECT_EQ(warm.from_disk, programs);
    EXPECT_EQ(warm.from_source, 0);
    // Cut in the header; whole by its own hash but nothing that the driver knows.
    const ProgramCache cache(dir_.string());
    bool cut = true;
    for (const auto& entry : fs::directory_iterator(dir_)) {
      if (cut) {
        fs::resize_file(entry.path(), 30);
      } else {
        cache.store(entry.path().stem().string(), some_bytes(300, 9), nullptr);
      }
      cut = !cut;
    }
    const auto damaged = once(index);
    EXPECT_EQ(damaged.from_source, cold.from_source);
    EXPECT_EQ(once(index).from_disk, programs);
  }
}

/// The binary that a two-step toolchain was handed last.
std::string& seen_binary() {
  static std::string binary;
  return binary;
}

/// An application may have one context for all of its devices: then a program has a place for each one's binary, and
/// only that of the device that it was built for is filled.
TEST_F(ProgramCacheTest, OfAContextOfSeveralDevicesKeepsTheBinaryOfItsOwn) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  bool any = false;
  for (const auto& device : devices()) {
    const cl::Device& whole = dynamic_cast<Device&>(*device).context()->device;
    std::vector<cl::Device> halves;
    try {
      cl::Device(whole).createSubDevices(
          std::array<cl_device_partition_property, 3>{CL_DEVICE_PARTITION_EQUALLY, 1, 0}.data(), &halves);
    } catch (const cl::Error&) {  // Not every device can be divided.
    }
    if (halves.size() < 2) continue;
    any = true;
    fs::remove_all(dir_);
    Config config{.cache_dir = dir_.string()};
    const cl::Context both(std::vector<cl::Device>{halves[0], halves[1]});
    const std::string source = "__kernel void seven(__global int* to) { to[0] = 7; }";
    for (const cl::Device& half : {halves[1], halves[0]}) {
      for (const bool warm : {false, true}) {
        if (!warm) fs::remove_all(dir_);
        ProgramBuilder builder(config, nullptr, both, half);
        cl::Kernel kernel(builder.build_text("seven", source, {}), "seven");
        EXPECT_EQ(builder.counts().from_disk, warm ? 1 : 0) << "the binary was not kept";
        const cl::Buffer to(both, CL_MEM_READ_WRITE, sizeof(int));
        kernel.setArg(0, to);
        const cl::CommandQueue queue(both, half);
        queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(1), cl::NDRange(1));
        int got = 0;
        queue.enqueueReadBuffer(to, CL_TRUE, 0, sizeof got, &got);
        EXPECT_EQ(got, 7);
      }
      static const Toolchain toolchain{"seen-1", true, "",
                                       [](const std::string& binary) { return seen_binary() = binary; }};
      seen_binary().clear();
      ProgramBuilder builder({}, nullptr, both, half);
      EXPECT_NO_THROW(builder.build_text("seven", source, {}, "", toolchain));
      EXPECT_FALSE(seen_binary().empty());
    }
  }
  if (!any) GTEST_SKIP() << "no device can be divided";
}

TEST_F(ProgramCacheTest, MemoryHoldsTheProgramsThatWereAskedForLast) {
  for (const auto& device : devices()) {
    const ContextPtr& context = dynamic_cast<Device&>(*device).context();
    ProgramBuilder builder({}, nullptr, context->context, context->device, 2);
    const auto build = [&](int which) {
      (void)builder.build_text("kept", "__kernel void kept(__global int* x) { x[0] = WHICH; }",
                               {{"WHICH", std::to_string(which)}});
      return builder.counts().from_source;
    };
    build(1);
    build(2);
    EXPECT_EQ(build(1), 2) << "there is room for two";
    EXPECT_EQ(build(3), 3);
    EXPECT_EQ(build(1), 3) << "asked for after the second";
    EXPECT_EQ(build(2), 4) << "a program that nobody asked for is kept for ever";
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
