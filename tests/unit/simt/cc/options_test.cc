// SPDX-License-Identifier: Apache-2.0
#include "simt/cc/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace peal::cc {
namespace {

using Words = std::vector<std::string>;

class Line : public testing::Test {
 protected:
  void SetUp() override { ::unsetenv("CXX"); }
};

TEST_F(Line, SourcesAndObjects) {
  const CompilerOptions options =
      read_options({"a.cu", "b.cc", "c.o", "-x", "cu", "d.cpp", "-x", "none"});
  EXPECT_EQ(options.cuda, (Words{"a.cu", "d.cpp"}));
  EXPECT_EQ(options.others, (Words{"b.cc", "c.o"}));
  EXPECT_EQ(options.compile, (Words{"-std=c++20", "-O2"}));
  EXPECT_EQ(options.until, CompilerOptions::Until::kProgram);
  EXPECT_EQ(options.compiler, "g++");
}

TEST_F(Line, OptionsOfGccAreHandedOn) {
  const CompilerOptions options =
      read_options({"-c", "a.cu", "-oa.o", "-std=c++17", "-O1", "-I", "x", "-DY=1", "-MD", "-MF",
                    "a.d", "-fsanitize=address", "-lm", "-L", "lib", "-Wl,-z,now"});
  EXPECT_EQ(options.until, CompilerOptions::Until::kObject);
  EXPECT_EQ(options.output, "a.o");
  EXPECT_EQ(options.compile,
            (Words{"-std=c++17", "-O1", "-I", "x", "-DY=1", "-fsanitize=address"}));
  EXPECT_EQ(options.depend, (Words{"-MD", "-MF", "a.d"}));
  EXPECT_EQ(options.linked, (Words{"", "-lm", "-L", "lib", "-Wl,-z,now"}));
}

TEST_F(Line, OfAToolkitOnlyItsLibrariesOfCppAreRead) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "toolkit";
  fs::remove_all(folder);
  fs::create_directories(folder / "crt");
  std::ofstream(folder / "crt/host_config.h") << "\n";
  CompilerOptions options = read_options({"a.cu", "-I" + folder.string()});
  EXPECT_EQ(options.compile, (Words{"-std=c++20", "-O2"}));
  EXPECT_FALSE(options.cccl);

  fs::create_directories(folder / "cccl/cuda/std");
  std::ofstream(folder / "cccl/cuda/std/version") << "\n";
  const std::string libraries = (folder / "cccl").string();
  options = read_options({"a.cu", "-I", folder.string()});
  EXPECT_EQ(options.compile, (Words{"-I" + libraries, "-std=c++20", "-O2"}));
  EXPECT_TRUE(options.cccl);
  options = read_options({"a.cu", "-I", libraries});
  EXPECT_EQ(options.compile, (Words{"-I", libraries, "-std=c++20", "-O2"}));
  EXPECT_TRUE(options.cccl);
}

TEST_F(Line, OptionsOfNvccForGpusDoNothing) {
  const CompilerOptions options = read_options(
      {"-arch=sm_90", "-gencode", "arch=compute_90,code=sm_90", "-rdc=true", "-lineinfo",
       "--expt-relaxed-constexpr", "-Xptxas", "-v", "-lcudart", "-lcuda", "-O3", "-std=c++20",
       "-Xcompiler", "-fopenmp,-Wall", "-ccbin", "g++-12", "-lnvshmem_host", "-dc", "a.cu"});
  EXPECT_EQ(options.compile, (Words{"-O3", "-std=c++20", "-fopenmp", "-Wall"}));
  EXPECT_EQ(options.linked, Words{""});
  EXPECT_EQ(options.compiler, "g++-12");
  EXPECT_TRUE(options.nvshmem);
  EXPECT_EQ(options.until, CompilerOptions::Until::kObject);
  EXPECT_EQ(read_options({"-G", "a.cu"}).compile, (Words{"-g", "-O0", "-std=c++20"}));
}

TEST_F(Line, RaceAndCheckBringDebugInformation) {
  const CompilerOptions race = read_options({"--race", "a.cu"});
  EXPECT_TRUE(race.race);
  EXPECT_EQ(race.compile,
            (Words{"-std=c++20", "-fsanitize=thread", "-g", "-Wno-tsan",
                   "--param=tsan-distinguish-volatile=1", "-U_FORTIFY_SOURCE",
                   "-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset", "-O1"}));
  const CompilerOptions check = read_options({"a.cu", "--check", "-O2"});
  EXPECT_TRUE(check.check);
  EXPECT_EQ(check.compile, (Words{"-O2", "-std=c++20", "-g"})) << "of the kernels' step alone";
}

