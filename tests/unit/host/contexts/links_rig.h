// SPDX-License-Identifier: Apache-2.0
//
// Links between PEs that are played in one thread, each with queues of its own on the software NIC.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "host/contexts/link_machine.h"
#include "host/transport/rails.h"

namespace peal {

class LinksRig : public testing::Test {
 protected:
  static constexpr uint32_t kQueuesPerPeer = 2;

  LinksRig() { doorbells_.emplace_back(rails_.nics()[0].device, nullptr, DoorbellKind::kAuto); }

  std::unique_ptr<Queues> queues(uint32_t n_pes) {
    return std::make_unique<Queues>(
        rails_, Carrier{&doorbells_, nullptr}, n_pes,
        QueueShape{.queues_per_peer = kQueuesPerPeer, .depth = 128},
        QueueWiring{.timeout_ns = 0, .stop = &stop_, .alarm = &alarm_, .requests = requests_});
  }

  std::unique_ptr<Bootstrap> alone_ = bootstrap::make_single();
  const Config config_ = Config::defaults();
  const Log log_{LogLevel::kError};
  Rails rails_{config_, nullptr, *alone_, log_};
  Doorbells doorbells_;
  uint32_t stop_ = 0;
  uint32_t alarm_ = 0;
  uint32_t requests_[4] = {};
};

}  // namespace peal
