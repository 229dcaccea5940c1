// SPDX-License-Identifier: Apache-2.0
#include "base/search.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

namespace peal {
namespace {

namespace fs = std::filesystem;

struct Search : ::testing::Test {
  Search() {
    std::string name = ::testing::TempDir() + "peal-search-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
  }
  ~Search() override { fs::remove_all(root); }
  void make(const char* file) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << "";
  }
  fs::path root;
};

TEST_F(Search, TakesTheNearestAbove) {
  constexpr std::array kFiles = {"lib/x.so", "x.so"};
  make("lib/x.so");
  make("a/b/c/p");
  EXPECT_EQ(find_above(root / "a/b/c", 2, kFiles), "");
  EXPECT_EQ(find_above(root / "a/b/c", 3, kFiles), root / "lib/x.so");
  make("a/x.so");
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
