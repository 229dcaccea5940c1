// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/place.h"

#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/immortal.h"
#include "simt/lanes/suspend.h"
#include "simt/lanes/symbol.h"

namespace peal::simt {
namespace {

constexpr size_t kFrames = 16;
using Frames = std::array<uintptr_t, kFrames>;  // return addresses, innermost first; 0: no more

// Every place that was ever taken, for as long as the process lives: programs have some hundreds.
class Places {
 public:
  // The file of one header of the library.
  std::string header() {
    const std::lock_guard lock(mutex_);
    return header_;
  }
  static Places& all() {
    static Immortal<Places> the_one;
    return *the_one;
  }
  uint64_t number_of(const Frames& frames, const char* header) {
    const std::lock_guard lock(mutex_);
    if (header_.empty()) header_ = header;
    const auto [at, is_new] = numbers_.try_emplace(frames, frames_.size() + 1);
    if (is_new) frames_.push_back(frames);
    return at->second;
  }
  Frames frames_of(uint64_t place) {
    const std::lock_guard lock(mutex_);
    return place == 0 || place > frames_.size() ? Frames{} : frames_[place - 1];
  }

 private:
  std::mutex mutex_;
  std::string header_;
  std::map<Frames, uint64_t> numbers_;
  std::vector<Frames> frames_;
};

struct Walk {
  Frames frames{};
  size_t count = 0;
  size_t skip = 1;      // place_here() itself
  uintptr_t begin = 0;  // the first frame that counts returns here; 0: any
};

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* to) {
  auto& walk = *static_cast<Walk*>(to);
  if (walk.skip != 0) {
    --walk.skip;
    return _URC_NO_REASON;
  }
  const auto code = static_cast<uintptr_t>(_Unwind_GetIP(context));
  if (walk.begin != 0 && code != 0 && code != walk.begin) return _URC_NO_REASON;
  walk.begin = 0;
  if (code == 0 || walk.count == kFrames) return _URC_END_OF_STACK;
  walk.frames[walk.count++] = code;
  return _URC_NO_REASON;
}

// What lies before `tail` in the path of a file; "" if that is not its end.
std::string_view before(std::string_view path, std::string_view tail) {
  return path.ends_with(tail) ? path.substr(0, path.size() - tail.size()) : "";
}

// Where the library was built, as its debug information says: "" where that has relative paths.
const std::optional<std::string_view>& own_tree() {
  static const std::optional<std::string_view> tree = [] {
    std::optional<std::string_view> found;
    const auto take_first = [](void* to, const char* file, int, const char*) {
      *static_cast<std::optional<std::string_view>*>(to) = before(file, "simt/lanes/place.cc");
      return true;
    };
    visit_lines(reinterpret_cast<uintptr_t>(&place_text), take_first, &found);
    return found;
  }();
  return tree;
}

// Folders of the library, in its tree and where its headers were installed.
constexpr std::string_view kFolders[] = {"simt/",   "device/", "host/", "kernels/",
                                         "compat/", "peal/",   "base/", "perf/common/"};

bool is_library(std::string_view file, std::string_view installed) {
  if (file.find("/include/c++/") != file.npos) return true;   // what calls a kernel
  if (file.find("/libstdc++-v3/") != file.npos) return true;  // what ends a process
  if (file.ends_with("/libc_start_call_main.h") || file.ends_with("/libc-start.c")) return true;
  if (file.find("/include/peal/") != file.npos) return true;
  // "./" is this tree's, found by -I., and every other file's there too.
  const bool elsewhere = !installed.empty() && installed != "./";
  if (elsewhere && file.find(installed) != file.npos) return true;
  if (!own_tree() || !file.starts_with(*own_tree())) return false;
  std::string_view rest = file.substr(own_tree()->size());
  if (rest.starts_with("./")) rest.remove_prefix(2);  // a header found by -I.
  return std::ranges::any_of(kFolders, [&](std::string_view f) { return rest.starts_with(f); });
}

constinit thread_local unsigned depth_outside = 0;  // of a thread that runs no lane

unsigned& depth() {
  Lane* const lane = current_lane();
  return lane == nullptr ? depth_outside : lane->in_library;
}

}  // namespace

uint64_t place_here(const char* header) {
  Walk walk;
  _Unwind_Backtrace(take_frame, &walk);
  return Places::all().number_of(walk.frames, header);
}

uint64_t place_from(uintptr_t code) {
  Walk walk;
  walk.begin = code;
  _Unwind_Backtrace(take_frame, &walk);
  return walk.count == 0 ? place_at(code) : Places::all().number_of(walk.frames, "");
}

uint64_t place_at(uintptr_t code) {
  Frames frames{};
  frames[0] = code;
  return Places::all().number_of(frames, "");
}

std::string place_text(uint64_t place) {
  const std::string header = Places::all().header();
  const std::string_view installed = before(header, "device/base/place.h");
  for (const uintptr_t code : Places::all().frames_of(place)) {
    if (code == 0) break;
    // A return address is behind its call, which may be the last of its line.
    for (const LineOfCode& line : lines_at(code - 1)) {
      if (!is_library(line.file, installed)) {
        return line.file.substr(line.file.rfind('/') + 1) + ":" + std::to_string(line.number);
      }
    }
  }
  return "";
}

CodeOfProgram code_of_program(uintptr_t code) {
  CodeOfProgram found;
  const auto take = [](void* to, const char* file, int line, const char* function) {
    if (is_library(file, "")) return false;
    *static_cast<CodeOfProgram*>(to) = {file, line, function};
    return true;
  };
  visit_lines(code, take, &found);
  return found;
}

void enter_library() { ++depth(); }
void leave_library() {
  unsigned& mine = depth();
  if (mine != 0) --mine;
}
bool in_library() { return depth() != 0; }

}  // namespace peal::simt
