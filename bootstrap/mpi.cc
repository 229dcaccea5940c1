// SPDX-License-Identifier: Apache-2.0
//
// libpeal_mpi.so: the wire over MPI, and the only library file that includes mpi.h.
// MPI's own calls that wait for other ranks have no deadlines. Hence: point-to-point calls are
// started and tested, never waited for; MPI_Init_thread and MPI_Finalize run in a thread of their
// own that the caller can stop waiting for.
#include <mpi.h>
#include <sys/prctl.h>

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/patience.h"
#include "bootstrap/wire.h"
#include "host/base/error.h"

namespace peal::bootstrap {
namespace {

constexpr int kTag = 0x7065;

void check(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  fail(ErrorCode::kSystem, "{}: {}", call, std::string(text, static_cast<std::size_t>(length)));
}

// Between two looks at a request: the peers may need this very core.
constexpr Patience::Nap kLongestNap{50};

// False when `until` came first: the request goes on, and its buffers still belong to MPI.
bool finish(MPI_Request* request, TimePoint until) {
  const auto done = [request] {
    int flag = 0;
    check(MPI_Test(request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
    return flag != 0;
  };
  return wait_until(done, until, kLongestNap);
}

// MPI, initialised by peal. One thread makes both calls, as the standard asks.
class OwnMpi {
 public:
  explicit OwnMpi(TimePoint until) : state_(std::make_shared<State>()) {
    std::thread([state = state_] {
      ::prctl(PR_SET_NAME, "peal-mpi");  // threads that MPI makes are called so too
      live(*state);
    }).detach();
    if (!reached(Stage::kRunning, until)) {
      fail(ErrorCode::kTimeout,
           "MPI_Init_thread did not return in time: another rank has not called it");
    }
    if (state_->provided < MPI_THREAD_SERIALIZED) {
      fail(ErrorCode::kUnsupported,
           "this MPI provides thread level {}: peal needs MPI_THREAD_SERIALIZED or more",
           state_->provided);
    }
  }

  // Returns when all ranks have finalized, or at `until`.
  void finalize(TimePoint until) {
    {
      const std::lock_guard lock(state_->mutex);
      state_->stage = Stage::kEnding;
    }
    state_->changed.notify_all();
    reached(Stage::kEnded, until);
  }

 private:
  enum class Stage { kStarting, kRunning, kEnding, kEnded };

  // Shared with the thread, which may outlive us inside an MPI call.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    Stage stage = Stage::kStarting;
    int provided = MPI_THREAD_SINGLE;
  };

  static void live(State& state) {
    int provided = MPI_THREAD_SINGLE;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    std::unique_lock lock(state.mutex);
    state.provided = provided;
    state.stage = Stage::kRunning;
    state.changed.notify_all();
    // Idle for the life of the job; ends with the process where nobody finalizes.
    state.changed.wait(lock, [&state] { return state.stage == Stage::kEnding; });
    lock.unlock();
    MPI_Finalize();
    lock.lock();
    state.stage = Stage::kEnded;
    state.changed.notify_all();
  }

  bool reached(Stage stage, TimePoint until) {
    std::unique_lock lock(state_->mutex);
    return wait_until(state_->changed, lock, until,
                      [this, stage] { return state_->stage >= stage; });
  }

  std::shared_ptr<State> state_;
};

bool finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

// A message on its way, in either direction; its bytes belong to MPI until the request is done.
struct InFlight {
  std::vector<std::byte> message;
  MPI_Request request = MPI_REQUEST_NULL;
};

class CommWire final : public MpiWire {
 public:
  CommWire(std::optional<OwnMpi> own, MPI_Comm comm) : own_(std::move(own)), comm_(comm) {
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }
  CommWire(const CommWire&) = delete;
  CommWire& operator=(const CommWire&) = delete;

  ~CommWire() override {
    if (in_flight_.empty()) return;
    // MPI may still read or write these buffers, and a send cannot be called back: leave them to
    // it.
    static_cast<void>(std::make_unique<std::list<InFlight>>(std::move(in_flight_)).release());
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send(int peer, std::span<const std::byte> message) override {
    InFlight& out = in_flight_.emplace_back();
    out.message.assign(message.begin(), message.end());
    const int result = MPI_Isend(out.message.data(), static_cast<int>(message.size()), MPI_BYTE,
                                 peer, kTag, comm_, &out.request);
    check(result, "MPI_Isend");
  }

  std::optional<Event> next(TimePoint until) override {
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    const auto found = [&] {
      reap();
      int flag = 0;
      check(MPI_Improbe(MPI_ANY_SOURCE, kTag, comm_, &flag, &handle, &status), "MPI_Improbe");
      return flag != 0;
    };
    if (!wait_until(found, until, kLongestNap)) return std::nullopt;
    return receive(handle, status, until);
  }

  void flush(TimePoint until) override {
    const auto sent = [this] {
      reap();
      return in_flight_.empty();
    };
    wait_until(sent, until, kLongestNap);
  }

  void abort_job() override {
    if (usable()) MPI_Abort(comm_, 1);
  }

  void separate(TimePoint until) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Comm_idup(comm_, &duplicate_, &request), "MPI_Comm_idup");
    if (!finish(&request, until)) fail(ErrorCode::kTimeout, "MPI_Comm_idup did not finish in time");
    comm_ = duplicate_;
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }

  bool usable() const override { return !finalized(); }

  void close(bool together, TimePoint until) noexcept override {
    if (finalized()) return;
    if (together && comm_ == duplicate_) MPI_Comm_free(&duplicate_);
    if (own_) own_->finalize(until);
  }

 private:
  std::optional<Event> receive(MPI_Message handle, const MPI_Status& status, TimePoint until) {
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    InFlight& in = in_flight_.emplace_back();
    in.message.resize(static_cast<std::size_t>(bytes));
    check(MPI_Imrecv(in.message.data(), bytes, MPI_BYTE, &handle, &in.request), "MPI_Imrecv");
    if (!finish(&in.request, until)) return std::nullopt;
    Event event{.peer = status.MPI_SOURCE, .lost = false, .message = std::move(in.message)};
    in_flight_.pop_back();
    return event;
  }

  void reap() {
    std::erase_if(in_flight_, [](InFlight& out) {
      int done = 0;
      check(MPI_Test(&out.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      return done != 0;
    });
  }

  std::optional<OwnMpi> own_;
  MPI_Comm comm_;
  MPI_Comm duplicate_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  std::list<InFlight> in_flight_;  // a list: MPI holds addresses of its elements
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void peal_open_mpi_wire(
    const void* comm, TimePoint until, std::unique_ptr<MpiWire>* wire) {
  if (finalized()) {
    fail(ErrorCode::kInvalidArgument, "MPI has been finalized: it starts only once in a process");
  }
  int initialized = 0;
  MPI_Initialized(&initialized);
  std::optional<OwnMpi> own;
  if (initialized == 0) own.emplace(until);
  const MPI_Comm chosen = comm == nullptr ? MPI_COMM_WORLD : *static_cast<const MPI_Comm*>(comm);
  if (chosen == MPI_COMM_NULL)
    fail(ErrorCode::kInvalidArgument, "the communicator is MPI_COMM_NULL");
  *wire = std::make_unique<CommWire>(std::move(own), chosen);
}

}  // namespace peal::bootstrap
