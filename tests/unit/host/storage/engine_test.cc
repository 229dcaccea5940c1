// SPDX-License-Identifier: Apache-2.0
//
// Files and a GPU's memory, by buffers and by cuFile; GPU and libcufile are stand-ins. Hazard: a
// library that refuses halfway, and a transfer that ends with half of the bytes.
#include "host/storage/engine.h"

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "host/memory/backing_cuda.h"
#include "host/storage/whole_files.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/fake_cufile.h"
#include "tests/unit/host/storage/faults.h"

namespace peal::storage {
namespace {

constexpr size_t kBytes = 100000;

class GpuFiles : public Storage {
 protected:
  GpuFiles() {
    load_fake_cuda();
    gpu_ = Gpu::open(0, 0);
    memory_.emplace(make_cuda_backing(gpu_, kBytes + 4096, "test"));
    cufile_.refuse_driver = cufile_.refuse_handle = cufile_.refuse_buffer = 0;
    cufile_.refuse_transfer = cufile_.transfer_errno = 0;
    cufile_.longest = 0;
    cufile_.transfers = cufile_.buffers = 0;
  }
  EngineOptions options(const std::string& cufile) const {
    return {.threads = 3, .piece_bytes = 4 * kBlock, .cufile = cufile, .calls = &Faults::calls()};
  }
  MemoryRange at(size_t skew, size_t bytes = kBytes) const {
    return {memory_->address() + skew, bytes, true, memory_->address(), memory_->bytes()};
  }
  /// Loads and saves by `engine`, at places that are aligned and not.
  void go_round(Engine& engine) {
    for (const size_t skew : {0, 1, 128}) {
      const std::string bytes = pattern(kBytes + 5, static_cast<unsigned>(skew));
      put_file(path(), bytes);
      memory_->zero(0, memory_->bytes());
      load(engine, path(), 5, at(skew));
      std::string got(kBytes + 2, 'x');
      memory_->copy_out(got.data(), memory_->address() + skew, kBytes + 2);
      EXPECT_EQ(got, bytes.substr(5) + std::string(2, '\0'));
      save(engine, path("saved"), at(skew));
      EXPECT_EQ(file_at(path("saved")), bytes.substr(5));
    }
  }
  void expect_told(const Engine& engine, const std::vector<std::string>& parts) {
    for (const std::string& one : parts) {
      EXPECT_NE(engine.describe().find(one), std::string::npos)
          << one << " in " << engine.describe();
    }
  }

