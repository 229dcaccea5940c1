// SPDX-License-Identifier: Apache-2.0
#include "simt/cc/driver.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "simt/cc/libraries.h"
#include "simt/cc/rewrite.h"
#include "simt/cc/tokens.h"

namespace peal::cc {
namespace fs = std::filesystem;
namespace {

// PREFIX/bin/peal-cc
fs::path find_prefix() {
  const fs::path prefix = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  if (!fs::exists(prefix / "include/peal/simt/runtime/cuda_runtime.h")) {
    throw OptionError("no include/peal/simt/runtime/cuda_runtime.h in " + prefix.string() +
                      ": run the peal-cc that tools/install put into PREFIX/bin");
  }
  return prefix;
}

// Where libpeal.so lies; empty where the linker looks by itself. `kind`: of libraries that were
// built otherwise, "race" or "sim", or empty.
std::string find_libraries(const fs::path& prefix, const std::string& kind) {
  for (const char* folder : {"lib", "lib64"}) {
    const fs::path libraries = prefix / folder / kind;
    if (fs::exists(libraries / "libpeal.so"))
      return libraries == "/usr/lib/" ? "" : libraries.string();
  }
  if (kind.empty()) return "";
  throw OptionError("--" + kind + ": " + prefix.string() + "/lib/" + kind +
                    "/libpeal.so is not there; tools/install --" + kind + " --prefix " +
                    prefix.string() + " makes it");
}

// With them g++ calls libpeal_hooks for each access of a kernel. //simt/hooks has the same for
// Bazel; the header is included when the source is preprocessed.
constexpr std::array<const char*, 6> kObserved = {
    "-fsanitize=thread",   "--param=tsan-distinguish-volatile=1",
    "-fno-builtin-memcpy", "-fno-builtin-memmove",
    "-fno-builtin-memset", "-Wno-tsan"};

// Thrust's device is this CPU. Of 16-bit reals libcu++ knows the insides of CUDA's own alone.
constexpr std::array<const char*, 2> kOfCccl = {"-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP",
                                                "-DCCCL_DISABLE_FP16_SUPPORT=1"};

// Tells g++ by its name, which may have a version and a machine: x86_64-linux-gnu-g++-12.
bool is_gcc(const std::string& compiler) {
  const std::string name = fs::path(compiler).filename().string();
  return name.find("g++") != std::string::npos && name.find("clang") == std::string::npos;
}

fs::path make_scratch() {
  std::string name = (fs::temp_directory_path() / "peal-cc-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "a folder " + name);
  }
  return name;
}

void write_or_throw(const fs::path& path, const std::string& text) {
  if (write_file(path, text)) return;
  throw std::system_error(errno, std::generic_category(), path.string() + ": cannot be written");
}

}  // namespace

const char* const kWithin = "PEAL_CC_WITHIN";

CompilerDriver::CompilerDriver(CompilerOptions options)
    : options_(std::move(options)), prefix_(find_prefix()), scratch_(make_scratch()) {}

CompilerDriver::~CompilerDriver() {
  std::error_code ignored;  // they lie in a folder for such files
  fs::remove_all(scratch_, ignored);
}

int CompilerDriver::run() {
  using Until = CompilerOptions::Until;
  if (options_.until == Until::kAnswer) {
    Command command = {options_.compiler};
    command.insert(command.end(), options_.compile.begin(), options_.compile.end());
    return execute(command);
  }
  if (options_.until == Until::kProgram) {
    Command objects;
    for (const std::string& source : options_.cuda) {
      objects.push_back((scratch_ / (std::to_string(objects.size()) + ".o")).string());
      if (const int failed = compile(source, objects.back()); failed != 0) return failed;
    }
    return link(objects);
  }
  const bool assembly = options_.until == Until::kAssembly;
  for (const std::string& source : options_.cuda) {
    const int failed = compile(source, output_of(source, assembly ? ".s" : ".o"));
    if (failed != 0) return failed;
  }
  if (options_.others.empty()) return 0;
  Command command =
      with_headers({options_.compiler, assembly                                 ? "-S"
                                       : options_.until == Until::kPreprocessed ? "-E"
                                                                                : "-c"});
  command.insert(command.end(), options_.depend.begin(), options_.depend.end());
  if (!options_.output.empty()) command.insert(command.end(), {"-o", options_.output});
  command.insert(command.end(), options_.others.begin(), options_.others.end());
  return execute(command);
}

std::string CompilerDriver::output_of(const std::string& source, const char* suffix) const {
  if (!options_.output.empty()) return options_.output;
  return fs::path(source).filename().replace_extension(suffix).string();
}

// peal's headers come first: among them those that CUDA programs call cuda_runtime.h and the like.
CompilerDriver::Command CompilerDriver::with_headers(Command command) const {
  command.push_back("-D__PEAL_CC__=1");
  for (const char* folder : {"", "compat", "simt/runtime/cuda"}) {
    command.insert(command.end(), {"-isystem", (prefix_ / "include/peal" / folder).string()});
  }
  if (options_.cccl) {
    const fs::path ours = prefix_ / "include/peal/simt/runtime/cccl";  // in front of some of theirs
    command.insert(command.end(), {"-I", ours.string()});
    command.insert(command.end(), kOfCccl.begin(), kOfCccl.end());
  }
  command.insert(command.end(), options_.compile.begin(), options_.compile.end());
  return command;
}

int CompilerDriver::compile(const std::string& source, const std::string& output) {
  const bool keep = options_.until == CompilerOptions::Until::kPreprocessed;
  if (const int failed = preprocess(source, output_of(source, ".o")); failed != 0) {
    const std::string missing = options_.cccl ? "" : missing_for(bytes_of(source));
    if (!missing.empty())
      std::fprintf(stderr, "peal-cc: %s: %s\n", source.c_str(), missing.c_str());
    return failed;
  }
  if (const int failed = rewrite(); failed != 0) return failed;
  const fs::path rewritten = scratch_ / "rewritten.ii";
  if (keep && options_.output.empty()) {
    return std::fputs(bytes_of(rewritten).c_str(), stdout) < 0 ? 1 : 0;
  }
  if (keep) {
    write_or_throw(options_.output, bytes_of(rewritten));
    return 0;
  }
  Command command = {options_.compiler,
                     options_.until == CompilerOptions::Until::kAssembly ? "-S" : "-c"};
  // g++ spends a tenth of its time on collecting garbage that fits in memory.
  if (is_gcc(options_.compiler)) command.push_back("--param=ggc-min-heapsize=1048576");
  command.insert(command.end(), options_.compile.begin(), options_.compile.end());
  if (options_.check) command.insert(command.end(), kObserved.begin(), kObserved.end());
  command.insert(command.end(), {"-x", "c++-cpp-output", rewritten.string(), "-o", output});
  return execute(command);
}

int CompilerDriver::preprocess(const std::string& source, const std::string& object) {
  Command command = with_headers({options_.compiler, "-E", "-D__CUDACC__=1"});
  if (options_.check) command.insert(command.end(), {"-include", "simt/hooks/observed.h"});
  command.insert(command.end(), {"-include", "cuda_runtime.h"});
  bool makes_rules = false;
  bool has_target = false;
  bool has_file = false;
  for (const std::string& one : options_.depend) {
    makes_rules = makes_rules || one == "-MD" || one == "-MMD";
    has_target = has_target || one == "-MT" || one == "-MQ";
    has_file = has_file || one == "-MF";
    command.push_back(one);
  }
  // g++ names them by what it writes: here that is no object.
  if (makes_rules && !has_target) command.insert(command.end(), {"-MT", object});
  if (makes_rules && !has_file) {
    command.insert(command.end(), {"-MF", fs::path(object).replace_extension(".d").string()});
  }
  const std::string out = (scratch_ / "preprocessed.ii").string();
  command.insert(command.end(), {"-x", "c++", source, "-o", out});
  return execute(command);
}

int CompilerDriver::rewrite() {
  const std::string text = bytes_of(scratch_ / "preprocessed.ii");
  try {
    const Tokens tokens(text);
    if (const std::string objection = objection_to(tokens.files()); !objection.empty()) {
      std::fprintf(stderr, "peal-cc: %s\n", objection.c_str());
      return 1;
    }
    for (const std::string& file : tokens.files()) {
      options_.nvshmem = options_.nvshmem || fs::path(file).filename() == "nvshmem.h";
    }
    write_or_throw(scratch_ / "rewritten.ii", cc::rewrite(tokens));
  } catch (const SyntaxError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

int CompilerDriver::link(const Command& objects) {
  if (options_.sim && options_.nvshmem) {
    throw OptionError(
        "--sim: a program of nvshmem.h has one PE in a process, and simulated PEs are in one: "
        "use --race or --check");
  }
  Command command = with_headers({options_.compiler});
  command.insert(command.end(), options_.depend.begin(), options_.depend.end());
  auto object = objects.begin();
  for (const std::string& word : options_.linked)
    command.push_back(word.empty() ? *object++ : word);
  if (options_.race) {
    const fs::path support = prefix_ / "share/peal/race.cc";  // simt/cc/race/support.cc
    command.insert(command.end(), {"-x", "c++", support.string(), "-x", "none"});
  }
  const char* const kind = options_.race ? "race" : options_.sim ? "sim" : "";
  const std::string libraries = find_libraries(prefix_, kind);
  if (!libraries.empty()) command.push_back("-L" + libraries);
  if (options_.sim) command.insert(command.end(), {"-Wl,--wrap=main", "-lpeal_simulated_main"});
  if (options_.check) command.push_back("-lpeal_hooks");
  command.insert(command.end(), {"-lpeal", "-lpthread"});
  if (!libraries.empty()) command.push_back("-Wl,-rpath," + libraries);
  if (!options_.output.empty()) command.insert(command.end(), {"-o", options_.output});
  return execute(command);
}

int CompilerDriver::execute(const Command& command) const {
  ::setenv(kWithin, "1", 1);
  std::vector<char*> pointers;
  for (const std::string& word : command) {
    if (options_.verbose) std::fprintf(stderr, "%s ", word.c_str());
    pointers.push_back(const_cast<char*>(word.c_str()));
  }
  if (options_.verbose) std::fputc('\n', stderr);
  pointers.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, pointers[0], nullptr, nullptr, pointers.data(), environ);
  if (error != 0) {
    throw std::runtime_error(command[0] + ": " + std::strerror(error) +
                             "; CXX or -ccbin names the compiler");
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace peal::cc
