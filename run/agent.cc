// SPDX-License-Identifier: Apache-2.0
#include "run/agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "base/poll.h"
#include "bootstrap/bootstraps.h"
#include "host/base/address.h"
#include "host/base/error.h"

namespace peal::run {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostUnwritten = std::size_t{4} << 20;  // then PEs wait until it is written
constexpr std::chrono::seconds kAgentLastWords{5};            // from SIGKILL to the agent's own end
constexpr const char* kDevices = "SIMT_DEVICES";

class Agent {
 public:
  Agent(FrameStream channel, int input) : channel_(std::move(channel)), input_(input) {
    channel_.greet();
  }

  // Until all PEs have ended and all is written, or nobody is there to read it.
  void run() {
    while (!over()) {
      step();
      if (give_up_ && Clock::now() >= *give_up_) return;
      if (kill_ && Clock::now() >= *kill_) kill_all();
    }
  }

 private:
  bool over() const {
    const auto silent = [](const auto& one) {
      return one->told && !one->pe.output.fd && !one->pe.errors.fd;
    };
    const bool done = started_ ? std::ranges::all_of(pes_, silent) : ending_;
    return done && (channel_.pending() == 0 || !connected_);
  }

  struct Member {
    Member(const StartCommand& command, int input) : pe(command, input) {}
    LaunchedPe pe;
    bool told = false;  // the head knows how it ended
    int restarts = 0;   // processes that were this PE before
  };

  void step() {
    std::vector<pollfd> fds{
        {.fd = connected_ ? channel_.in() : -1, .events = POLLIN, .revents = 0},
        {.fd = channel_.pending() > 0 ? channel_.out() : -1, .events = POLLOUT, .revents = 0}};
    const bool room = channel_.pending() < kMostUnwritten;
    for (const auto& one : pes_) {
      for (const int fd : {one->told ? -1 : one->pe.process(), room ? one->pe.output.fd.get() : -1,
                           room ? one->pe.errors.fd.get() : -1}) {
        fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
      }
    }
    if (poll_until(fds, std::min(kill_.value_or(kNever), give_up_.value_or(kNever))) < 0) {
      fail_errno(errno, "poll");
    }
    if (fds[1].revents != 0 && !channel_.write_some()) lose_head();
    for (std::size_t i = 0; i < pes_.size(); ++i) {
      const pollfd* const its = &fds[2 + 3 * i];
      if (its[0].revents != 0) bury(i);
      if (its[1].revents != 0) hand_on(i, Note::kOutput, pes_[i]->pe.output);
      if (its[2].revents != 0) hand_on(i, Note::kErrors, pes_[i]->pe.errors);
    }
    if (fds[0].revents != 0) hear();  // last: it may bring PEs that fds does not have
  }

  void hear() {
    if (!channel_.read_some()) return lose_head();
    while (const std::optional<Frame> frame = channel_.next()) {
      switch (frame->note) {
        case Note::kPrepare:
          prepare(PeRange::from_bytes(frame->bytes));
          break;
        case Note::kStart:
          start(frame->bytes);
          break;
        case Note::kNotWhole:
          whole_ = false;
          break;
        case Note::kSignal:
          asked_to_end_ |= frame->number != SIGUSR1 && frame->number != SIGUSR2;
          for (const auto& one : pes_) one->pe.signal(static_cast<int>(frame->number));
          break;
        default:
          end();
      }
    }
  }

  // Looks whether PEs could be started, before any of the job's is.
  void prepare(const PeRange& share) {
    share_ = share;
    std::string id;
    try {
      check(share.command);
      if (share.first == 0) {
        id_.emplace(find_address(share.interface));
        id = id_->id().to_string();
      }
    } catch (const CannotStart& error) {
      return refuse(error.exit_code, error.why);
    } catch (const Error& error) {
      return refuse(1, error.what());
    }
    channel_.send({Note::kReady, 0, id});
  }

  void start(const std::string& id) {
    if (ending_) return;
    started_ = true;
    job_ = id;
    // First, so that one of the user's counts. CUDA on a CPU: programs take devices for PEs.
    if (std::getenv(kDevices) == nullptr) {
      auto& environment = share_.command.environment;
      environment.insert(environment.begin(), fmt::format("{}={}", kDevices, share_.count));
    }
    try {
      for (int i = 0; i < share_.count; ++i) {
        pes_.push_back(make_member(share_.first + i, 0));
      }
      complain();
    } catch (const CannotStart& error) {
      refuse(error.exit_code, error.why);
    } catch (const Error& error) {
      refuse(1, error.what());
    }
  }

  // The process of `rank` after `restarts` others.
  std::unique_ptr<Member> make_member(int rank, int restarts) const {
    StartCommand command = share_.command;
    command.environment.insert(command.environment.end(),
                               {"PEAL_TCP_ID=" + job_, fmt::format("PEAL_TCP_RANK={}", rank),
                                fmt::format("PEAL_TCP_SIZE={}", share_.size),
                                fmt::format("PEAL_TCP_RESTART={}", restarts)});
    auto member = std::make_unique<Member>(command, rank == 0 ? input_ : -1);
    member->restarts = restarts;
    return member;
  }

