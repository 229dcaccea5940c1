// SPDX-License-Identifier: Apache-2.0
//
// What this process holds of the machine, and whether it grows: the most after the warm-up against
// the most during it.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace peal::soak {

struct Holdings {
  // Resident bytes of the process's own. Pages of files and of shared memory come when they are
  // first used, a peer's heap too, which the software NIC reads; `shared` has their mappings.
  uint64_t rss = 0;
  uint64_t heap = 0;    // bytes allocated and not freed
  uint64_t shared = 0;  // bytes of shared mappings: /dev/shm, memory files
  uint64_t files = 0;   // open descriptors
};

inline Holdings holdings() {
  Holdings now;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) now.rss = std::stoull(line.substr(8)) * 1024;
  }
  const struct mallinfo2 heap = mallinfo2();
  now.heap = heap.uordblks + heap.hblkhd;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t low = 0;
    uint64_t high = 0;
    char dash = 0;
    std::string rights;
    std::istringstream(line) >> std::hex >> low >> dash >> high >> rights;
    if (rights.size() == 4 && rights[3] == 's') now.shared += high - low;
  }
  const std::filesystem::directory_iterator files("/proc/self/fd");
  now.files = static_cast<uint64_t>(std::distance(begin(files), end(files)));
  return now;
}

class Growth {
 public:
  void sample(bool warming_up) {
    const Holdings now = holdings();
    Holdings& most = warming_up ? before_ : after_;
    most.rss = std::max(most.rss, now.rss);
    most.heap = std::max(most.heap, now.heap);
    most.shared = std::max(most.shared, now.shared);
    most.files = std::max(most.files, now.files);
  }
  uint64_t rss() const { return grown(before_.rss, after_.rss); }
  uint64_t heap() const { return grown(before_.heap, after_.heap); }
  uint64_t shared() const { return grown(before_.shared, after_.shared); }
  uint64_t files() const { return grown(before_.files, after_.files); }

 private:
  static uint64_t grown(uint64_t before, uint64_t after) {
    return after > before ? after - before : 0;
  }
  Holdings before_;
  Holdings after_;
};

}  // namespace peal::soak
