// SPDX-License-Identifier: Apache-2.0
//
// sendmmsg and recvmmsg over arrays of trains.
#include "softnic/wire/roce/socket.h"

#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/across.h"
#include "base/internet.h"

namespace peal::softnic::roce {

namespace {

constexpr size_t kBatch = 64;   // datagrams that go out together
constexpr size_t kPieces = 32;  // that come in together, each a datagram or a train
constexpr size_t kMostPiece = 1 << 16;
/// An IPv4 packet has 65,535 bytes at most.
constexpr size_t kMostTrain = 65'000;
static_assert(kMostOfTrain <= kBatch);
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

/// A value that goes beside a message, at level IPPROTO_UDP.
template <class T>
struct Control {
  alignas(cmsghdr) std::byte byte[CMSG_SPACE(sizeof(T))];

  void write(msghdr& header, int type, T value) {
    header.msg_control = byte;
    header.msg_controllen = sizeof byte;
    cmsghdr* const head = CMSG_FIRSTHDR(&header);
    head->cmsg_len = CMSG_LEN(sizeof value);
    head->cmsg_level = IPPROTO_UDP;
    head->cmsg_type = type;
    std::memcpy(CMSG_DATA(head), &value, sizeof value);
  }
  /// 0 where there is none.
  static T read(msghdr& header, int type) {
    T value{};
    cmsghdr* const head = CMSG_FIRSTHDR(&header);
    if (head != nullptr && head->cmsg_level == IPPROTO_UDP && head->cmsg_type == type)
      std::memcpy(&value, CMSG_DATA(head), sizeof value);
    return value;
  }
};

}  // namespace

/// Datagrams that wait, in trains. Each train is a message of the kernel's; its pieces lie side by
/// side in `vector`.
struct Socket::Outbox {
  using Datagram = std::array<std::byte, kMostDatagram>;
  struct Train {
    Address to;
    size_t count;
    size_t each;   // bytes of a datagram
    size_t bytes;  // of all
    bool closed;   // by a shorter one
  };
  using SegmentBytes = uint16_t;

  size_t datagrams = 0;
  size_t trains = 0;
  size_t sent = 0;  // trains
  std::array<Datagram, kBatch> datagram;
  std::array<iovec, kBatch> vector;
  std::array<Train, kBatch> train;
  std::array<SocketAddress, kBatch> address;
  std::array<Control<SegmentBytes>, kBatch> control;
  std::array<mmsghdr, kBatch> message;

  void begin(const Address& to, size_t bytes) {
    const size_t i = trains++;
    train[i] = {.to = to, .count = 0, .each = bytes, .bytes = 0, .closed = false};
    address[i] = socket_address(to);
    message[i] = {};
    message[i].msg_hdr.msg_name = address[i].get();
    message[i].msg_hdr.msg_namelen = address[i].length();
    message[i].msg_hdr.msg_iov = &vector[datagrams];
  }
  void append(size_t bytes) {
    const size_t i = trains - 1;
    vector[datagrams] = {datagram[datagrams].data(), bytes};
    ++datagrams;
    train[i].bytes += bytes;
    train[i].closed = bytes < train[i].each;
    msghdr& header = message[i].msg_hdr;
    header.msg_iovlen = ++train[i].count;
    if (train[i].count == 2)
      control[i].write(header, UDP_SEGMENT, static_cast<SegmentBytes>(train[i].each));
  }
  /// Moves down what has not left.
  void close_up() {
    size_t from = 0;
    for (size_t i = 0; i < sent; ++i) from += train[i].count;
    const size_t end = std::exchange(trains, 0);
    datagrams = 0;
    for (size_t i = std::exchange(sent, 0); i < end; ++i) {
      const Train moved = train[i];
      begin(moved.to, moved.each);
      for (size_t n = 0; n < moved.count; ++n, ++from) {
        datagram[datagrams] = datagram[from];
        append(vector[from].iov_len);
      }
    }
  }
};

/// Room for what arrives.
struct Socket::Inbox {
  using Piece = std::array<std::byte, kMostPiece>;

  std::array<Piece, kPieces> piece;
  std::array<iovec, kPieces> vector;
  std::array<SocketAddress, kPieces> address;
  std::array<Control<int>, kPieces> control;
  std::array<mmsghdr, kPieces> message;

