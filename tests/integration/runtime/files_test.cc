// SPDX-License-Identifier: Apache-2.0
//
// Files into and out of a heap in a GPU's memory, which is a stand-in. Hazard: the host loads from
// an address that only the GPU may.
#include <filesystem>
#include <fstream>
#include <string>

#include "bootstrap/bootstraps.h"
#include "host/memory/backing_cuda.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_cufile.h"
#include "tests/support/gpu_job.h"

namespace peal {
namespace {

constexpr size_t kBytes = 100'000;

class FilesOnGpu : public RuntimeOnGpu {};

TEST_F(FilesOnGpu, GoByPinnedBuffersAndComeBack) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "peal-files-on-gpu";
  std::filesystem::create_directories(folder);
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group);
    auto* const data = static_cast<char*>(pe.malloc(kBytes));
    const std::string mine(kBytes, static_cast<char>('a' + pe.my_pe()));
    const std::string other(kBytes, 'x');
    std::string got = other;
    const std::string path = folder / std::to_string(pe.my_pe());

    pe.copy_in(data, mine.data(), kBytes);
    pe.save(path, data, kBytes);
    EXPECT_EQ(std::filesystem::file_size(path), kBytes);
    pe.save_checkpoint(folder / "step", data, kBytes);
    pe.copy_in(data, other.data(), kBytes);
    pe.load(path, 0, data, kBytes);
    pe.copy_out(got.data(), data, kBytes);
    EXPECT_EQ(got, mine);
    pe.copy_in(data, other.data(), kBytes);
    pe.load_checkpoint(folder / "step", data, kBytes);
    pe.copy_out(got.data(), data, kBytes);
    EXPECT_EQ(got, mine);
    const std::string told = pe.describe_storage();
    EXPECT_NE(told.find("POSIX: 4 threads"), std::string::npos) << told;
    EXPECT_NE(told.find("cuFile: "), std::string::npos) << told;
    pe.free(data);
    pe.barrier();
  });
  std::filesystem::remove_all(folder);
}

/// What the calls of one PE do, in memory of the fake; a stream of its own stands for all.
class FilesOnGpuStreams : public FilesOnGpu {
 protected:
  FilesOnGpuStreams() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    config_.cufile = fake_cufile_path();
    config_.storage_threads = 2;
    cufile_.buffers = cufile_.live = 0;
  }
  ~FilesOnGpuStreams() override {
    EXPECT_EQ(cufile_.live, 0);
    std::filesystem::remove_all(folder_);
  }
  FakeCuFile& cufile_ = load_fake_cufile();
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / "peal-files-on-gpu-streams";
};

// libcufile calls CUDA, which a thread that a stream waits for must not.
TEST_F(FilesOnGpuStreams, GoInOrderByCopiesOfTheStream) {
  bootstrap::run_threads(1, [&](Bootstrap& group) {
    Runtime pe = start(group);
    auto* const data = static_cast<char*>(pe.malloc(kBytes));
    const std::string mine(kBytes, 'a');
    pe.copy_in(data, mine.data(), kBytes);
    const std::string path = folder_ / "file";
    const TicketCalls calls = pe.host_nbi();
    fake_.waits = fake_.beside_waits = 0;
    calls.save(path, data, kBytes).wait();
    calls.load(path, kBytes / 2, data, 10).wait();
    EXPECT_GE(fake_.waits, 2);
    EXPECT_EQ(fake_.beside_waits, 0);
    EXPECT_EQ(std::filesystem::file_size(path), kBytes);
    const std::string told = pe.describe_storage();
    EXPECT_NE(told.find("file: on a stream, "), std::string::npos) << told;
    EXPECT_NE(told.find("POSIX: 2 threads"), std::string::npos) << told;
    calls.load(folder_ / "none", 0, data, 10);
    expect_error(error_of([&] { calls.load(path, 0, data, 10).wait(); }), ErrorCode::kSystem,
                 {"none on a stream", "No such file"});
    pe.recover();
    pe.free(data);
  });
}

/// More pieces than buffers, whose first is cut to a block of the file.
TEST_F(FilesOnGpuStreams, GoByManyPieces) {
  constexpr size_t kMany = (size_t{22} << 20) + 12345;
  constexpr size_t kOffset = 777;
  bootstrap::run_threads(1, [&](Bootstrap& group) {
    Runtime pe = start(group);
    auto* const data = static_cast<char*>(pe.malloc(kMany));
    std::string mine(kMany, '\0');
    for (size_t i = 0; i < kMany; ++i) mine[i] = static_cast<char>(i * 7 + i / 4096);
    pe.copy_in(data, mine.data(), kMany);
    const std::string path = folder_ / "file";
    const TicketCalls calls = pe.host_nbi();
    fake_.beside_waits = 0;
    calls.save(path, data, kMany).wait();
    calls.load(path, kOffset, data, kMany - kOffset).wait();
    EXPECT_EQ(fake_.beside_waits, 0);
    std::string got(kMany, 'x');
    pe.copy_out(got.data(), data, kMany);
    EXPECT_TRUE(got == mine.substr(kOffset) + mine.substr(kMany - kOffset));
    pe.free(data);
  });
}

TEST_F(FilesOnGpuStreams, AreRefusedWhileTheStreamCapturesOrCannotWait) {
  bootstrap::run_threads(1, [&](Bootstrap& group) {
    Runtime pe = start(group);
    auto* const data = static_cast<char*>(pe.malloc(kBytes));
    const std::string path = folder_ / "file";
    const TicketCalls calls = pe.host_nbi();
    fake_.capturing = true;
    expect_error(error_of([&] { calls.save(path, data, 10); }), ErrorCode::kUnsupported,
                 {"save on a stream", "graph"});
    fake_.capturing = false;
    fake_.refuse["cuStreamWaitValue64"] = 801;
    expect_error(error_of([&] { calls.save(path, data, 10); }), ErrorCode::kUnsupported,
                 {"cuStreamWaitValue64"});
    fake_.refuse.clear();
    EXPECT_FALSE(std::filesystem::exists(path));
    pe.free(data);
  });
}

// A library that keeps memory which was given back would write into what is there now.
TEST_F(FilesOnGpuStreams, RegisterAWindowOnceUntilItEnds) {
  bootstrap::run_threads(1, [&](Bootstrap& group) {
    Runtime pe = start(group);
    const Backing memory = make_cuda_backing(Gpu::open(0, 0), kBytes, "window");
    const std::string path = folder_ / "file";
    for (int round = 1; round <= 2; ++round) {
      pe.register_window(memory.address(), kBytes);
      for (int times = 0; times < 3; ++times) {
        pe.save(path, memory.address() + times, 100);
        pe.load(path, 0, memory.address() + times, 100);
      }
      EXPECT_EQ(cufile_.buffers, round);
      EXPECT_EQ(cufile_.live, 1);
      pe.unregister_window(memory.address());
      EXPECT_EQ(cufile_.live, 0);
    }
  });
}

}  // namespace
}  // namespace peal
