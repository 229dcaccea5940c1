// SPDX-License-Identifier: Apache-2.0
//
// A job of a launcher that speaks PMI 1.1 over a socket it has left open in PMI_FD: srun --mpi=pmi2
// and MPICH's mpiexec both do, so that PMI-2's own commands are not needed. A command is a line,
// and so is its answer:
//
//   cmd=init pmi_version=1 pmi_subversion=1     ->  cmd=response_to_init rc=0 ...
//   cmd=get_my_kvsname                          ->  cmd=my_kvsname kvsname=K
//   cmd=put kvsname=K key=.. value=..           ->  cmd=put_result rc=0          rank 0: the id
//   cmd=barrier_in                              ->  cmd=barrier_out              all
//   cmd=get kvsname=K key=..                    ->  cmd=get_result rc=0 value=.. the others
//   cmd=finalize                                ->  cmd=finalize_ack
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string_view>

#include "base/fd.h"
#include "base/poll.h"
#include "base/words.h"
#include "bootstrap/launchers.h"
#include "bootstrap/star.h"
#include "bootstrap/wire.h"
#include "host/base/address.h"
#include "host/base/error.h"

namespace peal::bootstrap {
namespace {

constexpr const char* kPmiKey = "peal-id";
constexpr std::size_t kLongestLine = 4096;

// "value" of " key=value" in an answer, up to the next blank; empty: it is not there.
std::string field(std::string_view line, std::string_view key) {
  while (!line.empty()) {
    std::string_view value = words::take_until(line, " ");
    if (words::take_until(value, "=") == key) return std::string(value);
  }
  return "";
}

class Pmi {
 public:
  Pmi(const PmiJob& job, Deadline deadline)
      : job_(job), deadline_(deadline), until_(Clock::now() + deadline) {
    if (::fcntl(job.fd, F_GETFD) < 0) {
      fail(ErrorCode::kConfiguration,
           "PMI_FD={} is no open descriptor: the launcher that set PMI_SIZE={} did not start this "
           "process; start it by srun or mpiexec, or set PEAL_BOOTSTRAP=single, if one PE is meant",
           job.fd, job.size);
    }
    socket_ = closed_by_exec(job.fd);
  }

  std::string ask(const std::string& command, std::string_view answer) {
    say("cmd=" + command + "\n");
    const std::string line = hear(command);
    const std::string code = field(line, "rc");
    if (field(line, "cmd") != answer || (!code.empty() && code != "0")) {
      fail(ErrorCode::kSystem, "PMI: the launcher answered '{}' to '{}'", line, command);
    }
    return line;
  }

 private:
  void say(std::string_view line) {
    while (!line.empty()) {
      const ssize_t n = ::write(socket_.get(), line.data(), line.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN && poll_until(socket_.get(), POLLOUT, until_) > 0) continue;
      if (n < 0) fail_errno(errno, "PMI: write to the launcher");
      line.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  // A byte at a time, since what follows the line would be somebody else's.
  std::string hear(const std::string& command) {
    for (std::string line; line.size() < kLongestLine;) {
      const int ready = poll_until(socket_.get(), POLLIN, until_);
      if (ready == 0) {
        fail(ErrorCode::kTimeout,
             "PMI: no answer to '{}' within {}; rank {} of {} waits for the launcher or for a rank "
             "that did not come",
             command, name_time(deadline_), job_.rank, job_.size);
      }
      char c = 0;
      const ssize_t n = ::read(socket_.get(), &c, 1);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) fail(ErrorCode::kPeerLost, "PMI: the launcher hung up after '{}'", command);
      if (c == '\n') return line;
      line += c;
    }
    fail(ErrorCode::kSystem, "PMI: the answer to '{}' has no end", command);
  }

  PmiJob job_;
  Deadline deadline_;
  TimePoint until_;
  Fd socket_;
};

}  // namespace

std::unique_ptr<Bootstrap> make_pmi(const PmiJob& job, Deadline deadline) {
  check_deadline(deadline);
  Pmi launcher(job, deadline);
  std::optional<TcpRoot> root;
  if (job.rank == 0) root.emplace(find_address(job.interface));
  launcher.ask("init pmi_version=1 pmi_subversion=1", "response_to_init");
  const std::string space =
      " kvsname=" + field(launcher.ask("get_my_kvsname", "my_kvsname"), "kvsname");
  const std::string key = std::string(" key=") + kPmiKey;
  if (root) {
    launcher.ask("put" + space + key + " value=" + root->id().to_string(), "put_result");
  }
  launcher.ask("barrier_in", "barrier_out");
  UniqueId id;
  if (!root)
    id = UniqueId::from_string(field(launcher.ask("get" + space + key, "get_result"), "value"));
  // Told now, so that the launcher takes the end of this process for what its exit code says.
  launcher.ask("finalize", "finalize_ack");
  return root ? make_tcp(std::move(*root), job.size, deadline)
              : make_tcp(id, job.rank, job.size, deadline);
}

}  // namespace peal::bootstrap
