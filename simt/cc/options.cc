// SPDX-License-Identifier: Apache-2.0
#include "simt/cc/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "simt/cc/libraries.h"

namespace peal::cc {
namespace {

using std::string;
using std::string_view;

bool begins(string_view text, string_view with) { return text.substr(0, with.size()) == with; }

template <size_t kCount>
bool among(string_view text, const std::array<string_view, kCount>& names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

// Options of g++ with a value of their own behind them.
constexpr std::array<string_view, 22> kWithValue = {
    "-I",         "-D",       "-U",        "-include",    "-isystem",       "-iquote",
    "-idirafter", "-imacros", "-isysroot", "-iprefix",    "-aux-info",      "-wrapper",
    "-A",         "--param",  "-Xlinker",  "-Xassembler", "-Xpreprocessor", "-L",
    "-l",         "-T",       "-u",        "-z"};
constexpr std::array<string_view, 8> kOfLinker = {"-Xlinker", "-shared", "-static", "-T",
                                                  "-u",       "-z",      "-L",      "-l"};

// Options of nvcc for GPUs: with a value, behind = or behind a blank; and without.
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

// What a compiler answers without a file.
bool asks(const string& one) {
  return one == "-v" || one == "--version" || begins(one, "-dump") || begins(one, "-print-") ||
         begins(one, "--print-") || begins(one, "--help=") || one == "-qversion";
}

// The words of a response file: white space lies between, quotes and backslashes keep what is in or
// behind them.
std::vector<string> words_of(const string& text) {
  std::vector<string> words;
  bool within = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool blank = quote == 0 && std::isspace(static_cast<unsigned char>(c)) != 0;
    if (blank) {
      within = false;
      continue;
    }
    if (!within) words.emplace_back();
    within = true;
    if (c == '\\' && i + 1 < text.size()) {
      words.back() += text[++i];
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back() += c;
    }
  }
  return words;
}

// @FILE in place of words, as g++ has it; of a file that is not there the word itself.
std::vector<string> with_files(const std::vector<string>& arguments, int depth = 0) {
  std::vector<string> all;
  for (const string& one : arguments) {
    const string file = begins(one, "@") ? one.substr(1) : "";
    if (file.empty() || !std::filesystem::is_regular_file(file)) {
      all.push_back(one);
      continue;
    }
    if (depth == 32) throw OptionError(one + ": files of options that name one another");
    const std::vector<string> inner = with_files(words_of(bytes_of(file)), depth + 1);
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

// True for the program that runs: as its own compiler it would start itself for ever.
bool is_this_program(const string& name) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (name.find('/') != string::npos) return fs::equivalent(name, "/proc/self/exe", none);
  const char* const path = std::getenv("PATH");
  const string folders = path == nullptr ? "" : path;
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const fs::path file = fs::path(folders.substr(begin, end - begin)) / name;
    if (fs::is_regular_file(file, none)) return fs::equivalent(file, "/proc/self/exe", none);
    begin = end + 1;
  }
  return false;
}

class OptionReader {
 public:
  explicit OptionReader(const std::vector<string>& arguments) : arguments_(with_files(arguments)) {
    const char* const compiler = std::getenv("CXX");
    compile_by(compiler == nullptr ? "" : compiler);
  }

  CompilerOptions read() {
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
    if (at_ == arguments_.size()) throw OptionError(of + " wants a value");
    return arguments_[at_++];
  }

  // CMake's compiler, which CXX names too, may be this program.
  void compile_by(const string& name) {
    options_.compiler = name.empty() || is_this_program(name) ? "g++" : name;
  }

  // CMake says -x c++ of all that a project calls CXX, .cu files too.
  void input(const string& name) {
    if (name.empty()) throw OptionError("an empty argument: give a file or an option");
    const bool cxx = language_.empty() || language_ == "c++";
    const bool cuda = language_ == "cu" || (cxx && name.ends_with(".cu"));
    if (cuda && name == "-") throw OptionError("-: standard input is not read; give a file");
    if (cuda) {
      options_.cuda.push_back(name);
      options_.linked.emplace_back();
      return;
    }
    std::vector<string> words = {name};
    if (!language_.empty()) words = {"-x", language_, name, "-x", "none"};
    options_.others.insert(options_.others.end(), words.begin(), words.end());
    options_.linked.insert(options_.linked.end(), words.begin(), words.end());
    ++others_;
  }

