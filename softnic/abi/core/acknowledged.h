// SPDX-License-Identifier: Apache-2.0
//
// Events of an object: who took one acknowledges it, and destroying the object waits for that.
//
// rdma-core waits for ever. Here the wait ends after some seconds with EBUSY: a program that
// forgets to acknowledge hears of it instead of hanging.
#pragma once

#include <pthread.h>
#include <time.h>

#include <cstdint>

namespace peal::softnic::abi {

inline constexpr time_t kAcknowledgePatience = 2;  // seconds

/// How many events of one kind were taken, and how many of these the client's structure says are
/// acknowledged.
struct EventCount {
  uint32_t& acknowledged;
  uint32_t taken = 0;
};

/// The mutex and the condition in the client's structure of an object, and its async events, which
/// are counted under that mutex.
class Reporter {
 public:
  Reporter(pthread_mutex_t& mutex, pthread_cond_t& cond, uint32_t& acknowledged)
      : async{acknowledged}, mutex_(mutex), cond_(cond) {
    pthread_mutex_init(&mutex_, nullptr);
    pthread_cond_init(&cond_, nullptr);
  }
  virtual ~Reporter() {
    pthread_cond_destroy(&cond_);
    pthread_mutex_destroy(&mutex_);
  }
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  /// Counts an event that is being taken.
  void report(EventCount& events) {
    pthread_mutex_lock(&mutex_);
    ++events.taken;
    pthread_mutex_unlock(&mutex_);
  }

  /// Counts `count` acknowledgements. False, and counts none, when fewer events wait for one.
  bool acknowledge(EventCount& events, uint32_t count) {
    pthread_mutex_lock(&mutex_);
    const bool fits = events.taken - events.acknowledged >= count;
    if (fits) events.acknowledged += count;
    pthread_cond_broadcast(&cond_);
    pthread_mutex_unlock(&mutex_);
    return fits;
  }

  /// Waits until all events are acknowledged. False when patience ran out. Not to be called under
  /// the control lock: who acknowledges may need it.
  bool wait_acknowledged() {
    timespec until = {};
    clock_gettime(CLOCK_REALTIME, &until);  // what the condition's attributes say
    until.tv_sec += kAcknowledgePatience;
    pthread_mutex_lock(&mutex_);
    int error = 0;
    while (!settled() && error == 0) error = pthread_cond_timedwait(&cond_, &mutex_, &until);
    const bool answer = settled();
    pthread_mutex_unlock(&mutex_);
    return answer;
  }

  EventCount async;  // taken by ibv_get_async_event

 protected:
  /// Asked under the mutex.
  virtual bool settled() const { return async.taken == async.acknowledged; }

 private:
  pthread_mutex_t& mutex_;
  pthread_cond_t& cond_;
};

}  // namespace peal::softnic::abi