  FakeCuda& cuda_ = load_fake_cuda();
  FakeCuFile& cufile_ = load_fake_cufile();
  std::shared_ptr<Gpu> gpu_;
  std::optional<Backing> memory_;
};

TEST_F(GpuFiles, GoByPinnedBuffersWhereThereIsNoCuFile) {
  Engine engine(options("libnone.so"), gpu_);
  go_round(engine);
  expect_told(engine, {"cuFile: none (dlopen(libnone.so)", "POSIX: 3 threads", "0 bytes by cuFile",
                       "600000 by POSIX"});
  EXPECT_EQ(cuda_.mistakes, 0);
}

TEST_F(GpuFiles, GoByCuFileWhereItIs) {
  {
    Engine engine(options(fake_cufile_path()), gpu_);
    go_round(engine);
    cufile_.longest = 1000;  // short transfers
    go_round(engine);
    expect_told(engine, {"cuFile: in use", "saved.partial: by cuFile", "1200000 bytes by cuFile"});
    EXPECT_EQ(cufile_.buffers, 1);  // all of the memory, once
    EXPECT_EQ(Faults::moves, 0);
  }
  EXPECT_EQ(cufile_.live, 0);
  EXPECT_EQ(cuda_.mistakes, 0);
}

TEST_F(GpuFiles, GoByBuffersWhereCuFileRefuses) {
  struct Refusal {
    std::atomic<int>& what;
    int error;
    std::string told;
  };
  const std::vector<Refusal> refusals = {
      {cufile_.refuse_driver, 5001, "cuFile: none (cuFileDriverOpen: cuFile error 5001)"},
      {cufile_.refuse_handle, 5008, "cuFileHandleRegister: cuFile error 5008"},
      {cufile_.refuse_transfer, 5011, "cuFileWrite: cuFile error 5011"},
      {cufile_.transfer_errno, EIO, "cuFileWrite: Input/output error"},
  };
  for (const Refusal& refusal : refusals) {
    refusal.what = refusal.error;
    {
      Engine engine(options(fake_cufile_path()), gpu_);
      go_round(engine);
      expect_told(engine, {refusal.told, "0 bytes by cuFile, 600000 by POSIX"});
    }
    refusal.what = 0;
    EXPECT_EQ(cufile_.live, 0);
  }
}

TEST_F(GpuFiles, GoByCuFileFromMemoryThatItDoesNotRegister) {
  cufile_.refuse_buffer = 5036;
  {
    Engine engine(options(fake_cufile_path()), gpu_);
    go_round(engine);
    expect_told(engine, {"600000 bytes by cuFile", "not registered (cuFile error 5036)"});
    EXPECT_EQ(cufile_.buffers, 1);
  }
  EXPECT_EQ(cufile_.live, 0);
}

TEST_F(GpuFiles, GoByBuffersWhereSomebodyLooksAtTheBytes) {
  Engine engine(options(fake_cufile_path()), gpu_);
  const std::string bytes = pattern(kBytes);
  put_file(path(), bytes);
  std::string seen(kBytes, 'x');
  File file(Faults::calls(), path(), File::Use::kRead, true);
  engine.read({file, 0, at(0), 0, [&](const FileRange& piece, std::span<const std::byte> got) {
                 std::memcpy(&seen[piece.at], got.data(), got.size());
               }});
  EXPECT_EQ(seen, bytes);
  EXPECT_EQ(cufile_.transfers, 0);
}

TEST_F(GpuFiles, TellOfADiskThatFailsByEitherWay) {
  put_file(path(), pattern(kBytes));
  Faults::read_error = EIO;
  cufile_.transfer_errno = EIO;
  for (const std::string& library : {std::string("off"), fake_cufile_path()}) {
    Engine engine(options(library), gpu_);
    expect_error(error_of([&] { load(engine, path(), 0, at(0)); }), ErrorCode::kSystem,
                 {path(), "Input/output error"});
  }
}

TEST_F(GpuFiles, TellOfAFileThatIsTooShort) {
  put_file(path(), pattern(100));
  Engine engine(options(fake_cufile_path()), gpu_);
  expect_error(error_of([&] { load(engine, path(), 0, at(0)); }), ErrorCode::kInvalidArgument,
               {path(), "100000 bytes at offset 0", "has 100 bytes"});
  EXPECT_EQ(cufile_.transfers, 0);
}

TEST_F(GpuFiles, RefuseMemoryOfAGpuWhereThereIsNone) {
  put_file(path(), pattern(kBytes));
  Engine engine(options(fake_cufile_path()));
  expect_error(error_of([&] { load(engine, path(), 0, at(0)); }), ErrorCode::kInvalidArgument,
               {"memory of a GPU", "uses none"});
  expect_told(engine, {"cuFile: none (no GPU)", "no transfer yet"});
}

TEST_F(GpuFiles, RefuseOptionsOutOfRange) {
  const auto made = [&](size_t threads, size_t piece) {
    return error_of([&] { Engine({.threads = threads, .piece_bytes = piece}); });
  };
  expect_error(made(0, kBlock), ErrorCode::kInvalidArgument, {"0 threads", "1 to 64"});
  expect_error(made(65, kBlock), ErrorCode::kInvalidArgument, {"65 threads"});
  for (const size_t piece : {size_t{0}, size_t{1000}, kMaxPiece + kBlock}) {
    expect_error(made(1, piece), ErrorCode::kInvalidArgument,
                 {"pieces of " + std::to_string(piece) + " bytes", "multiple of 4096"});
  }
}

/// A stream, as a thread of its own: makes each copy once it is allowed.
class StreamOfCopies : public StreamCopies {
 public:
  explicit StreamOfCopies(std::vector<Copy> copies)
      : copies_(std::move(copies)), allowed_(copies_.size()), made_(copies_.size()) {
    thread_ = std::jthread([this] {
      for (size_t i = 0; i < copies_.size(); ++i) {
        await(allowed_[i]);
        std::memcpy(copies_[i].to, copies_[i].from, copies_[i].bytes);
        made_[i] = true;
      }
    });
  }
  void allow(size_t index) override { allowed_[index] = true; }
  void wait(size_t index) override { await(made_[index]); }
  /// What the work has not allowed is made when it has ended.
  void finish() {
    for (auto& one : allowed_) one = true;
    thread_.join();
  }

