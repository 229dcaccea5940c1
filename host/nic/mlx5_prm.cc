// SPDX-License-Identifier: Apache-2.0
//
// Names of commands, and the complaint about a field that was set wrongly.
#include "host/nic/mlx5_prm.h"

#include <utility>

#include "host/base/error.h"

namespace peal::nic::prm {

const char* to_string(Command command) {
  static constexpr std::pair<Command, const char*> kNames[] = {
      {Command::kQueryHcaCap, "QUERY_HCA_CAP"},
      {Command::kCreateCq, "CREATE_CQ"},
      {Command::kCreateQp, "CREATE_QP"},
      {Command::kReset2Init, "RST2INIT_QP"},
      {Command::kInit2Rtr, "INIT2RTR_QP"},
      {Command::kRtr2Rts, "RTR2RTS_QP"},
      {Command::kRts2Rts, "RTS2RTS_QP"},
      {Command::k2Reset, "2RST_QP"},
      {Command::kQueryQp, "QUERY_QP"},
      {Command::kQueryLag, "QUERY_LAG"},
      {Command::kQueryHcaVportContext, "QUERY_HCA_VPORT_CONTEXT"}};
  for (const auto& [known, name] : kNames) {
    if (known == command) return name;
  }
  return "unknown command";
}

void refuse_field(Field field, uint64_t value, size_t words) {
  fail(ErrorCode::kInternal,
       "command field dword {} [{}:{}] cannot hold {:#x} (mailbox of {} words)", field.dword,
       field.high, field.low, value, words);
}

}  // namespace peal::nic::prm
