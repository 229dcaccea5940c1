// SPDX-License-Identifier: Apache-2.0
//
// A folder for the files of a test, gone at its end.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace peal {

struct TemporaryFolder : ::testing::Test {
  TemporaryFolder() {
    std::string name = ::testing::TempDir() + "peal-base-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
  }
  ~TemporaryFolder() override { std::filesystem::remove_all(root); }
  void write(const char* file, const char* text) const {
    std::filesystem::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }
  std::filesystem::path root;
};

}  // namespace peal