TEST_F(Line, TheCompilerIsCxx) {
  ::setenv("CXX", "clang++", 1);
  EXPECT_EQ(read_options({"a.cu"}).compiler, "clang++");
}

// CMake's compiler may be peal-cc: it was started as its own compiler, for ever.
TEST_F(Line, TheCompilerIsNeverThisProgram) {
  ::setenv("CXX", "/proc/self/exe", 1);
  EXPECT_EQ(read_options({"a.cu"}).compiler, "g++");
  EXPECT_EQ(read_options({"-ccbin", "/proc/self/exe", "a.cu"}).compiler, "g++");
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", self.substr(0, self.rfind('/')).c_str(), 1);
  ::setenv("CXX", self.substr(self.rfind('/') + 1).c_str(), 1);
  EXPECT_EQ(read_options({"a.cu"}).compiler, "g++");
  ::setenv("PATH", path.c_str(), 1);
}

// What CMake's rules look like.
TEST_F(Line, OfCMakeIsTaken) {
  const CompilerOptions one = read_options(
      {"-x", "c++", "-MD", "-MT", "a.o", "-MF", "a.o.d", "-o", "a.o", "-c", "/src/a.cu"});
  EXPECT_EQ(one.cuda, Words{"/src/a.cu"});
  EXPECT_EQ(one.output, "a.o");
  const CompilerOptions other = read_options({"-xc++", "-o", "b.o", "-c", "b.cc"});
  EXPECT_EQ(other.others, (Words{"-x", "c++", "b.cc", "-x", "none"}));
  const CompilerOptions link =
      read_options({"-O3", "-rdynamic", "-Wl,--whole-archive", "a.a", "b.cu",
                    "-Wl,--no-whole-archive", "-o", "p", "-z", "now"});
  EXPECT_EQ(link.linked,
            (Words{"-Wl,--whole-archive", "a.a", "", "-Wl,--no-whole-archive", "-z", "now"}));
  EXPECT_EQ(link.until, CompilerOptions::Until::kProgram);
}

TEST_F(Line, TheCompilerAnswersForItself) {
  for (const char* question : {"--version", "-v", "-dumpmachine", "-print-file-name=libgcc.a"}) {
    const CompilerOptions options = read_options({question});
    EXPECT_EQ(options.until, CompilerOptions::Until::kAnswer) << question;
    EXPECT_EQ(options.compile, Words{question});
    EXPECT_EQ(read_options({question, "a.cu"}).until, CompilerOptions::Until::kProgram);
  }
}

TEST_F(Line, FilesOfOptionsAreRead) {
  const std::string file = testing::TempDir() + "/options.rsp";
  std::ofstream(file) << "-DA='x y' \"b c.o\"\n-DQ=\\\"q\\\" a.cu";
  const CompilerOptions options = read_options({"@" + file, "@nowhere.rsp"});
  EXPECT_EQ(options.cuda, Words{"a.cu"});
  EXPECT_EQ(options.others, (Words{"b c.o", "@nowhere.rsp"}));
  EXPECT_EQ(options.compile, (Words{"-DA=x y", "-DQ=\"q\"", "-std=c++20", "-O2"}));
}

TEST_F(Line, MistakesAreErrors) {
  const auto refused = [](const Words& words) -> std::string {
    try {
      read_options(words);
      return "taken";
    } catch (const OptionError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refused({}), "no file to compile");
  EXPECT_EQ(refused({"a.cu", "-o"}), "-o wants a value");
  EXPECT_EQ(refused({"a.cu", "-I"}), "-I wants a value");
  EXPECT_EQ(refused({"a.o", ""}), "an empty argument: give a file or an option");
  EXPECT_EQ(refused({"a.cu", "-L", ""}), "-L wants a value that is not empty");
  EXPECT_EQ(refused({"a.cu", "-arch"}), "-arch wants a value");
  EXPECT_EQ(refused({"-x", "cu", "-"}), "-: standard input is not read; give a file");
  EXPECT_EQ(refused({"-c", "a.cu", "b.cu", "-o", "c.o"}),
            "-o c.o with -c, -S or -E: give one file, not 2");
  EXPECT_EQ(refused({"a.cu", "--race", "--check"}),
            "--race and --check: a program has the one or the other");
}

}  // namespace
}  // namespace peal::cc
