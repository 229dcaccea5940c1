// SPDX-License-Identifier: Apache-2.0
#include "host/nic/mlx5/prm.h"

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "host/base/error.h"

namespace peal::nic::prm {

const char* to_string(FirmwareCommand command) {
  static constexpr std::pair<FirmwareCommand, const char*> kNames[] = {
      {FirmwareCommand::kQueryHcaCap, "QUERY_HCA_CAP"},
      {FirmwareCommand::kCreateCq, "CREATE_CQ"},
      {FirmwareCommand::kCreateQp, "CREATE_QP"},
      {FirmwareCommand::kReset2Init, "RST2INIT_QP"},
      {FirmwareCommand::kInit2Rtr, "INIT2RTR_QP"},
      {FirmwareCommand::kRtr2Rts, "RTR2RTS_QP"},
      {FirmwareCommand::kRts2Rts, "RTS2RTS_QP"},
      {FirmwareCommand::k2Reset, "2RST_QP"},
      {FirmwareCommand::kQueryQp, "QUERY_QP"},
      {FirmwareCommand::kQueryLag, "QUERY_LAG"},
      {FirmwareCommand::kQueryHcaVportContext, "QUERY_HCA_VPORT_CONTEXT"}};
  for (const auto& [known, name] : kNames) {
    if (known == command) return name;
  }
  return "unknown command";
}

void refuse_field(MailboxField field, uint64_t value, size_t words) {
  fail(ErrorCode::kInternal,
       "command field dword {} [{}:{}] cannot hold {:#x} (mailbox of {} words)", field.dword,
       field.high, field.low, value, words);
}

}  // namespace peal::nic::prm

namespace peal::nic {
namespace {

// Statuses of commands, and what usually causes them.
struct StatusText {
  uint32_t status;
  const char* name;
  const char* meaning;
};

constexpr StatusText kStatusTexts[] = {
    {0x01, "INT_ERR", "the firmware failed by itself"},
    {0x02, "BAD_OP", "the firmware does not know this command"},
    {0x03, "BAD_PARAM", "a field has a value the NIC cannot do"},
    {0x04, "BAD_SYS_STATE", "the NIC is not in a state for commands"},
    {0x05, "BAD_RES", "a number in it (pd, cq, umem, uar, qp) is unknown to the NIC"},
    {0x06, "BUSY", "the object is in use"},
    {0x08, "LIM", "a limit of the NIC is reached"},
    {0x09, "BAD_RES_STATE", "an object it names is in the wrong state"},
    {0x0a, "IX", "an index is out of range"},
    {0x0f, "NO_RES", "the NIC has no more of them: use fewer queues (PEAL_QUEUES)"},
    {0x10, "BAD_QP_STATE", "the queue pair is not in the state this transition starts from"},
    {0x30, "BAD_PKT", "a management packet was malformed"},
    {0x40, "BAD_SIZE", "too many outstanding completions for the new size"},
    {0x50, "BAD_INP_LEN", "the command is shorter or longer than the firmware expects"},
    {0x51, "BAD_OUTP_LEN", "the room for its answer is too small"},
};

StatusText status_text(uint32_t status) {
  for (const StatusText& text : kStatusTexts) {
    if (text.status == status) return text;
  }
  return {status, "unknown status", "see the firmware's manual"};
}

}  // namespace

void refuse_command(const void* in, const void* out, int error) {
  prm::Mailbox<prm::kShortOut> question;
  prm::Mailbox<prm::kShortOut> answer;
  std::memcpy(question.data(), in, question.bytes());
  std::memcpy(answer.data(), out, answer.bytes());
  const char* const name =
      prm::to_string(static_cast<prm::FirmwareCommand>(question.value(prm::kOpcode)));
  const uint32_t status = answer.value(prm::kStatus);
  if (status == 0) {
    const bool unsupported = error == EOPNOTSUPP || error == EPERM || error == EACCES;
    fail(unsupported ? ErrorCode::kUnsupported : ErrorCode::kSystem, "{} not carried out: {}{}",
         name, std::generic_category().message(error),
         unsupported ? "; peal needs DEVX: UCTX_EN in the card's settings (docs/hardware.md) and "
                       "access to /dev/infiniband/uverbs*"
                     : "");
  }
  const StatusText text = status_text(status);
  fail(ErrorCode::kSystem, "{} refused: {} ({:#04x}), syndrome {:#x}: {}", name, text.name, status,
       answer.value(prm::kSyndrome), text.meaning);
}

}  // namespace peal::nic
