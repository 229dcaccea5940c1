// SPDX-License-Identifier: Apache-2.0
//
// sendmmsg and recvmmsg over arrays that are set up once.
#include "softnic/wire/roce/socket.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/across.h"
#include "base/internet.h"

namespace peal::softnic::roce {

namespace {

constexpr size_t kBatch = 64;
/// Half of what the kernel then counts, with all it needs beside the bytes: some 800 packets of the
/// largest path MTU, if it is allowed.
constexpr int kBufferBytes = 4 << 20;

SocketAddress socket_address(const Address& address) { return {address.byte, kUdpPort}; }

void set(const Fd& fd, int level, int name, int value) {
  static_cast<void>(setsockopt(fd.get(), level, name, &value, sizeof value));
}

/// Makes the buffer as large as root may have it, else as large as any user may.
void set_buffer(const Fd& fd, int forced, int asked) {
  const int bytes = kBufferBytes;
  if (setsockopt(fd.get(), SOL_SOCKET, forced, &bytes, sizeof bytes) != 0)
    set(fd, SOL_SOCKET, asked, bytes);
}

}  // namespace

/// Datagrams, their addresses, and what the kernel wants of them.
struct Socket::Batch {
  using Datagram = std::array<std::byte, kMostDatagram>;

  size_t count = 0;
  std::array<Datagram, kBatch> datagram;
  std::array<SocketAddress, kBatch> address;
  std::array<iovec, kBatch> vector;
  std::array<mmsghdr, kBatch> message;

  explicit Batch(const Address& own) {
    for (size_t i = 0; i < kBatch; ++i) {
      vector[i] = {datagram[i].data(), kMostDatagram};
      message[i] = {};
      message[i].msg_hdr.msg_name = address[i].get();
      message[i].msg_hdr.msg_namelen = socket_address(own).length();
      message[i].msg_hdr.msg_iov = &vector[i];
      message[i].msg_hdr.msg_iovlen = 1;
    }
  }
};

Socket::Socket(const std::vector<Address>& addresses) {
  std::string tried;
  int error = EADDRINUSE;
  for (const Address& address : addresses) {
    const SocketAddress place = socket_address(address);
    fd_ = Fd(socket(place.family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd_ && bind(fd_.get(), place.get(), place.length()) == 0) {
      address_ = address;
      out_ = std::make_unique<Batch>(address);
      in_ = std::make_unique<Batch>(address);
      // Its datagrams have the identification that the ICRC counts on, and no kernel cuts them.
      if (address.ipv4()) {
        set(fd_, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
      } else {
        set(fd_, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
      }
      set_buffer(fd_, SO_RCVBUFFORCE, SO_RCVBUF);
      set_buffer(fd_, SO_SNDBUFFORCE, SO_SNDBUF);
      return;
    }
    error = errno;
    tried += (tried.empty() ? "" : ", ") + text_of(address.byte);
  }
  throw std::system_error(error, std::generic_category(),
                          "softnic: UDP port 4791 of " + tried +
                              " (PEAL_SOFTNIC_UDP names addresses of this host, one for each NIC)");
}

Socket::~Socket() = default;

std::byte* Socket::reserve() {
  if (out_->count == kBatch) flush();
  return out_->count == kBatch ? nullptr : out_->datagram[out_->count].data();
}

void Socket::commit(const Address& to, size_t bytes) {
  const size_t i = out_->count++;
  out_->address[i] = socket_address(to);
  out_->vector[i].iov_len = bytes;
}

/// Sends the datagrams that wait, from number `from` on. Answers the first that the kernel did not
/// take.
size_t Socket::send_some(size_t from) {
  Batch& out = *out_;
  if (from < out.count) tell_others();
  while (from < out.count) {
    const auto left = static_cast<unsigned>(out.count - from);
    const int sent = sendmmsg(fd_.get(), &out.message[from], left, MSG_DONTWAIT);
    if (sent > 0) {
      from += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == ENOBUFS) {
      break;
    } else if (errno != EINTR) {
      trouble_ = errno;  // of this one: it is lost, as on a network that cannot carry it
      ++from;
    }
  }
  return from;
}

void Socket::flush() {
  Batch& out = *out_;
  const size_t done = send_some(0);
  for (size_t i = done; i < out.count && done > 0; ++i) {
    std::memcpy(out.datagram[i - done].data(), out.datagram[i].data(), out.vector[i].iov_len);
    out.address[i - done] = out.address[i];
    out.vector[i - done].iov_len = out.vector[i].iov_len;
  }
  out.count -= done;
}

const std::vector<Arrived>& Socket::receive() {
  Batch& in = *in_;
  arrived_.clear();
  const int got = recvmmsg(fd_.get(), in.message.data(), kBatch, MSG_DONTWAIT | MSG_TRUNC, nullptr);
  if (got > 0) hear_others();
  for (int n = 0; n < got; ++n) {
    const auto i = static_cast<size_t>(n);
    const Arrived one = {.from = Address(in.address[i].internet()),
                         .from_port = in.address[i].port(),
                         .memory = in.datagram[i].data(),
                         .bytes = in.message[i].msg_len};
    arrived_.push_back(one);
    in.message[i].msg_hdr.msg_namelen = socket_address(address_).length();
  }
  return arrived_;
}

int Socket::take_trouble() { return std::exchange(trouble_, 0); }

}  // namespace peal::softnic::roce
