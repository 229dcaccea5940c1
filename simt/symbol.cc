// SPDX-License-Identifier: Apache-2.0
#include "simt/symbol.h"

#include <backtrace.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace peal::simt {
namespace {

void ignore_error(void*, const char*, int) {}

backtrace_state* state() {
  // libbacktrace keeps what it has read of the program's files for as long as the process lives.
  static backtrace_state* const the_one =
      backtrace_create_state(nullptr, /*threaded=*/1, ignore_error, nullptr);
  return the_one;
}

std::string base_name(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

// "void peal::(anonymous namespace)::ring<4>(int)" -> "ring<4>"
std::string bare_name(const char* symbol) {
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr), &std::free);
  std::string name = plain ? plain.get() : symbol;
  for (const char* const part : {"(anonymous namespace)::", "[clone .cold]"}) {
    for (size_t at; (at = name.find(part)) != std::string::npos;) {
      name.erase(at, std::strlen(part));
    }
  }
  name.resize(std::min(name.find('('), name.size()));
  const size_t arguments = std::min(name.find('<'), name.size());
  const size_t begin = name.find_last_of(": ", arguments - (arguments == 0 ? 0 : 1));
  return begin == std::string::npos ? name : name.substr(begin + 1);
}

}  // namespace

std::string function_at(uintptr_t address) {
  std::string name;
  if (state() == nullptr) return name;
  backtrace_syminfo(
      state(), address,
      [](void* to, uintptr_t, const char* symbol, uintptr_t, uintptr_t) {
        if (symbol != nullptr) *static_cast<std::string*>(to) = bare_name(symbol);
      },
      ignore_error, &name);
  return name;
}

std::vector<LineOfCode> lines_at(uintptr_t address) {
  std::vector<LineOfCode> lines;
  if (state() == nullptr) return lines;
  backtrace_pcinfo(
      state(), address,
      [](void* to, uintptr_t, const char* file, int number, const char*) {
        if (file != nullptr) static_cast<std::vector<LineOfCode>*>(to)->push_back({file, number});
        return 0;
      },
      ignore_error, &lines);
  return lines;
}

std::string place_of_code(uintptr_t address) {
  std::string line;
  if (const std::vector<LineOfCode> lines = lines_at(address); !lines.empty()) {
    line = base_name(lines[0].file.c_str()) + ":" + std::to_string(lines[0].number);
  }
  const std::string function = function_at(address);
  if (!line.empty()) return function.empty() ? line : function + " (" + line + ")";
  Dl_info module{};
  if (::dladdr(reinterpret_cast<void*>(address), &module) == 0) return function;
  char offset[32];
  std::snprintf(offset, sizeof(offset), "+%#zx",
                static_cast<size_t>(address - reinterpret_cast<uintptr_t>(module.dli_fbase)));
  const std::string at = base_name(module.dli_fname) + offset;
  return function.empty() ? at : function + " (" + at + ")";
}

}  // namespace peal::simt
