// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/forks.h"
#include "base/poll.h"
#include "host/base/error.h"
#include "run/agent.h"
#include "run/options.h"
#include "run/printer.h"
#include "run/remote.h"

namespace peal::run {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostUnprinted = std::size_t{4}
                                       << 20;       // then agents wait until it is printed
constexpr std::chrono::seconds kStart{60};          // for all agents to be ready
constexpr std::chrono::seconds kHeadLastWords{15};  // for agents, beyond the grace of their PEs
// News of the death that a PE noticed and ended by come from another agent: a moment later than of
// that PE's end, if that agent has less of its CPU.
constexpr std::chrono::seconds kLaterNews{1};
constexpr int kFailed = 1;
constexpr int kNobodyReads = 128 + SIGPIPE;

// Signals that are handed on, but for those that whoever started peal-run had it ignore (nohup).
class Signals {
 public:
  Signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2}) {
      struct sigaction now {};
      ::sigaction(number, nullptr, &now);
      if (now.sa_handler != SIG_IGN) ::sigaddset(&set, number);
    }
    ::signal(SIGPIPE, SIG_IGN);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    fd_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_) fail_errno(errno, "signalfd");
  }
  int fd() const { return fd_.get(); }
  std::optional<int> next() const {
    signalfd_siginfo info{};
    if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  Fd fd_;
};

/// A PE that did not return 0.
struct PeDeath {
  std::uint32_t pe;
  const RemoteAgent* agent;
  std::string pid;
  int status;  // of waitpid()

  /// An exit code, or the signal of an exception that nobody caught or of a broken pipe: what the
  /// death of another one leads to.
  bool may_follow() const {
    if (!WIFSIGNALED(status)) return true;
    return WTERMSIG(status) == SIGABRT || WTERMSIG(status) == SIGPIPE;
  }
};

class HeadOfJob {
 public:
  explicit HeadOfJob(const RunOptions& options) : options_(options) {
    int first = 0;
    for (const Host& host : options.hosts) {
      agents_.emplace_back(options, host, first);
      first += host.pes;
    }
    limit_ = Clock::now() + kStart;
  }

  int run() {
    while (!over()) {
      step();
      if (first_ && Clock::now() >= blame_at_) blame(*first_);
      if (limit_ && Clock::now() >= *limit_) give_up();
    }
    return failure_.value_or(0);
  }

 private:
  bool all_gone() const {
    return std::ranges::all_of(
        agents_, [](const RemoteAgent& agent) { return agent.state == RemoteAgent::State::kGone; });
  }
  std::size_t unread() const { return output_.pending() + errors_.pending(); }
  bool over() const { return unread() == 0 && all_gone(); }

