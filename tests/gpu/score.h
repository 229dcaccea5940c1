// SPDX-License-Identifier: Apache-2.0
//
// What a program of tests counts: prints what was wrong when it is, and last "N passed, N failed".
#pragma once

#include <cstdio>
#include <string>

namespace peal::api_test {

class Score {
 public:
  void expect(bool good, const std::string& what) {
    if (!good) std::printf("FAILED %s\n", what.c_str());
    ++(good ? passed_ : failed_);
  }
  /// `wrong` is empty where nothing is.
  void add(const char* name, const std::string& wrong) {
    expect(wrong.empty(), std::string(name) + ": " + wrong);
  }
  /// The exit code.
  int finish() const {
    std::printf("%d passed, %d failed\n", passed_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  int passed_ = 0;
  int failed_ = 0;
};

}  // namespace peal::api_test