  void complain() const {
    for (const auto& one : pes_) {
      const std::string& why = one->pe.no_terminal();
      if (why.empty()) continue;
      fmt::print(stderr,
                 "peal-run: no terminal for the PEs' standard output ({}): it is a pipe, and what "
                 "a program prints may stay in its buffer (--no-pty: say nothing)\n",
                 why);
      return;
    }
  }

  void refuse(int exit_code, const std::string& why) {
    channel_.send({Note::kRefused, static_cast<std::uint32_t>(exit_code), why});
    end();
  }

  void hand_on(std::size_t index, Note note, OutputStream& stream) {
    std::string lines = stream.read();
    if (lines.empty()) return;
    channel_.send({note, rank_of(index), std::move(lines)});
  }

  // A process has ended. What it wrote before goes first.
  void bury(std::size_t index) {
    Member& one = *pes_[index];
    const std::optional<int> status = one.pe.status();
    if (!status) return;
    hand_on(index, Note::kOutput, one.pe.output);
    hand_on(index, Note::kErrors, one.pe.errors);
    if (*status != 0 && may_replace(one)) return replace(index, *status);
    whole_ = false;
    channel_.send({Note::kExited, rank_of(index),
                   pack({std::to_string(one.pe.pid()), std::to_string(*status)})});
    one.told = true;
    // Who it has started may hold its pipes open for ever.
    if (std::ranges::all_of(pes_, [](const auto& other) { return other->told; }) && !kill_) {
      kill_ = Clock::now() + share_.grace;
    }
  }

  // Not where the job is to end, nor where it cannot be whole again: a PE has ended for good.
  bool may_replace(const Member& one) const {
    return whole_ && !ending_ && !asked_to_end_ && one.restarts < share_.restarts;
  }

  void replace(std::size_t index, int status) {
    pes_[index]->pe.signal(SIGKILL);  // what it has started may hold its addresses
    const int restarts = pes_[index]->restarts + 1;
    channel_.send({Note::kRestarted, rank_of(index),
                   pack({std::to_string(pes_[index]->pe.pid()), std::to_string(status),
                         std::to_string(restarts)})});
    try {
      pes_[index] = make_member(static_cast<int>(rank_of(index)), restarts);
    } catch (const CannotStart& error) {
      refuse(error.exit_code, error.why);
    } catch (const Error& error) {
      refuse(1, error.what());
    }
  }

  void lose_head() {
    connected_ = false;
    end();
  }

  void end() {
    if (ending_) return;
    ending_ = true;
    for (const auto& one : pes_) {
      one->pe.signal(SIGTERM);
      one->pe.signal(SIGCONT);  // a stopped process does not hear the first
    }
    kill_ = Clock::now() + share_.grace;
  }

  void kill_all() {
    for (const auto& one : pes_) one->pe.signal(SIGKILL);
    kill_.reset();
    give_up_ = Clock::now() + kAgentLastWords;
  }

  std::uint32_t rank_of(std::size_t index) const {
    return static_cast<std::uint32_t>(share_.first) + static_cast<std::uint32_t>(index);
  }

  static constexpr Clock::time_point kNever = Clock::time_point::max();

  FrameStream channel_;
  int input_;
  PeRange share_;
  std::optional<bootstrap::ReservedId> id_;
  std::string job_;  // its id
  std::vector<std::unique_ptr<Member>> pes_;
  bool connected_ = true;
  bool started_ = false;
  bool ending_ = false;
  bool whole_ = true;          // no PE has ended for good, on any host
  bool asked_to_end_ = false;  // by a signal: a PE that ends of it is not replaced
  std::optional<Clock::time_point> kill_;
  std::optional<Clock::time_point> give_up_;
};

}  // namespace

std::string PeRange::to_bytes() const {
  return pack({std::to_string(first), std::to_string(count), std::to_string(size),
               std::to_string(grace.count()), std::to_string(restarts), interface, command.folder,
               command.terminal ? "pty" : "", pack(command.argv), pack(command.environment)});
}

PeRange PeRange::from_bytes(const std::string& bytes) {
  const std::vector<std::string> texts = unpack(bytes);
  if (texts.size() != 10) fail(ErrorCode::kInternal, "peal-run: a share of {} texts", texts.size());
  PeRange share;
  share.first = std::stoi(texts[0]);
  share.count = std::stoi(texts[1]);
  share.size = std::stoi(texts[2]);
  share.grace = std::chrono::milliseconds(std::stoll(texts[3]));
  share.restarts = std::stoi(texts[4]);
  share.interface = texts[5];
  share.command = {.argv = unpack(texts[8]),
                   .environment = unpack(texts[9]),
                   .folder = texts[6],
                   .terminal = !texts[7].empty()};
  return share;
}

int run_agent(FrameStream channel, int input) {
  ::signal(SIGPIPE, SIG_IGN);
  Agent(std::move(channel), input).run();
  return 0;
}

}  // namespace peal::run
