// SPDX-License-Identifier: Apache-2.0
//
// The NICs of a PE. Rail r of the job connects this PE's NIC r with a peer's NIC r.
//
//            rail 0   rail 1   rail 2
//   PE 0     mlx5_0   mlx5_1   mlx5_2
//   PE 1     mlx5_0   mlx5_1   mlx5_0      a PE with fewer NICs begins again
//
// Queue q of a context that uses n of them goes by rail q % n, at both ends: that is what the
// numbers are agreed for.
//
// Opening them tells what they can be used for. PEAL_TRANSPORT=auto is content with less:
//
//   a NIC that cannot be opened     another one in its place, unless PEAL_HCA names it
//   none that kernels can drive     verbs: a CPU thread of this PE posts for kernels
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/transport/model.h"
#include "host/base/config.h"
#include "host/base/log.h"
#include "host/bootstrap.h"
#include "host/memory/gpu.h"
#include "host/nic/choice.h"
#include "host/transport/doorbell.h"
#include "host/transport/ibgda.h"
#include "host/transport/signal_ops.h"

namespace peal {

class Rails {
 public:
  /// Collective. Opens the NICs that this PE uses (host/nic/choice.h); `gpu` is that of the
  /// kernels, null when they run on the CPU. config.transport says which kind of NIC and what for.
  /// Where a PE got less than that, the first PE of those that got the same warns in `log`.
  /// Where the PEs' NICs are of InfiniBand here and Ethernet there, those of a PE that has others
  /// as well change; links of different rates are told on PE 0. `one_host`: the job's PEs are on
  /// one, which is as far as the software NIC reaches. Where one PE can open no NIC, all throw.
  Rails(const Config& config, std::shared_ptr<Gpu> gpu, Bootstrap& bootstrap, const Log& log,
        bool one_host = true);

  /// The rails of the job: as many as the PE with the most NICs has.
  uint32_t count() const { return count_; }

  /// This PE's, the one of rail 0 first.
  const std::deque<IbgdaNic>& nics() const { return opened_.nics; }
  /// Which of them carries a rail.
  size_t nic_of(uint32_t rail) const { return rail % opened_.nics.size(); }

  /// These NICs, and why: "mlx5_3: same PCIe switch as GPU 2".
  const std::string& why() const { return opened_.why; }
  /// Why a CPU thread posts for kernels though PEAL_TRANSPORT=auto, for PEAL_INFO; empty if that is
  /// not so.
  const std::string& why_proxy() const { return opened_.why_proxy; }
  /// For reports: "mlx5_0", "mlx5_0+mlx5_1"; of software NICs "softnic-cpu" and, if there are
  /// several, their names: "softnic-cpu(mlx5_0+mlx5_1)".
  std::string model() const;
  nic::KeyOrdering payload() const { return opened_.nics[0].payload; }
  /// A number that no other PE has: whoever can read it from a PE's heap has reached that PE.
  uint64_t owner() const { return owner_; }
  /// How signals travel in this job.
  const SignalOps& signal_ops() const { return signal_ops_; }

 private:
  void open(const Config& config, const std::shared_ptr<Gpu>& gpu, bool one_host);
  bool open_foreign(const Config& config, const std::shared_ptr<Gpu>& gpu);
  void open_by(const std::shared_ptr<const nic::VerbsLibrary>& library, const Config& config,
               const std::shared_ptr<Gpu>& gpu);
  std::string names() const;
  std::string warning() const;
  PlacementOffer placement_offer() const;
  struct Found;
  Found found() const;
  std::vector<Found> open_alike(const Config& config, const std::shared_ptr<Gpu>& gpu,
                                Bootstrap& bootstrap, bool one_host, std::vector<Found> found);
  static void warn_of_rates(const Log& log, const std::vector<Found>& all);
  void agree_on_signal_ops(SignalOpsSetting asked, const std::vector<PlacementOffer>& offers);

  struct Opened {
    std::deque<IbgdaNic> nics;  // which never move
    std::string why;
    std::string why_proxy;
    std::vector<nic::UnusableNic> left_out;
  };
  Opened opened_;
  std::optional<nic::LinkLayer> link_layer_;  // that its NICs must have, to meet other PEs'
  uint32_t count_ = 0;
  uint64_t owner_;
  SignalOps signal_ops_;
};

/// A page for each of Rails::nics().
using Doorbells = std::deque<Doorbell>;

}  // namespace peal
