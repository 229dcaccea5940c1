// SPDX-License-Identifier: Apache-2.0
//
// The schedule of a run as a story: who ran when, what it loaded and stored, at which lines of the
// program, and where a load found an old value because nothing ordered the newer one before it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simt/simulation/memory.h"
#include "simt/simulation/simulation.h"

namespace peal::simt {

class Story {
 public:
  /// Listens to the simulation's memory; before run(). Both are to live as long as the run.
  explicit Story(Simulation& simulation);

  /// The last `most` lines, and all loads that found old values. Takes the stack of a thread.
  std::string text(size_t most) const;

 private:
  struct Entry {
    Step step;
    uint64_t slice;
    std::string who;
    std::string where;
    uint64_t place;  // simt/lanes/place.h
  };
  struct Line {
    size_t first;     // entry
    size_t repeated;  // how often the same followed it
  };
  void take(const Step& step);
  static bool alike(const Entry& a, const Entry& b);
  std::vector<Line> lines() const;
  std::string line(const Entry& entry) const;
  /// "PE 0 at ring.cu:21", who last stored to what an entry loaded.
  std::string writer(const Entry& entry, uint64_t agent, uint64_t value) const;

  Simulation& simulation_;
  std::vector<Entry> entries_;
};

}  // namespace peal::simt
