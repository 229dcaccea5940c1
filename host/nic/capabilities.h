// SPDX-License-Identifier: Apache-2.0
//
// What QUERY_HCA_CAP says about a NIC, and whether that is enough for a GPU to drive it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "host/nic/verbs.h"

namespace peal::nic {

/// The capabilities peal depends on, decoded.
struct Capabilities {
  uint32_t cqe_version = 0;
  bool reliable_connection = false;
  bool atomics = false;
  bool cq_overrun_ignore = false;
  bool atomic_host_endian = false;    // 8-byte results arrive in host byte order
  uint32_t atomic_operations = 0;     // bit 0 CS, 1 FA, 2 masked CS, 3 masked FA
  uint32_t atomic_sizes = 0;          // bit n: 2^n bytes
  uint32_t log_max_queue_blocks = 0;  // WQEBBs of one queue
  uint32_t log_max_qp = 0;            // queue pairs, of all processes together
  uint32_t log_max_cq = 0;
  uint32_t log_max_message = 0;
  uint32_t log_max_responder_depth = 0;  // READs and atomics in flight at a target
  uint32_t log_max_initiator_depth = 0;
  uint32_t max_wqe_bytes = 0;
  bool ticks_only = true;     // time stamps: a queue pair cannot ask for the NIC's default format
  uint32_t bonded_ports = 0;  // ports of the bond that queue pairs can be spread over; 0: no bond
  bool lag_port_in_rts = false;  // and which one may be said of a queue pair that is ready to send
  bool forces_order = false;     // dp_ordering_force: see host/nic/placement.h
  bool relaxed_only = false;     // memory keys without relaxed ordering are refused
  bool takes_any_order = false;  // dp_ordering_ooo_rw_rc: a queue pair may ask for adaptive routing
  bool pci_atomics = false;      // executed by the bus: see host/nic/placement.h
  bool places_all_out_of_order = false;  // dp_ordering_ooo_all_rc
  bool tells_ooo_sls = false;            // query_ooo_sl_mask() will be answered
  uint16_t min_udp_port = 0xc000;  // RoCE v2: of sources; what the IBA's annex 17 says where the
  uint16_t max_udp_port = 0xffff;  // NIC says nothing

  friend bool operator==(const Capabilities&, const Capabilities&) = default;
};

/// Asks the NIC. Throws kSystem or kUnsupported when it does not answer.
Capabilities query_capabilities(const VerbsLibrary& library, ibv_context* context);

/// The service levels of an InfiniBand port on which packets may arrive out of order; none where
/// the NIC does not tell this client.
std::optional<uint16_t> query_ooo_sl_mask(const VerbsLibrary& library, ibv_context* context,
                                          uint8_t port);

/// Which of the NIC's counter sets counts what goes wrong at `port`: out of sequence, retries, time
/// outs (/sys/class/infiniband/D/ports/P/hw_counters). Read from a queue pair that Linux makes for
/// the purpose and names its set to; one made by firmware commands is counted nowhere unless it is
/// named to that as well. 0, where nobody looks, if that is not possible.
uint8_t counter_set_of(const VerbsLibrary& library, ibv_context* context, uint8_t port);

/// Throws kUnsupported that lists everything `device` lacks; returns when it lacks nothing.
void require(const Capabilities& capabilities, const std::string& device);

}  // namespace peal::nic
