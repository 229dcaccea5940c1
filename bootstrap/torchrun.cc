// SPDX-License-Identifier: Apache-2.0
//
// A job of torchrun's processes. MASTER_PORT itself belongs to torch's store, whose protocol is its
// own affair. So rank 0 listens beside it, and all ranks know where to look.
//
//   MASTER_PORT + 1 .. + 16 (or - 1 .. - 16 at the upper end)    rank 0 takes the first free one
//   secret = hash of host, port, size, run id, restart           alike on all ranks, of no other
//   job
#include <fmt/format.h>
#include <nettle/sha2.h>

#include <charconv>
#include <vector>

#include "bootstrap/join.h"
#include "bootstrap/launchers.h"
#include "bootstrap/proof.h"
#include "bootstrap/star.h"
#include "host/base/address.h"
#include "host/base/error.h"

namespace peal::bootstrap {
namespace {

constexpr int kPorts = 16;

// Tells jobs apart; hides nothing, and need not.
Secret secret_of(const TorchJob& job) {
  const std::string text =
      fmt::format("peal torchrun\n{}\n{}\n{}\n{}", job.host, job.port, job.size, job.run);
  sha256_ctx hash;
  ::sha256_init(&hash);
  ::sha256_update(&hash, text.size(), reinterpret_cast<const std::uint8_t*>(text.data()));
  Secret secret;
  ::sha256_digest(&hash, secret.size(), reinterpret_cast<std::uint8_t*>(secret.data()));
  return secret;
}

// Where rank 0 may listen: one id for each port.
std::vector<UniqueId> places(const TorchJob& job, const InternetAddress& address) {
  const bool above = job.port <= 65535 - kPorts;
  UniqueId id{.secret = secret_of(job), .address = address};
  std::vector<UniqueId> ids;
  for (int i = 1; i <= kPorts; ++i) {
    id.port = static_cast<std::uint16_t>(job.port + (above ? i : -i));
    ids.push_back(id);
  }
  return ids;
}

// All addresses of this machine: of IPv6 and IPv4 (::), where the kernel has IPv6.
InternetAddress all_addresses() {
  const Fd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket ? InternetAddress{} : *parse_internet("0.0.0.0");
}

TcpRoot listen_at_any(const std::vector<UniqueId>& ids) {
  std::string last;
  for (const UniqueId& id : ids) {
    try {
      return TcpRoot(id);
    } catch (const Error& error) {
      last = error.what();
    }
  }
  fail(ErrorCode::kSystem, "no port beside MASTER_PORT is free, from {} to {}: {}",
       ids.front().port, ids.back().port, last);
}

}  // namespace

TorchJob TorchJob::from(const std::map<std::string, std::string>& variables) {
  const auto text = [&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
  TorchJob job;
  // Known to be numbers (choose_launch).
  job.rank = std::stoi(text("RANK"));
  job.size = std::stoi(text("WORLD_SIZE"));
  job.host = text("MASTER_ADDR");
  job.run = text("TORCHELASTIC_RUN_ID") + "\n" + text("TORCHELASTIC_RESTART_COUNT");
  const std::string port = text("MASTER_PORT");
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), job.port);
  if (error != std::errc() || end != port.data() + port.size() || job.port == 0) {
    fail(ErrorCode::kConfiguration, "MASTER_PORT={} is not a port from 1 to 65535", port);
  }
  return job;
}

std::unique_ptr<Bootstrap> make_torchrun(const TorchJob& job, Deadline deadline) {
  check_deadline(deadline);
  if (job.rank != 0) {
    return join(places(job, resolve_host(job.host)),
                {.rank = job.rank, .size = job.size, .deadline = deadline});
  }
  // The host's own name may lead to an address that only this machine knows: listens at all.
  const bool local = job.host == "localhost" || job.host.starts_with("127.") ||
                     parse_internet(job.host) == parse_internet("::1");
  return make_tcp(listen_at_any(places(job, local ? resolve_host(job.host) : all_addresses())),
                  job.size, deadline);
}

}  // namespace peal::bootstrap
