// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/symbol.h"

#include <backtrace.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "simt/lanes/sanitizer.h"

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

/// The Itanium C++ ABI's names of functions, as far as that takes to find the last component.
class MangledName {
 public:
  explicit MangledName(std::string_view symbol) : text_(symbol) {}

  /// Empty where this is no such name, or a harder one: of an operator, a lambda, a local class.
  std::string_view last() {
    if (!take("_Z")) return {};
    const bool nested = take("N");
    while (nested && (take("K") || take("V") || take("r") || take("R") || take("O"))) {
    }
    std::string_view found;
    for (bool more = true; more && good_;) {
      take("L");  // of its file alone
      if (is_digit()) {
        found = source_name();
        more = nested;
      } else if (take("S")) {
        substitution();
      } else if (nested && take("I")) {
        until_end();
      } else {
        good_ = nested && take("E");
        more = false;
      }
    }
    return good_ ? found : std::string_view();
  }

 private:
  bool take(std::string_view start) {
    if (!text_.starts_with(start)) return false;
    text_.remove_prefix(start.size());
    return true;
  }
  bool is_digit() const { return !text_.empty() && text_[0] >= '0' && text_[0] <= '9'; }

  std::string_view source_name() {
    size_t length = 0;
    while (is_digit() && length < text_.size()) {
      length = 10 * length + static_cast<size_t>(text_[0] - '0');
      text_.remove_prefix(1);
    }
    good_ = good_ && length <= text_.size();
    const std::string_view name = text_.substr(0, length);
    text_.remove_prefix(name.size());
    return name;
  }

  // Behind its S or T: "St", "S_", "S1A_", "T0_".
  void substitution() {
    const size_t end = text_.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    good_ = good_ && end != text_.npos;
    text_.remove_prefix(std::min(end + 1, text_.size()));
  }

  // A literal behind its L: a function, or a type and digits.
  void literal() {
    if (take("_Z")) return until_end();
    if (take("N")) {
      until_end();
    } else if (is_digit()) {
      source_name();
    }
    const size_t end = text_.find('E');
    good_ = good_ && end != text_.npos;
    text_.remove_prefix(std::min(end + 1, text_.size()));
  }

  // To the E of what has begun: template arguments, a nested name, a function's type.
  void until_end() {
    for (size_t open = 1; open != 0 && good_;) {
      if (text_.empty()) {
        good_ = false;
      } else if (is_digit()) {
        source_name();
      } else if (take("S") || take("T")) {
        substitution();
      } else if (take("L")) {
        literal();
      } else {
        const char c = text_[0];
        text_.remove_prefix(1);
        if (c == 'E') --open;
        if (std::string_view("INJXF").find(c) != std::string_view::npos) ++open;
      }
    }
  }

  std::string_view text_;
  bool good_ = true;
};

}  // namespace

const char* symbol_at(uintptr_t address) {
  const char* found = nullptr;
  const OfAnother libbacktrace;
  if (state() == nullptr) return found;
  backtrace_syminfo(
      state(), address,
      [](void* to, uintptr_t, const char* symbol, uintptr_t, uintptr_t) {
        *static_cast<const char**>(to) = symbol;
      },
      ignore_error, &found);
  return found;
}

std::string function_at(uintptr_t address) {
  const OfAnother libbacktrace;
  const char* const symbol = symbol_at(address);
  return symbol == nullptr ? "" : bare_name(symbol);
}

std::string_view last_name(std::string_view symbol) {
  const std::string_view name = MangledName(symbol).last();
  return name.empty() ? symbol : name;
}

void visit_lines(uintptr_t address, VisitLine visit, void* to) {
  const OfAnother libbacktrace;
  if (state() == nullptr) return;
  struct Visitor {
    VisitLine visit;
    void* to;
  } visitor{visit, to};
  backtrace_pcinfo(
      state(), address,
      [](void* all, uintptr_t, const char* file, int number, const char* function) {
        const Visitor& one = *static_cast<Visitor*>(all);
        return file != nullptr && one.visit(one.to, file, number, function) ? 1 : 0;
      },
      ignore_error, &visitor);
}

std::vector<LineOfCode> lines_at(uintptr_t address) {
  std::vector<LineOfCode> lines;
  visit_lines(
      address,
      [](void* to, const char* file, int number, const char*) {
        static_cast<std::vector<LineOfCode>*>(to)->push_back({file, number});
        return false;
      },
      &lines);
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
