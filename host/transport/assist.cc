// SPDX-License-Identifier: Apache-2.0
//
// Nothing can wake the thread when a GPU stores a word, so it looks: at once while there is work,
// less often the longer there was none.
#include "host/transport/assist.h"

#include "base/patience.h"
#include "device/base/order.h"

namespace peal {
namespace {

constexpr Patience::Nap kLongestNapOfAssist{50};

}  // namespace

Assist::Assist(uint64_t* reg) : register_(reg), thread_([this] { run(); }) {}

Assist::~Assist() {
  {
    const VisitedMutex::Visit visit(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Assist::watch(uint64_t* words, size_t count) {
  {
    const VisitedMutex::Visit visit(mutex_);
    ranges_.push_back({words, count});
  }
  changed_.notify_one();
}

void Assist::forget(const uint64_t* words) {
  const VisitedMutex::Visit visit(mutex_);
  std::erase_if(ranges_, [words](const Range& range) { return range.words == words; });
}

// True if it had something to pass on.
bool Assist::look() {
  uint64_t count = 0;
  for (const Range& range : ranges_) {
    for (uint64_t* word = range.words; word != range.words + range.count; ++word) {
      if (load_relaxed<Reach::kSystem>(word) == 0) continue;
      // kRecordBeforeSecondDoorbell, the acquiring end. In one step: a store that comes after it
      // finds the word empty and is seen by the next look, also if it is the same value once more.
      store_mmio(register_,
                 exchange<Reach::kSystem, Edge::kRecordBeforeSecondDoorbell>(word, uint64_t{0}));
      flush_mmio();  // the next value may be another queue's
      ++count;
    }
  }
  passed_on_.fetch_add(count);
  return count != 0;
}

void Assist::run() {
  Patience patience(kLongestNapOfAssist);
  std::unique_lock lock(mutex_.own());
  while (!stopping_) {
    if (ranges_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const bool worked = look();
    lock.unlock();
    patience.after(worked);
    mutex_.let_visitors_in();
    lock.lock();
  }
  look();
}

}  // namespace peal