  void step() {
    std::vector<pollfd> fds{
        {.fd = signals_.fd(), .events = POLLIN, .revents = 0},
        {.fd = output_.pending() > 0 ? output_.fd() : -1, .events = POLLOUT, .revents = 0},
        {.fd = errors_.pending() > 0 ? errors_.fd() : -1, .events = POLLOUT, .revents = 0}};
    const bool room = unread() < kMostUnprinted;
    for (const RemoteAgent& agent : agents_) {
      const bool gone = agent.state == RemoteAgent::State::kGone;
      fds.push_back(
          {.fd = gone || !room ? -1 : agent.channel.in(), .events = POLLIN, .revents = 0});
      fds.push_back({.fd = gone || agent.channel.pending() == 0 ? -1 : agent.channel.out(),
                     .events = POLLOUT,
                     .revents = 0});
      fds.push_back({.fd = gone ? -1 : agent.complaints.fd.get(), .events = POLLIN, .revents = 0});
    }
    const auto limit = limit_.value_or(Clock::time_point::max());
    if (poll_until(fds, first_ ? std::min(limit, blame_at_) : limit) < 0) fail_errno(errno, "poll");
    if (fds[0].revents != 0) hand_on_signals();
    if (fds[1].revents != 0 && !output_.write_some()) lose_output();
    if (fds[2].revents != 0) errors_.write_some();
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      const pollfd* const its = &fds[3 + 3 * i];
      if (its[2].revents != 0) complain(agents_[i]);
      if (its[1].revents != 0) agents_[i].channel.write_some();
      if (its[0].revents != 0) hear(agents_[i]);
    }
  }

  void hear(RemoteAgent& agent) {
    const bool more = agent.channel.read_some();
    if (agent.state == RemoteAgent::State::kStarting && agent.channel.greeted()) {
      agent.state = RemoteAgent::State::kGreeted;
      prepare(agent);
    }
    if (agent.state != RemoteAgent::State::kStarting) {
      while (const std::optional<Frame> frame = agent.channel.next()) take(agent, *frame);
    }
    if (!more) lose(agent);
  }

  void prepare(RemoteAgent& agent) {
    PeRange share{.first = agent.first(),
                  .count = agent.host().pes,
                  .size = options_.size(),
                  .grace = options_.grace,
                  .restarts = options_.restarts,
                  .interface = options_.interface,
                  .command = {.argv = options_.argv,
                              .environment = options_.exports,
                              .folder = options_.folder,
                              .terminal = options_.terminal}};
    // Between PEs of one machine nothing leaves it.
    if (agents_.size() == 1 && share.interface.empty()) share.interface = "127.0.0.1";
    agent.channel.send({Note::kPrepare, 0, share.to_bytes()});
  }

  void take(RemoteAgent& agent, const Frame& frame) {
    switch (frame.note) {
      case Note::kReady:
        if (!frame.bytes.empty()) id_ = frame.bytes;
        agent.state = RemoteAgent::State::kReady;
        return start_when_all_are_ready();
      case Note::kRefused:
        say("{}: {}", agent.where(), frame.bytes);
        agent.living = 0;  // those it had started end with it
        return stop(static_cast<int>(frame.number));
      case Note::kOutput:
        return output_.add(prefix_of(frame.number), frame.bytes);
      case Note::kErrors:
        return errors_.add(prefix_of(frame.number), frame.bytes);
      case Note::kExited:
        return bury(agent, frame);
      case Note::kRestarted:
        return tell_of_restart(agent, frame);
      default:
        fail(ErrorCode::kInternal, "peal-run: an agent sent a head's frame");
    }
  }

  void start_when_all_are_ready() {
    for (const RemoteAgent& agent : agents_) {
      if (agent.state != RemoteAgent::State::kReady) return;
    }
    if (stopped_) return;
    limit_.reset();
    for (RemoteAgent& agent : agents_) {
      agent.living = agent.host().pes;
      agent.channel.send({Note::kStart, 0, id_});
    }
  }

  void bury(RemoteAgent& agent, const Frame& frame) {
    --agent.living;
    if (options_.restarts > 0) tell_all({Note::kNotWhole, 0, ""});
    const std::vector<std::string> texts = unpack(frame.bytes);
    const PeDeath death{frame.number, &agent, texts.at(0), std::stoi(texts.at(1))};
    if (death.status != 0) suspect(death);
    if (first_ && living() == 0) blame(*first_);
  }

  // What ends after the first is a consequence, or asked for.
  void suspect(const PeDeath& death) {
    const bool decided = stopped_ || failure_ || options_.keep_going || agents_.size() == 1;
    if (decided || !death.may_follow()) return blame(death);
    if (first_) return;
    first_ = death;
    blame_at_ = Clock::now() + kLaterNews;
  }

  // The job ends by this death, if it is the first. By value: first_ may be it.
  void blame(const PeDeath death) {
    first_.reset();
    const int left = living();
    if (!stopped_ && (!failure_ || options_.keep_going)) {
      say("PE {} of {} ({}, pid {}) {}{}", death.pe, options_.size(), death.agent->where(),
          death.pid, how_it_ended(death.status),
          left == 0 || options_.keep_going ? "" : fmt::format("; ending the other {}", left));
    }
    const int code = exit_code_of(death.status);
    if (!failure_) failure_ = code;
    if (!options_.keep_going) stop(code);
  }

  int living() const {
    int all = 0;
    for (const RemoteAgent& agent : agents_) all += agent.living;
    return all;
  }

  void tell_of_restart(const RemoteAgent& agent, const Frame& frame) {
    const std::vector<std::string> texts = unpack(frame.bytes);
    say("PE {} of {} ({}, pid {}) {}; started again ({} of {} times)", frame.number,
        options_.size(), agent.where(), texts.at(0), how_it_ended(std::stoi(texts.at(1))),
        texts.at(2), options_.restarts);
  }

  void complain(RemoteAgent& agent) {
    const std::string lines = agent.complaints.read();
    errors_.add(options_.prefix ? "[" + agent.where() + "] " : "", lines);
  }

  // The connection has ended: as it should, once its PEs have; else they are gone with it.
  void lose(RemoteAgent& agent) {
    agent.state = RemoteAgent::State::kGone;
    const std::string how = agent.end();
    complain(agent);
    if (agent.living <= 0 && (stopped_ || !limit_)) return;
    const int last = agent.first() + agent.host().pes - 1;
    say("{}: the agent of {}{} {}, before its PEs ended; ending the job{}", agent.where(),
        last == agent.first() ? fmt::format("PE {}", last)
                              : fmt::format("PEs {}-{}", agent.first(), last),
        agent.host().remote() ? fmt::format(" ({})", options_.shell[0]) : "", how,
        options_.restarts > 0
            ? ": a PE is started again on its own host only; run the job without that host"
            : "");
    stop(kFailed);
  }

  // A reader who has gone wants no more of it, which is no error of his.
  void lose_output() {
    if (output_.error() == EPIPE) return stop(kNobodyReads);
    say("standard output: {}; ending the job", std::strerror(output_.error()));
    stop(kFailed);
  }

  void hand_on_signals() {
    while (const std::optional<int> number = signals_.next()) {
      const bool running = !limit_ && !stopped_ && !all_gone();
      const bool ends = *number != SIGUSR1 && *number != SIGUSR2;
      // The second time somebody means it.
      if (!running || (ends && asked_to_end_)) {
        stop(128 + *number);
        continue;
      }
      asked_to_end_ |= ends;
      tell_all({Note::kSignal, static_cast<std::uint32_t>(*number), ""});
    }
  }

  void tell_all(const Frame& frame) {
    for (RemoteAgent& agent : agents_) {
      agent.channel.send(frame);
      if (agent.state != RemoteAgent::State::kGone) agent.wake();
    }
  }

  // Has all agents end their PEs. The first reason is the exit code.
  void stop(int code) {
    if (first_) blame(*first_);
    if (!failure_) failure_ = code;
    if (stopped_) return;
    stopped_ = true;
    tell_all({Note::kEnd, 0, ""});
    limit_ = Clock::now() + options_.grace + kHeadLastWords;
  }

  // The limit has passed. Agents that do not answer are left alone with their PEs, which end when
  // they see the connection close. So is a reader who does not read; a slow one gets his time.
  void give_up() {
    limit_.reset();
    const std::size_t before = std::exchange(last_unread_, unread());
    const bool slow_reader = unread() != 0 && unread() != before;
    if (stopped_ && !slow_reader && all_gone()) {
      output_.close();
      return errors_.close();
    }
    for (RemoteAgent& agent : agents_) {
      const bool there = !stopped_ && agent.state == RemoteAgent::State::kReady;
      if (there || (stopped_ && slow_reader) || agent.state == RemoteAgent::State::kGone) continue;
      say("{}: no answer {}", agent.where(),
          stopped_ ? "to the end of the job; PEs may still run there"
                   : fmt::format("within {} s: is {} there?", kStart.count(), options_.agent));
      agent.cut();
      agent.living = 0;
      agent.end();
      agent.state = RemoteAgent::State::kGone;
    }
    stop(kFailed);
    limit_ = Clock::now() + options_.grace + kHeadLastWords;
  }

  std::string prefix_of(std::uint32_t pe) const {
    return options_.prefix ? fmt::format("[{}] ", pe) : "";
  }

  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    errors_.add("peal-run: ", fmt::format(format, std::forward<Args>(args)...) + "\n");
  }

  RunOptions options_;
  Signals signals_;
  Printer output_{STDOUT_FILENO};
  Printer errors_{STDERR_FILENO};
  std::vector<RemoteAgent> agents_;
  std::string id_;
  std::optional<PeDeath> first_;  // may follow from another, of which news come until blame_at_
  Clock::time_point blame_at_;
  std::optional<int> failure_;  // the exit code
  bool stopped_ = false;        // all agents are told to end
  bool asked_to_end_ = false;   // by a signal, which the PEs were told
  std::size_t last_unread_ = 0;
  std::optional<Clock::time_point> limit_;  // of the start, later of the end
};

}  // namespace

int run_head(const RunOptions& options) { return HeadOfJob(options).run(); }

}  // namespace peal::run
