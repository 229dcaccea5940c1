// SPDX-License-Identifier: Apache-2.0
//
// What the head of peal-run and its agents, one a host, tell each other: a greeting line from the
// agent, then frames both ways over one connection: a socket pair, or a remote shell's standard
// input and output.
//
//   head                          agent
//    | <- "peal-run agent 3\n" --  |      what a login shell prints before is passed over
//    | -- kPrepare (PeRange) ----->  |
//    | <- kReady (id) -----------  |      the agent of PE 0 makes the job's id
//    | -- kStart (id) ---------->  |      once all are ready
//    | <- kOutput, kErrors ------  |      whole lines of one PE
//    | <- kExited (status) ------  |      a PE's process has ended, after its output
//    | <- kRestarted (status) ---  |      the same, and another has taken its place
//    | -- kNotWhole ----------->  |      a PE has ended for good: none is started from then on
//    | -- kSignal, kEnd -------->  |
//    | <- end of the stream -----  |      all PEs have ended; the other way round: end them
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "run/byte_queue.h"

namespace peal::run {

inline constexpr std::string_view kGreeting = "peal-run agent 3\n";

enum class Note : std::uint32_t {
  kPrepare = 1,
  kStart,
  kNotWhole,
  kSignal,  // number: the signal
  kEnd,
  kReady,
  kRefused,  // number: the exit code for it; bytes: why
  kOutput,   // number: the PE
  kErrors,
  kExited,     // number: the PE; bytes: pid and wait status
  kRestarted,  // the same, and how many processes have taken its place so far
};

struct Frame {
  Note note;
  std::uint32_t number = 0;
  std::string bytes;
};

/// A list of texts as one, and back. unpack throws kInternal for bytes that pack did not make.
std::string pack(const std::vector<std::string>& texts);
std::vector<std::string> unpack(std::string_view bytes);

/// Both directions of one connection. Never waits: who owns it polls.
class FrameStream {
 public:
  /// Reads from `in` and writes to `out`, which may be the same descriptor twice.
  FrameStream(Fd in, Fd out);

  int in() const { return in_.get(); }
  int out() const { return out_ ? out_.get() : in_.get(); }

  /// Bytes that wait to be written.
  std::size_t pending() const { return to_write_.size(); }

  void greet() { to_write_.append(kGreeting); }
  void send(const Frame& frame);

  /// Writes what the descriptor takes. False when the other side is gone: nothing is sent any more.
  bool write_some();

  /// Reads what there is. False at the end of the stream.
  bool read_some();

  /// What came before the greeting and will not be one; and whether the greeting is there.
  bool greeted();

  /// The next whole frame that was read. Throws kInternal for one that no agent or head sends.
  std::optional<Frame> next();

 private:
  Fd in_;
  Fd out_;
  ByteQueue to_write_;
  ByteQueue read_;
  bool broken_ = false;
};

}  // namespace peal::run
