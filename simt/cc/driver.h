// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "simt/cc/options.h"

namespace peal::cc {

/// A variable that compilers find while peal-cc waits for them: one that leads back to peal-cc
/// would start it for ever.
extern const char* const kWithin;

/// Carries out a command line. Temporary files are gone when it is destroyed.
class CompilerDriver {
 public:
  /// Throws UsageError where this program does not lie in the bin of an installation.
  explicit CompilerDriver(CompilerOptions options);
  ~CompilerDriver();
  CompilerDriver(const CompilerDriver&) = delete;
  CompilerDriver& operator=(const CompilerDriver&) = delete;

  /// The exit code: the first of a compiler that is not 0. What the rewriter refuses is printed,
  /// and is 1.
  int run();

 private:
  using Command = std::vector<std::string>;

  int compile(const std::string& source, const std::string& output);
  int preprocess(const std::string& source, const std::string& object);
  int rewrite();
  int link(const Command& objects);
  int execute(const Command& command) const;
  std::string output_of(const std::string& source, const char* suffix) const;
  Command with_headers(Command command) const;

  CompilerOptions options_;
  std::filesystem::path prefix_;
  std::filesystem::path scratch_;
};

}  // namespace peal::cc
