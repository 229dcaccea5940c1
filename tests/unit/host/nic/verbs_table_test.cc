// SPDX-License-Identifier: Apache-2.0
//
// Which libraries are chosen, and what is said when none can be.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "host/nic/verbs.h"
#include "tests/support/fake_rdma_fixture.h"

namespace peal::nic {
namespace {

namespace fs = std::filesystem;

/// A folder of its own under the test's temporary folder, removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = ::testing::TempDir() + "peal-verbs-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = fs::canonical(name);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class VerbsTable : public FakeRdmaTest {
 protected:
  /// Puts a copy of the fake where the software NIC would be.
  void install_softnic(const fs::path& folder) const {
    fs::create_directories(folder);
    fs::copy_file(path_, folder / "libpeal_softnic.so");
  }
};

TEST_F(VerbsTable, TakesTheNamedPair) {
  const auto table = VerbsLibrary::open({path_, path_, "absent.so", "absent.so", "/"});
  EXPECT_FALSE(table->software());
  EXPECT_EQ(table->description(), "ConnectX via " + fs::canonical(path_).string());
  int count = 0;
  ibv_device** const list = table->ibv.get_device_list(&count);
  EXPECT_EQ(count, 1);
  EXPECT_STREQ(table->ibv.get_device_name(list[0]), "mlx5_0");
  table->ibv.free_device_list(list);
}

TEST_F(VerbsTable, RefusesHalfAPair) {
  expect_in(refusal(ErrorCode::kConfiguration,
                    [&] {
                      VerbsLibrary::open({path_, "", "", "", "/"});
                    }),
            {"PEAL_IBVERBS is set and PEAL_MLX5 is not"});
  expect_in(refusal(ErrorCode::kConfiguration,
                    [&] {
                      VerbsLibrary::open({"", path_, "", "", "/"});
                    }),
            {"PEAL_MLX5 is set and PEAL_IBVERBS is not"});
}

TEST_F(VerbsTable, NamesAMissingLibraryAndTheRemedy) {
  expect_in(refusal(ErrorCode::kUnsupported,
                    [&] {
                      VerbsLibrary::open({"/absent/libibverbs.so.1", path_, "", "", "/"});
                    }),
            {"dlopen(/absent/libibverbs.so.1)", "PEAL_IBVERBS", "No such file"});
  expect_in(refusal(ErrorCode::kUnsupported,
                    [&] {
                      VerbsLibrary::open({path_, "/absent/libmlx5.so.1", "", "", "/"});
                    }),
            {"dlopen(/absent/libmlx5.so.1)"});
}

TEST_F(VerbsTable, NamesAFileThatIsNoLibrary) {
  const Folder folder;
  const fs::path text = folder.path() / "libibverbs.so.1";
  std::ofstream(text) << "not a library";
  expect_in(refusal(ErrorCode::kUnsupported,
                    [&] {
                      VerbsLibrary::open({text, path_, "", "", "/"});
                    }),
            {text.string()});
}

TEST_F(VerbsTable, NamesAMissingFunction) {
  expect_in(refusal(ErrorCode::kUnsupported,
                    [&] {
                      VerbsLibrary::open({"libc.so.6", path_, "", "", "/"});
                    }),
            {"libc.so.6 has no function ibv_get_device_list"});
  expect_in(refusal(ErrorCode::kUnsupported,
                    [&] {
                      VerbsLibrary::open({path_, "libc.so.6", "", "", "/"});
                    }),
            {"libc.so.6 has no function mlx5dv_is_supported"});
}

TEST_F(VerbsTable, PrefersTheRealLibrariesWhenTheyListAnMlx5Device) {
  const Folder folder;
  install_softnic(folder.path() / "softnic");
  fake_.foreign = {"hfi1_0"};
  const auto table = VerbsLibrary::open({"", "", path_, path_, folder.path()});
  EXPECT_FALSE(table->software());
}

TEST_F(VerbsTable, TakesTheSoftwareNicWhenTheRealLibrariesListNoMlx5Device) {
  const Folder folder;
  install_softnic(folder.path() / "softnic");
  fake_.foreign = {"hfi1_0"};
  fake_.devices.clear();
  const auto table = VerbsLibrary::open({"", "", path_, path_, folder.path()});
  EXPECT_TRUE(table->software());
  EXPECT_EQ(table->description(),
            "software NIC (softnic) at " + (folder.path() / "softnic").string());
}

TEST_F(VerbsTable, TakesTheSoftwareNicWhenThereAreNoRealLibraries) {
  const Folder folder;
  install_softnic(folder.path() / "softnic/abi");
  const auto table = VerbsLibrary::open({"", "", "absent.so", "absent.so", folder.path()});
  EXPECT_TRUE(table->software());
}

TEST_F(VerbsTable, TakesTheSoftwareNicWhenTheRealLibrariesCannotList) {
  const Folder folder;
  install_softnic(folder.path() / "softnic");
  fake_.refuse_list = true;
  EXPECT_TRUE(VerbsLibrary::open({"", "", path_, path_, folder.path()})->software());
}

TEST_F(VerbsTable, LooksForTheSoftwareNicInFiveParents) {
  const Folder folder;
  install_softnic(folder.path() / "softnic");
  const fs::path near = folder.path() / "1/2/3/4/5";
  fs::create_directories(near / "6");
  EXPECT_TRUE(VerbsLibrary::open({"", "", "absent.so", "absent.so", near})->software());
  refusal(ErrorCode::kUnsupported, [&] {
    VerbsLibrary::open({"", "", "absent.so", "absent.so", near / "6"});
  });
}

TEST_F(VerbsTable, IgnoresAFolderWithoutTheSoftwareNic) {
  const Folder folder;
  fs::create_directories(folder.path() / "softnic");
  fs::copy_file(path_, folder.path() / "softnic/libibverbs.so.1");
  refusal(ErrorCode::kUnsupported, [&] {
    VerbsLibrary::open({"", "", "absent.so", "absent.so", folder.path()});
  });
}

TEST_F(VerbsTable, SaysEverythingItTriedWhenThereIsNoNic) {
  const Folder folder;
  expect_in(refusal(ErrorCode::kUnsupported,
                    [&] {
                      VerbsLibrary::open({"", "", "absent.so", "absent.so", folder.path()});
                    }),
            {"absent.so", "softnic/libpeal_softnic.so", folder.path().string(), "PEAL_IBVERBS"});
  fake_.devices.clear();
  expect_in(refusal(ErrorCode::kUnsupported,
                    [&] {
                      VerbsLibrary::open({"", "", path_, path_, folder.path()});
                    }),
            {"lists no mlx5 device"});
}

TEST_F(VerbsTable, SearchesWhereTheConfigurationAndTheProgramSay) {
  Config config = Config::defaults();
  config.ibverbs = "/a";
  config.mlx5 = "/b";
  const LibrarySearch search = LibrarySearch::from(config);
  EXPECT_EQ(search.ibverbs, "/a");
  EXPECT_EQ(search.mlx5, "/b");
  EXPECT_EQ(search.real_ibverbs, "libibverbs.so.1");
  EXPECT_EQ(search.real_mlx5, "libmlx5.so.1");
  EXPECT_EQ(search.program_directory, program_directory());
}

}  // namespace
}  // namespace peal::nic