  explicit Inbox(const Address& own) {
    for (size_t i = 0; i < kPieces; ++i) {
      vector[i] = {piece[i].data(), kMostPiece};
      address[i] = socket_address(own);
      message[i] = {};
      message[i].msg_hdr.msg_name = address[i].get();
      message[i].msg_hdr.msg_iov = &vector[i];
      message[i].msg_hdr.msg_iovlen = 1;
      make_room(i);
    }
  }
  /// The kernel has written how much of each it used.
  void make_room(size_t i) {
    message[i].msg_hdr.msg_namelen = address[i].length();
    message[i].msg_hdr.msg_control = control[i].byte;
    message[i].msg_hdr.msg_controllen = sizeof control[i].byte;
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
      out_ = std::make_unique<Outbox>();
      in_ = std::make_unique<Inbox>(address);
      // Its datagrams have the identification that the ICRC counts on, and no kernel cuts them.
      if (address.ipv4()) {
        set(fd_, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
      } else {
        set(fd_, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
      }
      set_buffer(fd_, SO_RCVBUFFORCE, SO_RCVBUF);
      set_buffer(fd_, SO_SNDBUFFORCE, SO_SNDBUF);
      set(fd_, IPPROTO_UDP, UDP_GRO, 1);
      const int no_train = 0;  // a kernel before 4.18 sends a train as one datagram
      makes_trains_ =
          setsockopt(fd_.get(), IPPROTO_UDP, UDP_SEGMENT, &no_train, sizeof no_train) == 0;
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
  if (out_->datagrams == kBatch) {
    flush();
    if (out_->sent > 0) out_->close_up();
  }
  return out_->datagrams == kBatch ? nullptr : out_->datagram[out_->datagrams].data();
}

bool Socket::joins(const Address& to, size_t bytes) const {
  const Outbox& out = *out_;
  if (!makes_trains_ || out.trains == out.sent) return false;
  const Outbox::Train& last = out.train[out.trains - 1];
  return last.to == to && !last.closed && bytes <= last.each && last.count < kMostOfTrain &&
         last.bytes + bytes <= kMostTrain;
}

// A kernel counts on from the identification of a train's first datagram, which is 0.
uint16_t Socket::identification(const Address& to, size_t bytes) const {
  if (!to.ipv4() || !joins(to, bytes)) return 0;
  return static_cast<uint16_t>(out_->train[out_->trains - 1].count);
}

void Socket::commit(const Address& to, size_t bytes) {
  if (!joins(to, bytes)) out_->begin(to, bytes);
  out_->append(bytes);
}

/// Sends what the kernel takes now; true when all of it has left, or is lost.
bool Socket::send_some() {
  Outbox& out = *out_;
  if (out.sent < out.trains) tell_others();
  while (out.sent < out.trains) {
    const auto left = static_cast<unsigned>(out.trains - out.sent);
    const int sent = sendmmsg(fd_.get(), &out.message[out.sent], left, MSG_DONTWAIT);
    if (sent > 0) {
      out.sent += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == ENOBUFS) {
      return false;
    } else if (errno != EINTR) {
      drop_front(errno);
    }
  }
  return true;
}

/// The first train is lost, as on a network that cannot carry it.
void Socket::drop_front(int error) {
  const bool single = out_->train[out_->sent++].count == 1;
  // Of a train: an old kernel, or a card without checksums.
  if (!single && (error == EINVAL || error == EIO || error == EOPNOTSUPP)) {
    makes_trains_ = false;
  } else {
    trouble_ = error;
  }
}

void Socket::flush() {
  if (send_some()) out_->datagrams = out_->trains = out_->sent = 0;
}

const std::vector<Arrived>& Socket::receive() {
  Inbox& in = *in_;
  arrived_.clear();
  const int got =
      recvmmsg(fd_.get(), in.message.data(), kPieces, MSG_DONTWAIT | MSG_TRUNC, nullptr);
  if (got > 0) hear_others();
  for (int n = 0; n < got; ++n) {
    const auto i = static_cast<size_t>(n);
    const size_t bytes = in.message[i].msg_len;
    const int segment = in.control[i].read(in.message[i].msg_hdr, UDP_GRO);
    const size_t each = segment > 0 ? static_cast<size_t>(segment) : std::max<size_t>(bytes, 1);
    Arrived one = {.from = Address(in.address[i].internet()),
                   .from_port = in.address[i].port(),
                   .memory = in.piece[i].data(),
                   .bytes = 0};
    for (size_t at = 0; at < std::min(bytes, kMostPiece); at += each, one.memory += one.bytes) {
      one.bytes = std::min(each, bytes - at);
      arrived_.push_back(one);
    }
    in.make_room(i);
  }
  return arrived_;
}

void Socket::rest(std::chrono::microseconds time) {
  pollfd wait = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(time);
  const timespec limit = {.tv_sec = whole.count(),
                          .tv_nsec = std::chrono::nanoseconds(time - whole).count()};
  static_cast<void>(ppoll(&wait, 1, &limit, nullptr));
}

int Socket::take_trouble() { return std::exchange(trouble_, 0); }

}  // namespace peal::softnic::roce
