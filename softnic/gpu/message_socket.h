// SPDX-License-Identifier: Apache-2.0
//
// A packet socket that carries plain structs, each whole or not at all, and descriptors with them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "base/fd.h"

namespace peal::softnic::gpu {

/// One end of a connection. No call throws and none waits past its deadline, sending not at all;
/// the first failure of any kind, a struct of another size among them, closes the channel for good.
class MessageSocket {
 public:
  using Milliseconds = std::chrono::milliseconds;

  MessageSocket() = default;
  explicit MessageSocket(Fd fd) : fd_(std::move(fd)) {}

  bool open() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }
  void close() { fd_ = Fd(); }

  /// The process at the other end, or 0 where this one cannot see it (another pid namespace).
  pid_t peer_pid() const;
  /// True when there is room for a struct, or when sending would find the other end closed.
  bool writable() const;
  /// Sends, with a copy of descriptor `fd` unless that is negative. Fails when the other end has
  /// left so much unread that there is no room: whoever may meet that asks writable() first.
  template <class T>
  bool send(const T& value, int fd = -1) {
    static_assert(std::is_trivially_copyable_v<T>);
    return send_bytes(&value, sizeof(value), fd);
  }
  /// Receives; the descriptor that came along, if any, is put into `fd`.
  template <class T>
  bool receive(T* value, Milliseconds patience, Fd* fd = nullptr) {
    static_assert(std::is_trivially_copyable_v<T>);
    return receive_bytes(value, sizeof(*value), patience, fd);
  }

 private:
  bool send_bytes(const void* data, size_t bytes, int fd);
  bool receive_bytes(void* data, size_t bytes, Milliseconds patience, Fd* fd);

  Fd fd_;
};

/// A channel and its other end. Not open when the system has no descriptors left.
std::pair<MessageSocket, MessageSocket> channel_pair();

/// Connects to the socket at `path`; not open when nobody listens there.
MessageSocket connect_to(const std::string& path);

/// A listening socket at `path`, which must not exist. Throws std::system_error naming it.
Fd listen_at(const std::string& path);

/// The next connection of `listener`, if one waits.
MessageSocket accept_from(const Fd& listener);

}  // namespace peal::softnic::gpu
