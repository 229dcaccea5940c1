// SPDX-License-Identifier: Apache-2.0
//
// A UDP socket that sends and receives many datagrams at once.
//
// Datagrams of one size, one behind the other to one address, are a train: the kernel takes and
// hands out all of it in one piece, and cuts it where the network wants that (UDP_SEGMENT,
// UDP_GRO). The last may be shorter. A kernel that knows none gets single datagrams; where one
// cannot be sent, for the card's sake, it is lost, and single datagrams follow.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "softnic/wire/roce/datagrams.h"
#include "softnic/wire/roce/headers.h"

namespace peal::softnic::roce {

class Socket : public Datagrams {
 public:
  /// Takes the first of the addresses whose port 4791 is free. Throws std::system_error naming
  /// them.
  explicit Socket(const std::vector<Address>& addresses);
  ~Socket() override;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  const Address& address() const override { return address_; }
  std::byte* reserve() override;
  uint16_t identification(const Address& to, size_t bytes) const override;
  void commit(const Address& to, size_t bytes) override;
  void flush() override;
  const std::vector<Arrived>& receive() override;
  void rest(std::chrono::microseconds time) override;
  int take_trouble() override;

 private:
  struct Outbox;
  struct Inbox;

  bool joins(const Address& to, size_t bytes) const;
  bool send_some();
  void drop_front(int error);

  Fd fd_;
  Address address_;
  int trouble_ = 0;
  bool makes_trains_ = false;
  std::unique_ptr<Outbox> out_;
  std::unique_ptr<Inbox> in_;
  std::vector<Arrived> arrived_;
};

}  // namespace peal::softnic::roce
