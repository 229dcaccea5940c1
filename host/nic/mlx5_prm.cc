// SPDX-License-Identifier: Apache-2.0
//
// Names of commands, and the complaint about a field that was set wrongly.
#include "host/nic/mlx5_prm.h"

#include "host/base/error.h"

namespace peal::nic::prm {

const char* to_string(Command command) {
  switch (command) {
    case Command::kQueryHcaCap:
      return "QUERY_HCA_CAP";
    case Command::kCreateCq:
      return "CREATE_CQ";
    case Command::kCreateQp:
      return "CREATE_QP";
    case Command::kReset2Init:
      return "RST2INIT_QP";
    case Command::kInit2Rtr:
      return "INIT2RTR_QP";
    case Command::kRtr2Rts:
      return "RTR2RTS_QP";
    case Command::kRts2Rts:
      return "RTS2RTS_QP";
    case Command::k2Error:
      return "2ERR_QP";
    case Command::k2Reset:
      return "2RST_QP";
    case Command::kQueryQp:
      return "QUERY_QP";
    case Command::kQueryLag:
      return "QUERY_LAG";
    case Command::kQueryHcaVportContext:
      return "QUERY_HCA_VPORT_CONTEXT";
  }
  return "unknown command";
}

void refuse_field(Field field, uint64_t value, size_t words) {
  fail(ErrorCode::kInternal,
       "command field dword {} [{}:{}] cannot hold {:#x} (mailbox of {} words)", field.dword,
       field.high, field.low, value, words);
}

}  // namespace peal::nic::prm
