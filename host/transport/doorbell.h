// SPDX-License-Identifier: Apache-2.0
//
// How the queues of a PE ring its NIC.
//
//   kernels   store into the NIC's register, which is mapped for them
//   a CPU     kernels store into words of host memory, and a thread copies those (assist.h)
//
// The second is for GPUs that may not map the register.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "host/base/config.h"
#include "host/memory/backing.h"
#include "host/memory/backing_cuda.h"
#include "host/nic/device.h"
#include "host/nic/register_page.h"
#include "host/transport/assist.h"

namespace peal {

/// Where the queues of one context ring. Outlived by its Doorbell.
class Bells {
 public:
  /// `reg` for all.
  explicit Bells(uint64_t* reg) : register_(reg) {}
  /// A word each: the first `count` of `words`, which are zero.
  Bells(std::shared_ptr<Assist> assist, Backing words, size_t count);
  ~Bells();
  Bells(const Bells&) = delete;
  Bells& operator=(const Bells&) = delete;

  /// A CPU thread rings.
  bool assisted() const { return assist_ != nullptr; }
  /// SendQueue::doorbell of a queue.
  uint64_t* of(size_t index) const;

 private:
  uint64_t* register_ = nullptr;
  std::shared_ptr<Assist> assist_;
  std::optional<Backing> words_;
};

/// The doorbell page that the queues of a PE share, and who rings. Made after the heap's window:
/// the software NIC may have gone to a GPU with it, and has its pages in GPU memory then. Outlived
/// by the NIC.
class Doorbell {
 public:
  /// `gpu` is that of the kernels, null when they run on the CPU. With kAuto a CPU rings where the
  /// GPU may not. Throws kUnsupported (kGpu: the GPU may not; kCpu: a CPU cannot either) that names
  /// the remedy.
  Doorbell(const nic::Device& device, std::shared_ptr<Gpu> gpu, DoorbellKind asked);

  const nic::RegisterPage& page() const { return page_; }
  /// For the queues of one context.
  Bells bells(size_t count) const;

  /// "kernels ring", "a CPU thread rings for kernels (...)".
  std::string describe() const;
  /// What people should know: a CPU rings though none was asked for, why, and the remedy. Else
  /// empty.
  const std::string& warning() const { return warning_; }
  bool assisted() const { return assist_ != nullptr; }
  /// Doorbells that a CPU passed on.
  uint64_t passed_on() const { return assist_ ? assist_->passed_on() : 0; }

 private:
  void map(const nic::Device& device);
  void assist(const nic::Device& device, const std::string& why);

  std::shared_ptr<Gpu> gpu_;
  nic::RegisterPage page_;
  PinnedRange pinned_;              // the page, where it is the host's and kernels run on a GPU
  uint64_t* address_ = nullptr;     // of the register, for kernels
  std::shared_ptr<Assist> assist_;  // null: kernels ring
  std::string why_assisted_;
  std::string warning_;
};

}  // namespace peal
