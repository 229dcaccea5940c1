// SPDX-License-Identifier: Apache-2.0
//
// A UDP socket that sends and receives many datagrams at once.
#pragma once

#include <cstddef>
#include <cstdint>
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
  void commit(const Address& to, size_t bytes) override;
  void flush() override;
  const std::vector<Arrived>& receive() override;
  int take_trouble() override;

 private:
  struct Batch;

  size_t send_some(size_t from);

  Fd fd_;
  Address address_;
  int trouble_ = 0;
  std::unique_ptr<Batch> out_;
  std::unique_ptr<Batch> in_;
  std::vector<Arrived> arrived_;
};

}  // namespace peal::softnic::roce
