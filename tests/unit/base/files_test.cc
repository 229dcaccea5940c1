// SPDX-License-Identifier: Apache-2.0
//
// Small files and folders.
#include "base/files.h"

#include <gtest/gtest.h>

#include "tests/unit/base/temporary_folder.h"

namespace peal {
namespace {

using Files = TemporaryFolder;

TEST_F(Files, WhatCannotBeReadIsEmpty) {
  EXPECT_EQ(text_of(root / "absent"), "");
  EXPECT_EQ(text_of(root), "");
  EXPECT_TRUE(names_in(root / "absent").empty());
}

TEST_F(Files, AreReadWholeOrTrimmed) {
  write("b/rate", " 400 Gb/sec (4X NDR) \n");
  write("b/empty", "");
  EXPECT_EQ(bytes_of(root / "b/rate"), " 400 Gb/sec (4X NDR) \n");
  EXPECT_EQ(text_of(root / "b/rate"), "400 Gb/sec (4X NDR)");
  EXPECT_EQ(text_of(root / "b/empty"), "");
  EXPECT_EQ(names_in(root / "b"), (std::vector<std::string>{"empty", "rate"}));
}

TEST_F(Files, AreWrittenWholeOrNotAtAll) {
  write("b/long", std::string(100'000, 'x').c_str());
  EXPECT_TRUE(write_file(root / "b/long", "short"));
  EXPECT_EQ(bytes_of(root / "b/long"), "short");
  errno = 0;
  EXPECT_FALSE(write_file(root / "absent/file", "text"));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(write_file("/dev/full", "text"));
  EXPECT_EQ(errno, ENOSPC);
}

}  // namespace
}  // namespace peal