 private:
  static void await(const std::atomic<bool>& flag) {
    while (!flag) std::this_thread::yield();
  }

  const std::vector<Copy> copies_;
  std::vector<std::atomic<bool>> allowed_;
  std::vector<std::atomic<bool>> made_;
  std::jthread thread_;
};

class GpuFilesOnStreams : public GpuFiles {
 protected:
  template <class Move>
  void move(uint64_t offset, const MemoryRange& memory, bool reading, const Move& body) {
    const auto staging = engine_.stage(offset, memory);
    StreamOfCopies stream(staging->copies(reading));
    try {
      body(ByStream{*staging, stream});
    } catch (...) {
      stream.finish();
      throw;
    }
    stream.finish();
  }
  void load_at(uint64_t offset, const MemoryRange& memory) {
    move(offset, memory, true,
         [&](const ByStream& by) { load(engine_, path(), offset, memory, &by); });
  }
  void save_from(const MemoryRange& memory) {
    move(0, memory, false, [&](const ByStream& by) { save(engine_, path("saved"), memory, &by); });
  }

  Engine engine_{options(fake_cufile_path()), gpu_};
};

TEST_F(GpuFilesOnStreams, ComeBackByBuffersInTurn) {
  for (const size_t skew : {0, 1, 128}) {
    const std::string bytes = pattern(kBytes + 5, static_cast<unsigned>(skew));
    put_file(path(), bytes);
    memory_->zero(0, memory_->bytes());
    load_at(5, at(skew));
    std::string got(kBytes + 2, 'x');
    memory_->copy_out(got.data(), memory_->address() + skew, kBytes + 2);
    EXPECT_EQ(got, bytes.substr(5) + std::string(2, '\0'));
    save_from(at(skew));
    EXPECT_EQ(file_at(path("saved")), bytes.substr(5));
  }
  load_at(0, at(0, 0));
  expect_told(engine_, {"on a stream, O_DIRECT", "0 bytes by cuFile", "600000 by POSIX"});
}

// Hazard: a thread whose piece fails has others wait for its copy for ever.
TEST_F(GpuFilesOnStreams, OfADiskThatFailsEnd) {
  put_file(path(), pattern(kBytes));
  for (off_t at_byte = 1; at_byte < static_cast<off_t>(kBytes); at_byte += 20000) {
    Faults::clear();
    Faults::error_at = at_byte;
    Faults::read_error = Faults::write_error = EIO;
    expect_error(error_of([&] { load_at(0, at(0)); }), ErrorCode::kSystem,
                 {"read of", "Input/output error"});
    expect_error(error_of([&] { save_from(at(0)); }), ErrorCode::kSystem,
                 {"write of", "Input/output error"});
    EXPECT_EQ(names(), std::vector<std::string>{"file"});
  }
}

}  // namespace
}  // namespace peal::storage
