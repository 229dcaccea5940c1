// SPDX-License-Identifier: Apache-2.0
#include "host/memory/host_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "device/base/mapped.h"
#include "host/base/error.h"
#include "host/memory/gpu.h"

namespace peal {
namespace {

// Returns when all that was stored up to here has arrived: the read crosses the bus behind it.
template <class Word>
void read_back(const Word* mapped) {
  fence_mapped();
  static_cast<void>(__atomic_load_n(mapped, __ATOMIC_RELAXED));
  fence_mapped();
}

/// Two pages of a GPU while it lives.
class Scratch {
 public:
  explicit Scratch(const Gpu& gpu) : gpu_(gpu) {
    gpu_.call("cuMemAlloc", &cuda::Driver::allocate, &base_, 2 * gdrcopy::kPage);
  }
  ~Scratch() {
    gpu_.release([&](const cuda::Driver& driver) { driver.release(base_); });
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* page() const {
    const cuda::DeviceAddress aligned =
        (base_ + gdrcopy::kPage - 1) / gdrcopy::kPage * gdrcopy::kPage;
    return reinterpret_cast<std::byte*>(aligned);
  }

 private:
  const Gpu& gpu_;
  cuda::DeviceAddress base_ = 0;
};

// Whether stream and view see what the other one wrote: a mapping may lead nowhere, as with a GPU
// whose memory is encrypted towards the bus.
bool agrees(const Gpu& gpu, const HostView& view, std::byte* page) {
  constexpr size_t kCount = 8;
  std::array<uint64_t, kCount> written{};
  for (size_t i = 0; i < kCount; ++i) written[i] = 0x5ea1'0000'1111'0001u * (i + 1);
  std::array<uint64_t, kCount> read{};
  auto* const words = reinterpret_cast<uint64_t*>(page);
  if (!view.store(words, written.data(), kCount)) return false;
  gpu.copy(read.data(), words, sizeof(read));
  if (read != written) return false;
  std::ranges::reverse(written);
  gpu.copy(words, written.data(), sizeof(written));
  if (!view.load(read.data(), words, kCount) || read != written) return false;
  std::array<char, 101> text{};
  std::array<char, 101> back{};
  text.fill('p');
  if (!view.copy(page + 3, text.data(), text.size())) return false;
  gpu.copy(back.data(), page + 3, back.size());
  if (back != text) return false;
  back.fill(0);
  return view.copy(back.data(), page + 3, back.size()) && back == text;
}

// How memory is mapped; kNone with the reason.
gdrcopy::Kind trial(const Gpu& gpu, const std::shared_ptr<gdrcopy::Session>& session,
                    std::string& why_not) {
  try {
    const Scratch scratch(gpu);
    const HostView view(gpu, session, scratch.page(), gdrcopy::kPage);
    if (agrees(gpu, view, scratch.page())) return view.kind_of(scratch.page(), gdrcopy::kPage);
    why_not = session->refusal();
    if (why_not.empty()) why_not = "what GDRCopy maps is not the GPU's memory";
  } catch (const Error& error) {
    why_not = error.what();
  }
  return gdrcopy::kNone;
}

}  // namespace

HostView::HostView(const Gpu& gpu, std::shared_ptr<gdrcopy::Session> session, std::byte* begin,
                   size_t bytes)
    : gpu_(gpu),
      session_(std::move(session)),
      begin_(begin),
      bytes_(bytes),
      pieces_(std::make_unique<Piece[]>((bytes + kPiece - 1) / kPiece)) {
  gpu.synchronize_calls_on(begin);
}

// The first who wants a piece has it mapped, once; where that fails it is not tried again.
HostView::Found HostView::piece_of(const void* at, size_t bytes) const {
  const size_t offset = reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(begin_);
  if (offset >= bytes_ || bytes > bytes_ - offset || bytes == 0) return {};
  const size_t number = offset / kPiece;
  if ((offset + bytes - 1) / kPiece != number) return {};  // rare, and a stream can
  Piece& piece = pieces_[number];
  std::call_once(piece.once, [&] {
    const size_t first = number * kPiece;
    gpu_.release([&](const cuda::Driver&) {  // dma-bufs are made in the current context
      piece.mapping = std::make_unique<const gdrcopy::GdrMapping>(session_, begin_ + first,
                                                                  std::min(kPiece, bytes_ - first));
    });
  });
  if (!piece.mapping || piece.mapping->begin() == nullptr) return {};
  return {piece.mapping.get(), piece.mapping->begin() + (offset - number * kPiece)};
}

bool HostView::copy(void* to, const void* from, size_t bytes) const {
  const bool in = holds(to);
  if (bytes > (in ? kMostIn : kMostOut) || (!in && !holds(from))) return false;
  // Streams copy between GPUs too; the CPU cannot.
  if (gpu_.holds(in ? from : to)) return false;
  const Found found = piece_of(in ? to : from, bytes);
  if (found.mapping == nullptr) return false;
  fence_mapped();
  if (in) {
    if (!found.mapping->copy_in(found.at, from, bytes)) return false;
    read_back(reinterpret_cast<const uint8_t*>(found.at + bytes - 1));
  } else {
    if (!found.mapping->copy_out(to, found.at, bytes)) return false;
    fence_mapped();
  }
  return true;
}

template <class Word>
bool HostView::load(Word* to, const Word* from, size_t count) const {
  if (count > kMostWords || reinterpret_cast<uintptr_t>(from) % sizeof(Word) != 0) return false;
  const Found found = piece_of(from, count * sizeof(Word));
  if (found.mapping == nullptr) return false;
  const auto* const words = reinterpret_cast<const Word*>(found.at);
  fence_mapped();  // the CPU may have looked ahead
  for (size_t i = count; i-- > 0;) {
    to[i] = __atomic_load_n(words + i, __ATOMIC_ACQUIRE);
    fence_mapped();
  }
  return true;
}

template <class Word>
bool HostView::store(Word* to, const Word* from, size_t count) const {
  if (count > kMostWords || reinterpret_cast<uintptr_t>(to) % sizeof(Word) != 0) return false;
  const Found found = piece_of(to, count * sizeof(Word));
  if (found.mapping == nullptr) return false;
  auto* const words = reinterpret_cast<Word*>(found.at);
  fence_mapped();
  for (size_t i = 0; i < count; ++i) {
    __atomic_store_n(words + i, from[i], __ATOMIC_RELEASE);
    read_back(words + i);
  }
  return true;
}

template bool HostView::load(uint32_t*, const uint32_t*, size_t) const;
template bool HostView::load(uint64_t*, const uint64_t*, size_t) const;
template bool HostView::store(uint32_t*, const uint32_t*, size_t) const;
template bool HostView::store(uint64_t*, const uint64_t*, size_t) const;

gdrcopy::Kind HostView::kind_of(const void* at, size_t bytes) const {
  const Found found = piece_of(at, bytes);
  return found.mapping == nullptr ? gdrcopy::kNone : found.mapping->kind();
}

HostAccess::HostAccess(const Gpu& gpu, const std::string& asked) {
  if (asked == "off") {
    how_ = "host words by copies of a stream (PEAL_GDRCOPY=off)";
    return;
  }
  auto [session, why_not] = gdrcopy::open(asked == "auto" ? gdrcopy::kLibraryName : asked);
  if (session) {
    const gdrcopy::Kind kind = trial(gpu, session, why_not);
    if (kind != gdrcopy::kNone) {
      how_ = fmt::format("host words by {}, mapped {}", session->name(), to_string(kind));
      session_ = std::move(session);
      return;
    }
  }
  how_ = "host words by copies of a stream: " + why_not;
}

std::string HostAccess::describe() const {
  const std::string refusal = session_ ? session_->refusal() : "";
  return refusal.empty() ? how_ : how_ + "; some by a stream: " + refusal;
}

std::unique_ptr<const HostView> HostAccess::view_of(const Gpu& gpu, std::byte* begin,
                                                    size_t bytes) const {
  if (!session_) return nullptr;
  return std::make_unique<const HostView>(gpu, session_, begin, bytes);
}

}  // namespace peal
