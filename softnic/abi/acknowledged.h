// SPDX-License-Identifier: Apache-2.0
//
// Events of an object: who took one acknowledges it, and destroying the object waits for that.
//
//   reported (taken) >= completed (acknowledged)   under the object's mutex, its cond signalled
//
// rdma-core waits for ever. Here the wait ends after some seconds with EBUSY: a program that
// forgets to acknowledge hears of it instead of hanging.
#pragma once

#include <pthread.h>
#include <time.h>

#include <cstdint>

namespace peal::softnic::abi {

inline constexpr time_t kAcknowledgePatience = 2;  // seconds

/// Counts an event of `object` that is being taken.
template <class T>
void report(T& object, uint32_t& reported) {
  pthread_mutex_lock(&object.mutex);
  ++reported;
  pthread_mutex_unlock(&object.mutex);
}

/// Counts `count` acknowledgements of `object`, which has rdma-core's mutex and cond. False, and
/// counts none, when fewer events wait for one.
template <class T>
bool acknowledge(T& object, uint32_t& completed, const uint32_t& reported, uint32_t count) {
  pthread_mutex_lock(&object.mutex);
  const bool fits = reported - completed >= count;
  if (fits) completed += count;
  pthread_cond_broadcast(&object.cond);
  pthread_mutex_unlock(&object.mutex);
  return fits;
}

/// Waits until done() is true, asked under the object's mutex. False when patience ran out. Not to
/// be called under the control lock: who acknowledges may need it.
template <class T, class Done>
bool wait_acknowledged(T& object, const Done& done) {
  timespec until = {};
  clock_gettime(CLOCK_REALTIME, &until);  // what the cond's attributes say
  until.tv_sec += kAcknowledgePatience;
  pthread_mutex_lock(&object.mutex);
  int error = 0;
  while (!done() && error == 0) error = pthread_cond_timedwait(&object.cond, &object.mutex, &until);
  const bool answer = done();
  pthread_mutex_unlock(&object.mutex);
  return answer;
}

}  // namespace peal::softnic::abi
