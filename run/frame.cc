// SPDX-License-Identifier: Apache-2.0
#include "run/frame.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "host/base/error.h"

namespace peal::run {
namespace {

struct Head {
  std::uint32_t note;
  std::uint32_t number;
  std::uint64_t bytes;
};

constexpr std::uint64_t kLongest = std::uint64_t{64} << 20;
constexpr std::size_t kChunk = std::size_t{64} << 10;  // on the heap: a stack may have no more

}  // namespace

std::string pack(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    const std::uint64_t length = text.size();
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
  }
  return bytes;
}

std::vector<std::string> unpack(std::string_view bytes) {
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    std::uint64_t length = 0;
    if (bytes.size() >= sizeof length) std::memcpy(&length, bytes.data(), sizeof length);
    if (bytes.size() < sizeof length || bytes.size() - sizeof length < length) {
      fail(ErrorCode::kInternal, "peal-run: a list of texts that breaks off");
    }
    texts.emplace_back(bytes.substr(sizeof length, length));
    bytes.remove_prefix(sizeof length + length);
  }
  return texts;
}

FrameStream::FrameStream(Fd in, Fd out) : in_(std::move(in)), out_(std::move(out)) {
  for (const int fd : {this->in(), this->out()}) {
    if (!set_non_blocking(fd)) fail_errno(errno, "fcntl(O_NONBLOCK)");
  }
}

void FrameStream::send(const Frame& frame) {
  if (broken_) return;
  const Head head{static_cast<std::uint32_t>(frame.note), frame.number, frame.bytes.size()};
  to_write_.append({reinterpret_cast<const char*>(&head), sizeof head});
  to_write_.append(frame.bytes);
}

bool FrameStream::write_some() {
  while (!broken_ && to_write_.size() > 0) {
    const ssize_t n = ::write(out(), to_write_.view().data(), to_write_.size());
    if (n < 0 && would_block(errno)) break;
    broken_ = n < 0;
    to_write_.drop(broken_ ? to_write_.size() : static_cast<std::size_t>(n));
  }
  return !broken_;
}

bool FrameStream::read_some() {
  std::vector<char> chunk(kChunk);
  const ssize_t n = ::read(in(), chunk.data(), chunk.size());
  if (n < 0) return would_block(errno);
  read_.append({chunk.data(), static_cast<std::size_t>(n)});
  return n > 0;
}

bool FrameStream::greeted() {
  const std::size_t at = read_.view().find(kGreeting);
  if (at == std::string_view::npos) return false;
  read_.drop(at + kGreeting.size());
  return true;
}

std::optional<Frame> FrameStream::next() {
  Head head;
  if (read_.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, read_.view().data(), sizeof head);
  if (head.note < 1 || head.note > static_cast<std::uint32_t>(Note::kRestarted) ||
      head.bytes > kLongest) {
    fail(ErrorCode::kInternal, "peal-run: a frame of unknown kind {}", head.note);
  }
  if (read_.size() - sizeof head < head.bytes) return std::nullopt;
  Frame frame{static_cast<Note>(head.note), head.number,
              std::string(read_.view().substr(sizeof head, head.bytes))};
  read_.drop(sizeof head + head.bytes);
  return frame;
}

}  // namespace peal::run
