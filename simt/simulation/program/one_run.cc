// SPDX-License-Identifier: Apache-2.0
//
// child: simulation --Writer--> pipe --Reader--> parent: RunResult
#include "simt/simulation/program/one_run.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/fd.h"
#include "base/forks.h"
#include "simt/lanes/launch.h"
#include "simt/simulation/simulation.h"
#include "simt/simulation/story.h"

namespace peal::simt {
namespace {

// By then time has run for hours, and each wait that has a deadline has ended.
constexpr uint64_t kIdleTurns = 2000;
constexpr size_t kMostOutput = 4000;
constexpr size_t kStackBytes = size_t{256} << 10;  // a story asks for names on lanes' stacks

int pes_of_run = 0;

[[noreturn]] void fail_system(const char* what) {
  throw LaneError(std::string("simulation: ") + what + ": " +
                  std::generic_category().message(errno));
}

void write_all(int fd, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes != 0) {
    const ssize_t written = ::write(fd, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) ::_exit(3);  // who waits for it sees that the result is not whole
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}

void write_text(int fd, const std::string& text) {
  const uint64_t bytes = text.size();
  write_all(fd, &bytes, sizeof bytes);
  write_all(fd, text.data(), text.size());
}

/// Takes what write_all() and write_text() wrote.
class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}
  bool take(void* to, size_t bytes) {
    if (bytes_.size() - at_ < bytes) return false;
    std::memcpy(to, bytes_.data() + at_, bytes);
    at_ += bytes;
    return true;
  }
  bool take(std::string& text) {
    uint64_t bytes = 0;
    if (!take(&bytes, sizeof bytes) || bytes_.size() - at_ < bytes) return false;
    text.assign(bytes_, at_, bytes);
    at_ += bytes;
    return true;
  }

 private:
  const std::string bytes_;
  size_t at_ = 0;
};

// The text of an Error of Simulation::run(): what happened, and a line for each agent.
void split(const std::string& text, RunResult& result) {
  const size_t line = text.find("\n  seed ");
  result.what = text.substr(0, line);
  if (line != text.npos) result.where = text.substr(line);
}

RunResult simulate(const SimulatedRun& program, const RunOrder& order) {
  RunResult result;
  Simulation sim(
      order.seed,
      {.memory_bytes = 4096, .slices = program.options.slices, .idle_turns = kIdleTurns});
  if (order.kept) sim.keep_only(*order.kept);
  std::optional<Story> story;
  if (order.story) story.emplace(sim);
  for (int pe = 0; pe < program.options.pes; ++pe) {
    const std::string name = "PE " + std::to_string(pe);
    sim.host({.name = name, .device = pe, .pe = pe}, [&program, name] {
      const int status = program.main(program.argc, program.argv);
      if (status != 0) throw LaneError(name + ": main() returned " + std::to_string(status));
    });
  }
  try {
    sim.run();
  } catch (const std::exception& error) {
    result.failed = true;
    split(error.what(), result);
  }
  if (story) result.story = story->text(program.options.steps);
  result.slices = sim.slices();
  result.decisions = sim.decisions().made();
  return result;
}

[[noreturn]] void run_child(const SimulatedRun& program, const RunOrder& order, int to,
                            int output) {
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  Limits of_lanes = limits();
  of_lanes.stack_bytes = std::max(of_lanes.stack_bytes, kStackBytes);
  set_limits(of_lanes);
  pes_of_run = program.options.pes;
  const RunResult result = simulate(program, order);
  std::fflush(nullptr);
  write_all(to, &result.failed, sizeof result.failed);
  write_all(to, &result.slices, sizeof result.slices);
  for (const std::string* text : {&result.what, &result.where, &result.story})
    write_text(to, *text);
  const uint64_t count = result.decisions.size();
  write_all(to, &count, sizeof count);
  write_all(to, result.decisions.data(), count * sizeof count);
  ::_exit(0);  // hosts and streams that have not ended stay as they are
}

std::string read_all(int fd) {
  std::string bytes;
  std::vector<char> buffer(65536);  // on the heap: a stack may have no more
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_system("read");
    if (got == 0) return bytes;
    bytes.append(buffer.data(), static_cast<size_t>(got));
  }
}

// The end of what the program printed, in whole lines.
std::string last_of(int file) {
  const off_t end = ::lseek(file, 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(kMostOutput));
  ::lseek(file, begin, SEEK_SET);
  std::string text = read_all(file);
  if (begin != 0) text.erase(0, text.find('\n') + 1);
  return text;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) {
    return std::string("the program was ended by signal ") + ::strsignal(WTERMSIG(status));
  }
  return "the program called exit(" + std::to_string(WEXITSTATUS(status)) +
         ") before all PEs were at the end of main()";
}

}  // namespace

int simulated_pes() { return pes_of_run; }

RunResult run_once(const SimulatedRun& program, const RunOrder& order) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_system("pipe");
  Fd from(ends[0]);
  Fd to(ends[1]);
  const Fd output(::memfd_create("peal-sim-output", MFD_CLOEXEC));
  if (!output) fail_system("memfd_create");
  std::fflush(nullptr);
  const pid_t child = Forks::fork_whole();
  if (child < 0) fail_system("fork");
  if (child == 0) run_child(program, order, to.get(), output.get());
  to = Fd();
  Reader reader(read_all(from.get()));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) fail_system("waitpid");
  }
  RunResult result;
  uint64_t count = 0;
  bool whole = reader.take(&result.failed, sizeof result.failed) &&
               reader.take(&result.slices, sizeof result.slices) && reader.take(result.what) &&
               reader.take(result.where) && reader.take(result.story) &&
               reader.take(&count, sizeof count);
  if (whole) {
    result.decisions.resize(count);
    whole = reader.take(result.decisions.data(), count * sizeof count);
  }
  if (!whole) {
    result = {};
    result.failed = true;
    result.what = how_it_ended(status);
  }
  result.output = last_of(output.get());
  return result;
}

}  // namespace peal::simt
