// SPDX-License-Identifier: Apache-2.0
//
// Text and rate tables of libibverbs.
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>

namespace peal::softnic::abi {
namespace {

template <size_t N>
const char* text(const std::array<const char*, N>& table, int index, const char* otherwise) {
  bool known = index >= 0 && static_cast<size_t>(index) < N;
  return known ? table[static_cast<size_t>(index)] : otherwise;
}

constexpr std::array kStatusNames = {
    "success",
    "local length error",
    "local QP operation error",
    "local EE context operation error",
    "local protection error",
    "Work Request Flushed Error",
    "memory management operation error",
    "bad response error",
    "local access error",
    "remote invalid request error",
    "remote access error",
    "remote operation error",
    "transport retry counter exceeded",
    "RNR retry counter exceeded",
    "local RDD violation error",
    "remote invalid RD request",
    "aborted error",
    "invalid EE context number",
    "invalid EE context state",
    "fatal error",
    "response timeout error",
    "general error",
    "TM error",
    "TM software rendezvous",
};
static_assert(kStatusNames.size() == IBV_WC_TM_RNDV_INCOMPLETE + 1);

constexpr std::array kEvents = {
    "CQ error",
    "local work queue catastrophic error",
    "invalid request local work queue error",
    "local access violation work queue error",
    "communication established",
    "send queue drained",
    "path migrated",
    "path migration request error",
    "local catastrophic error",
    "port active",
    "port error",
    "LID change",
    "P_Key change",
    "SM change",
    "SRQ catastrophic error",
    "SRQ limit reached",
    "last WQE reached",
    "client reregistration",
    "GID table change",
    "WQ fatal",
};
static_assert(kEvents.size() == IBV_EVENT_WQ_FATAL + 1);

constexpr std::array kNodes = {
    "unknown",           "InfiniBand channel adapter",
    "InfiniBand switch", "InfiniBand router",
    "iWARP NIC",         "usNIC",
    "usNIC UDP",         "unspecified",
};
static_assert(kNodes.size() == IBV_NODE_UNSPECIFIED + 1);

constexpr std::array kPortStates = {
    "no state change (NOP)", "down", "init", "armed", "active", "active defer",
};
static_assert(kPortStates.size() == IBV_PORT_ACTIVE_DEFER + 1);

struct Rate {
  ibv_rate code;
  int multiple;  // of 2.5 Gbit/s; -1 where it is none
  int mbps;
};

constexpr Rate kRates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},       {IBV_RATE_5_GBPS, 2, 5000},
    {IBV_RATE_10_GBPS, 4, 10000},       {IBV_RATE_20_GBPS, 8, 20000},
    {IBV_RATE_30_GBPS, 12, 30000},      {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000},      {IBV_RATE_80_GBPS, 32, 80000},
    {IBV_RATE_120_GBPS, 48, 120000},    {IBV_RATE_14_GBPS, -1, 14062},
    {IBV_RATE_56_GBPS, -1, 56250},      {IBV_RATE_112_GBPS, -1, 112500},
    {IBV_RATE_168_GBPS, -1, 168750},    {IBV_RATE_25_GBPS, -1, 25781},
    {IBV_RATE_100_GBPS, -1, 103125},    {IBV_RATE_200_GBPS, -1, 206250},
    {IBV_RATE_300_GBPS, -1, 309375},    {IBV_RATE_28_GBPS, 11, 28125},
    {IBV_RATE_50_GBPS, 20, 53125},      {IBV_RATE_400_GBPS, 160, 425000},
    {IBV_RATE_600_GBPS, 240, 637500},   {IBV_RATE_800_GBPS, 320, 850000},
    {IBV_RATE_1200_GBPS, 480, 1275000},
};

/// `answer` of the first rate whose `by` is `value`.
template <class A, class B>
B found(A Rate::*by, A value, B Rate::*answer, B otherwise) {
  for (const Rate& rate : kRates)
    if (rate.*by == value) return rate.*answer;
  return otherwise;
}

}  // namespace

extern "C" {

const char* ibv_wc_status_str(ibv_wc_status status) {
  return text(kStatusNames, status, "unknown");
}
const char* ibv_event_type_str(ibv_event_type event) { return text(kEvents, event, "unknown"); }
const char* ibv_node_type_str(ibv_node_type node) { return text(kNodes, node, "unknown"); }
const char* ibv_port_state_str(ibv_port_state state) {
  return text(kPortStates, state, "invalid state");
}

int ibv_rate_to_mult(ibv_rate code) { return found(&Rate::code, code, &Rate::multiple, -1); }
int ibv_rate_to_mbps(ibv_rate code) { return found(&Rate::code, code, &Rate::mbps, -1); }

ibv_rate mult_to_ibv_rate(int multiple) {
  return multiple > 0 ? found(&Rate::multiple, multiple, &Rate::code, IBV_RATE_MAX) : IBV_RATE_MAX;
}
ibv_rate mbps_to_ibv_rate(int mbps) { return found(&Rate::mbps, mbps, &Rate::code, IBV_RATE_MAX); }

}  // extern "C"
}  // namespace peal::softnic::abi