  void speak(const string& language) { language_ = language == "none" ? "" : language; }

  // How far to go, and where to.
  bool mode(const string& one) {
    using Until = CompilerOptions::Until;
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
      speak(value(one));
    } else if (begins(one, "-xc") || one == "-xnone") {
      speak(one.substr(2));
    } else if (one == "--race") {
      options_.race = true;
    } else if (one == "--check") {
      options_.check = true;
    } else if (one == "--sim") {
      options_.sim = options_.check = true;
    } else if (one == "-v" || one == "--verbose") {
      options_.verbose = true;
      options_.compile.push_back("-v");
      asked_ = true;
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
      compile_by(name == one ? value(one) : one.substr(name.size() + 1));
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
    if (words.back().empty()) throw OptionError(one + " wants a value that is not empty");
    if (one == "-MF" || one == "-MT" || one == "-MQ") {
      options_.depend.insert(options_.depend.end(), {one, value(one)});
    } else if (begins(one, "-M")) {
      options_.depend.push_back(one);
    } else if (begins(one, "-l") || begins(one, "-L") || begins(one, "-Wl,") ||
               among(one, kOfLinker)) {
      options_.linked.insert(options_.linked.end(), words.begin(), words.end());
    } else if (begins(one, "-I")) {
      take_folder(words);
    } else {
      options_.compile.insert(options_.compile.end(), words.begin(), words.end());
      asked_ = asked_ || asks(one);
    }
  }

  // -I, in one word or in two.
  void take_folder(std::vector<string> words) {
    const string folder = words.size() > 1 ? words[1] : words[0].substr(2);
    if (has_cuda(folder)) {  // peal's own headers stand for these
      words = {"-I" + folder + "/cccl"};
      if (!has_cccl(folder + "/cccl")) return;
      options_.cccl = true;
    }
    options_.cccl = options_.cccl || has_cccl(folder);
    options_.compile.insert(options_.compile.end(), words.begin(), words.end());
  }

  void finish() {
    const size_t files = options_.cuda.size() + others_;
    if (files == 0 && asked_) {
      options_.until = CompilerOptions::Until::kAnswer;
      return;
    }
    if (files == 0) throw OptionError("no file to compile");
    if (options_.until != CompilerOptions::Until::kProgram && !options_.output.empty() &&
        files > 1) {
      throw OptionError("-o " + options_.output + " with -c, -S or -E: give one file, not " +
                        std::to_string(files));
    }
    if (options_.race && options_.check) {
      throw OptionError("--race and " + string(options_.sim ? "--sim" : "--check") +
                        ": a program has the one or the other");
    }
    add_unless("-std=", "--std", "-std=c++20");
    if (options_.check) options_.compile.push_back("-g");
    if (options_.sim) options_.compile.push_back("-DPEAL_SIM=1");
    if (options_.race) {
      // -Wno-tsan: fences are fine in kernels, whose atomics are stronger for ThreadSanitizer. It
      // sees copies that are calls. Volatile accesses are atomic ones (simt/cc/race/support.cc).
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

  const std::vector<string> arguments_;
  size_t at_ = 0;
  size_t others_ = 0;   // files in CompilerOptions::others
  bool asked_ = false;  // something that needs no file
  string language_;     // of -x
  CompilerOptions options_;
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
    "  -v            print the commands; the compiler's own words, too\n"
    "  @FILE         the words of the file in its place\n"
    "nvcc's options for GPUs (-arch, -gencode, -rdc, -lineinfo, ...) are accepted and do nothing;\n"
    "-Xcompiler and -G are understood.\n";

CompilerOptions read_options(const std::vector<string>& arguments) {
  return OptionReader(arguments).read();
}

}  // namespace peal::cc
