// SPDX-License-Identifier: Apache-2.0
#include "simt/cc/options.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

namespace peal::cc {
namespace {

using std::string;
using std::string_view;

bool begins(string_view text, string_view with) { return text.substr(0, with.size()) == with; }

template <size_t kCount>
bool among(string_view text, const std::array<string_view, kCount>& names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

// Of g++, with a value of their own behind them.
constexpr std::array<string_view, 14> kWithValue = {
    "-I",       "-D",       "-U", "-include", "-isystem", "-iquote", "-idirafter",
    "-imacros", "-Xlinker", "-L", "-l",       "-T",       "-u",      "--param"};

// Of nvcc, for GPUs. With a value, behind = or behind a blank; and without.
constexpr std::array<string_view, 17> kOfGpuWithValue = {"-arch",           "--gpu-architecture",
                                                         "-gencode",        "--generate-code",
                                                         "-code",           "--gpu-code",
                                                         "-maxrregcount",   "-Xptxas",
                                                         "--ptxas-options", "-Xnvlink",
                                                         "-Xcudafe",        "-cudart",
                                                         "--cudart",        "-t",
                                                         "--threads",       "-diag-suppress",
                                                         "--diag-suppress"};
constexpr std::array<string_view, 13> kOfGpu = {"-lineinfo",
                                                "--generate-line-info",
                                                "--expt-relaxed-constexpr",
                                                "-expt-relaxed-constexpr",
                                                "--expt-extended-lambda",
                                                "-expt-extended-lambda",
                                                "--extended-lambda",
                                                "-extended-lambda",
                                                "-use_fast_math",
                                                "--use_fast_math",
                                                "-restrict",
                                                "-res-usage",
                                                "-dlink"};
constexpr std::array<string_view, 8> kLibrariesOfCuda = {
    "-lcuda",      "-lcudart",     "-lcudart_static", "-lcudadevrt",
    "-lnvidia-ml", "-lnvToolsExt", "-lculibos",       "-lrt"};

// Folders of -I that have the headers in whose place peal's are.
bool has_cuda(const string& folder) {
  namespace fs = std::filesystem;
  std::error_code none;
  return fs::exists(fs::path(folder) / "crt/host_config.h", none) ||
         fs::exists(fs::path(folder) / "device_host/nvshmem_types.h", none) ||
         fs::exists(fs::path(folder) / "non_abi/nvshmem_build_options.h", none);
}

class OptionReader {
 public:
  explicit OptionReader(const std::vector<string>& arguments) : arguments_(arguments) {
    const char* const compiler = std::getenv("CXX");
    options_.compiler = compiler == nullptr || *compiler == '\0' ? "g++" : compiler;
  }

  Options read() {
    while (at_ < arguments_.size()) {
      const string one = arguments_[at_++];
      if (one.empty() || one[0] != '-' || one == "-") {
        input(one);
      } else if (!mode(one) && !of_nvcc(one)) {
        of_gcc(one);
      }
    }
    finish();
    return std::move(options_);
  }

 private:
  string value(const string& of) {
    if (at_ == arguments_.size()) throw UsageError(of + " wants a value");
    return arguments_[at_++];
  }

  void input(const string& name) {
    if (name == "-") throw UsageError("-: standard input is not read; give a file");
    const bool cuda = language_ == "cu" || (language_.empty() && name.ends_with(".cu"));
    if (!cuda && !language_.empty())
      options_.others.insert(options_.others.end(), {"-x", language_});
    (cuda ? options_.cuda : options_.others).push_back(name);
    if (!cuda && !language_.empty()) options_.others.insert(options_.others.end(), {"-x", "none"});
  }

  // How far to go, and where to.
  bool mode(const string& one) {
    using Until = Options::Until;
    if (one == "-c" || one == "-dc" || one == "--device-c") {
      options_.until = Until::kObject;
    } else if (one == "-S") {
      options_.until = Until::kAssembly;
    } else if (one == "-E") {
      options_.until = Until::kPreprocessed;
    } else if (one == "-o") {
      options_.output = value(one);
    } else if (begins(one, "-o") && one.size() > 2) {
      options_.output = one.substr(2);
    } else if (one == "-x") {
      language_ = value(one);
      if (language_ == "none") language_.clear();
    } else if (one == "--race") {
      options_.race = true;
    } else if (one == "--check") {
      options_.check = true;
    } else if (one == "--sim") {
      options_.sim = options_.check = true;
    } else if (one == "-v" || one == "--verbose") {
      options_.verbose = true;
    } else {
      return false;
    }
    return true;
  }

  bool of_nvcc(const string& one) {
    const string name = one.substr(0, one.find('='));
    if (among(name, kOfGpuWithValue)) {
      if (name == one) value(one);
    } else if (among(one, kOfGpu) || among(one, kLibrariesOfCuda) || begins(one, "-rdc") ||
               begins(one, "--relocatable-device-code")) {
      // Means nothing on a CPU.
    } else if (one == "-G" || one == "--device-debug") {
      options_.compile.insert(options_.compile.end(), {"-g", "-O0"});
    } else if (name == "-ccbin" || name == "--compiler-bindir") {
      options_.compiler = name == one ? value(one) : one.substr(name.size() + 1);
    } else if (name == "-Xcompiler" || name == "--compiler-options") {
      to_compiler(name == one ? value(one) : one.substr(name.size() + 1));
    } else if (begins(one, "-lnvshmem")) {
      options_.nvshmem = true;
    } else {
      return false;
    }
    return true;
  }

  // A,B: of the compiler that nvcc calls.
  void to_compiler(const string& list) {
    for (size_t begin = 0; begin <= list.size();) {
      const size_t end = std::min(list.find(',', begin), list.size());
      if (end > begin) of_gcc(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  void of_gcc(const string& one) {
    std::vector<string> words = {one};
    if (among(one, kWithValue)) words.push_back(value(one));
    if (one == "-MF" || one == "-MT" || one == "-MQ") {
      options_.depend.insert(options_.depend.end(), {one, value(one)});
    } else if (begins(one, "-M")) {
      options_.depend.push_back(one);
    } else if (begins(one, "-l") || begins(one, "-L") || begins(one, "-Wl,") || one == "-Xlinker" ||
               one == "-shared" || one == "-static" || one == "-T" || one == "-u") {
      options_.link.insert(options_.link.end(), words.begin(), words.end());
    } else if (begins(one, "-I") && has_cuda(words.size() > 1 ? words[1] : one.substr(2))) {
      // peal's own headers stand for these.
    } else {
      options_.compile.insert(options_.compile.end(), words.begin(), words.end());
    }
  }

  void finish() {
    if (options_.cuda.empty() && options_.others.empty()) throw UsageError("no file to compile");
    const size_t files = options_.cuda.size() + options_.others.size();
    if (options_.until != Options::Until::kProgram && !options_.output.empty() && files > 1) {
      throw UsageError("-o " + options_.output + " with -c, -S or -E: give one file, not " +
                       std::to_string(files));
    }
    if (options_.race && options_.check) {
      throw UsageError("--race and " + string(options_.sim ? "--sim" : "--check") +
                       ": a program has the one or the other");
    }
    add_unless("-std=", "--std", "-std=c++20");
    if (options_.check) options_.compile.push_back("-g");
    if (options_.sim) options_.compile.push_back("-DPEAL_SIM=1");
    if (options_.race) {
      // -Wno-tsan: fences are fine in kernels, whose atomics are stronger for ThreadSanitizer. It
      // sees copies that are calls. Volatile accesses are atomic ones (simt/race/support.cc).
      options_.compile.insert(
          options_.compile.end(),
          {"-fsanitize=thread", "-g", "-Wno-tsan", "--param=tsan-distinguish-volatile=1",
           "-U_FORTIFY_SOURCE", "-fno-builtin-memcpy", "-fno-builtin-memmove",
           "-fno-builtin-memset"});
    }
    add_unless("-O", "-O", options_.race || options_.check ? "-O1" : "-O2");
  }

  void add_unless(string_view a, string_view b, const char* option) {
    for (const string& one : options_.compile) {
      if (begins(one, a) || begins(one, b)) return;
    }
    options_.compile.push_back(option);
  }

  const std::vector<string>& arguments_;
  size_t at_ = 0;
  string language_;  // of -x
  Options options_;
};

}  // namespace

const char* const kUsage =
    "Usage: peal-cc [OPTION]... FILE...\n"
    "Compiles CUDA programs (.cu) for a CPU: kernels run as simt runs them, by g++ and without a\n"
    "CUDA toolkit. Programs for peal and for NVSHMEM need no other options.\n"
    "\n"
    "Options are g++'s: -c, -o FILE, -I, -D, -O, -g, -std, -l, -L, -fsanitize=address, ...\n"
    "  -E            the rewritten source, on standard output or in -o FILE\n"
    "  -x cu         files that follow are CUDA, whatever their names\n"
    "  -ccbin NAME   the compiler; else CXX, else g++\n"
    "  --race        data races of kernels are reported when the program runs, by ThreadSanitizer\n"
    "  --check       kernels' own loads, stores and atomics take part in peal's checks\n"
    "  --sim         a program of simulated PEs: peal-sim runs it under one seed after another\n"
    "  -v            print the commands\n"
    "nvcc's options for GPUs (-arch, -gencode, -rdc, -lineinfo, ...) are accepted and do nothing;\n"
    "-Xcompiler and -G are understood.\n";

Options read_options(const std::vector<string>& arguments) {
  return OptionReader(arguments).read();
}

}  // namespace peal::cc
