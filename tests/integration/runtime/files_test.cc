// SPDX-License-Identifier: Apache-2.0
//
// Files into and out of a heap in a GPU's memory, which is a stand-in. Hazard: the host loads from
// an address that only the GPU may.
#include <filesystem>
#include <fstream>
#include <string>

#include "bootstrap/bootstraps.h"
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

}  // namespace
}  // namespace peal
