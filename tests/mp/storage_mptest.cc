// SPDX-License-Identifier: Apache-2.0
//
// Files and symmetric memory through the Runtime. Hazard: PEs that overwrite each other's part, one
// that fails alone and leaves the others waiting.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

constexpr size_t kBytes = 300'000;

/// A folder that all PEs name alike; it is empty, and removed at the end.
class Folder {
 public:
  explicit Folder(Runtime& pe) : pe_(pe) {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    const std::string name = std::string("peal-mp-") + test->name() + std::to_string(pe.n_pes());
    path_ = std::filesystem::path(testing::TempDir()) / name;
    pe.barrier();
    if (pe.my_pe() == 0) {
      std::filesystem::remove_all(path_);
      std::filesystem::create_directories(path_);
    }
    pe.barrier();
  }
  ~Folder() {
    pe_.barrier();
    if (pe_.my_pe() == 0) std::filesystem::remove_all(path_);
  }
  std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  Runtime& pe_;
  std::filesystem::path path_;
};

std::string bytes_of(int pe, size_t bytes = kBytes) {
  std::string made(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<char>(i * 7 + i / 251 + 31u * static_cast<unsigned>(pe));
  return made;
}
std::string file_at(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Symmetric memory, as text.
struct Block {
  Block(Runtime& runtime, size_t size)
      : pe(runtime), data(static_cast<char*>(runtime.malloc(size))), bytes(size) {}
  ~Block() { pe.free(data); }
  void set(const std::string& text) const { pe.copy_in(data, text.data(), text.size()); }
  std::string text() const {
    std::string got(bytes, '\0');
    pe.copy_out(got.data(), data, bytes);
    return got;
  }
  Runtime& pe;
  char* data;
  size_t bytes;
};

TEST(Storage, SavesAndLoadsMemoryOfOnePe) {
  on_every_pe([](Runtime& pe) {
    const Folder folder(pe);
    const Block block(pe, kBytes);
    const std::string path = folder / std::to_string(pe.my_pe());
    block.set(bytes_of(pe.my_pe()));
    pe.save(path, block.data, kBytes);
    EXPECT_EQ(file_at(path), bytes_of(pe.my_pe()));
    block.set(std::string(kBytes, 'x'));
    pe.load(path, 1000, block.data + 3, 5000);
    EXPECT_EQ(block.text(),
              "xxx" + bytes_of(pe.my_pe()).substr(1000, 5000) + std::string(kBytes - 5003, 'x'));
    EXPECT_NE(pe.describe_storage().find("by POSIX"), std::string::npos);
  });
}

TEST(Storage, DividesAFileAmongAllPes) {
  on_every_pe([](Runtime& pe) {
    const Folder folder(pe);
    const std::string whole = bytes_of(9, 100'004);
    if (pe.my_pe() == 0) std::ofstream(folder / "whole", std::ios::binary) << whole;
    pe.barrier();
    const Block block(pe, kBytes);
    const Runtime::FilePart mine = pe.load_shard(folder / "whole", block.data, kBytes, 4);
    EXPECT_EQ(block.text().substr(0, mine.bytes), whole.substr(mine.offset, mine.bytes));
    EXPECT_TRUE(pe.my_pe() != 0 || mine.offset == 0);
    EXPECT_EQ(mine.offset + mine.bytes == whole.size(), pe.my_pe() == pe.n_pes() - 1);
    expect_error(error_of([&] { pe.load_shard(folder / "whole", block.data, 8, 4); }),
                 ErrorCode::kInvalidArgument, {"load_shard", "the memory 8"});
  });
}

TEST(Storage, BringsACheckpointBack) {
  on_every_pe([](Runtime& pe) {
    const Folder folder(pe);
    const Block block(pe, kBytes);
    for (const int step : {0, 1}) {
      block.set(bytes_of(pe.my_pe() + step));
      pe.save_checkpoint(folder / "step", block.data, kBytes);
      block.set(std::string(kBytes, 'x'));
      pe.load_checkpoint(folder / "step", block.data, kBytes);
      EXPECT_EQ(block.text(), bytes_of(pe.my_pe() + step));
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "step.partial"));
  });
}

TEST(Storage, FailsOnAllPesWhereOneFails) {
  on_every_pe([](Runtime& pe) {
    const Folder folder(pe);
    const Block block(pe, kBytes);
    const int last = pe.n_pes() - 1;
    std::vector<char> own(100);
    void* const wrong = pe.my_pe() == last ? static_cast<void*>(own.data()) : block.data;
    expect_error(error_of([&] { pe.save_checkpoint(folder / "step", wrong, 100); }),
                 ErrorCode::kInvalidArgument, {"save_checkpoint: 100 bytes", "register_window"});
    const size_t bytes = pe.my_pe() == last ? kBytes - 1 : kBytes;
    if (last > 0) {
      expect_error(error_of([&] { pe.save_checkpoint(folder / "step", block.data, bytes); }),
                   ErrorCode::kInvalidArgument, {"299999 bytes", "PE 0 300000"});
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "step.partial"));
    expect_error(error_of([&] { pe.load_checkpoint(folder / "step", block.data, kBytes); }),
                 ErrorCode::kInvalidArgument, {"No such file"});
    pe.save_checkpoint(folder / "step", block.data, kBytes);
  });
}

PEAL_KERNEL set_all(char* data, size_t bytes, char value) {
  for (size_t i = thread_in_block(); i < bytes; i += threads_in_block()) data[i] = value;
}
PEAL_KERNEL raise_all(char* data, size_t bytes) {
  for (size_t i = thread_in_block(); i < bytes; i += threads_in_block()) {
    data[i] = static_cast<char>(data[i] + 1);
  }
}

// Kernel, save, kernel, load, kernel: each relies on the one before it.
TEST(Storage, KeepsTheOrderOfAStream) {
  on_every_pe([](Runtime& pe) {
    const Folder folder(pe);
    const Block block(pe, 1000);
    const std::string path = folder / std::to_string(pe.my_pe());
    const auto mine = static_cast<char>('a' + pe.my_pe());
    Stream stream;
    launch({.threads = 32, .stream = stream}, set_all, block.data, size_t{1000}, mine);
    pe.on(stream).save(path, block.data, 1000);
    launch({.threads = 32, .stream = stream}, set_all, block.data, size_t{1000}, 'x');
    pe.on(stream).load(path, 100, block.data, 900);
    launch({.threads = 32, .stream = stream}, raise_all, block.data, size_t{1000});
    stream.synchronize();
    pe.check();
    EXPECT_EQ(file_at(path), std::string(1000, mine));
    EXPECT_EQ(block.text(), std::string(900, static_cast<char>(mine + 1)) + std::string(100, 'y'));

    pe.host_nbi().save(path, block.data, 10).wait();
    EXPECT_EQ(file_at(path).size(), 10u);
  });
}

TEST(Storage, TellsLaterOfWhatFailsInAStream) {
  on_every_pe([](Runtime& pe) {
    const Folder folder(pe);
    const Block block(pe, 100);
    const std::string path = folder / std::to_string(pe.my_pe());
    block.set(std::string(100, 'a'));
    Stream stream;
    pe.on(stream).load(path, 0, block.data, 100);
    pe.on(stream).save(path, block.data, 100);  // goes on behind it
    stream.synchronize();
    EXPECT_EQ(file_at(path), std::string(100, 'a'));
    EXPECT_EQ(pe.status(), Status::kAborted);
    const Error error = error_of([&] { pe.check(); });
    expect_error(error, ErrorCode::kSystem, {"load of " + path + " on a stream", "No such file"});
    expect_error(error_of([&] { pe.host_nbi().load(path, 50, block.data, 100).wait(); }),
                 ErrorCode::kSystem, {"No such file"});  // the first one
    pe.recover();
    pe.check();
    expect_error(error_of([&] { pe.host_nbi().load(path, 50, block.data, 100).wait(); }),
                 ErrorCode::kSystem, {"100 bytes at offset 50", "has 100 bytes"});
    pe.recover();
  });
}

TEST(Storage, RefusesOnAStreamWhatIsWrongAtOnce) {
  on_every_pe([](Runtime& pe) {
    const Folder folder(pe);
    const Block block(pe, 100);
    std::vector<char> own(100);
    const std::string path = folder / std::to_string(pe.my_pe());
    Stream stream;
    expect_error(error_of([&] { pe.on(stream).save(path, own.data(), 100); }),
                 ErrorCode::kInvalidArgument, {"save on a stream: 100 bytes", "register_window"});
    expect_error(error_of([&] { pe.on(nullptr).load(path, 0, block.data, 1); }),
                 ErrorCode::kInvalidArgument, {"stream null"});
    stream.begin_capture();
    expect_error(error_of([&] { pe.on(stream).load(path, 0, block.data, 1); }),
                 ErrorCode::kUnsupported, {"load on a stream", "graph", "before or after"});
    const Graph graph = stream.end_capture();
    EXPECT_FALSE(std::filesystem::exists(path));
    pe.check();
  });
}

TEST(Storage, RefusesMemoryThatIsNotSymmetric) {
  on_every_pe([](Runtime& pe) {
    const Folder folder(pe);
    std::vector<char> own(100);
    const std::string path = folder / std::to_string(pe.my_pe());
    expect_error(error_of([&] { pe.save(path, own.data(), 100); }), ErrorCode::kInvalidArgument,
                 {"save: 100 bytes", "register_window"});
    expect_error(error_of([&] { pe.load(path, 0, own.data(), 100); }), ErrorCode::kInvalidArgument,
                 {"load: 100 bytes"});
    EXPECT_FALSE(std::filesystem::exists(path));
  });
}

}  // namespace
}  // namespace peal::api_test
