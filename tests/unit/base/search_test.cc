// SPDX-License-Identifier: Apache-2.0
#include "base/search.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "tests/unit/base/temporary_folder.h"

namespace peal {
namespace {

namespace fs = std::filesystem;

using Search = TemporaryFolder;

TEST_F(Search, TakesTheNearestAbove) {
  constexpr std::array kFiles = {"lib/x.so", "x.so"};
  write("lib/x.so", "");
  write("a/b/c/p", "");
  EXPECT_EQ(find_above(root / "a/b/c", 2, kFiles), "");
  EXPECT_EQ(find_above(root / "a/b/c", 3, kFiles), root / "lib/x.so");
  write("a/x.so", "");
  EXPECT_EQ(find_above(root / "a/b/c", 3, kFiles), root / "a/x.so");
  EXPECT_EQ(find_above("/", 9, kFiles), "");
}

TEST_F(Search, NamesTheFileThatCodeWasLoadedFrom) {
  const fs::path file = file_loaded_at(reinterpret_cast<const void*>(&std::getenv));
  EXPECT_TRUE(file.is_absolute()) << file;
  EXPECT_TRUE(file.filename().string().starts_with("libc")) << file;
  static const char here = 0;
  EXPECT_TRUE(fs::equivalent(file_loaded_at(&here), "/proc/self/exe"));
  EXPECT_EQ(file_loaded_at(nullptr), "");
}

}  // namespace
}  // namespace peal
