// SPDX-License-Identifier: Apache-2.0
//
// The three spellings of "these NICs", which of them decides, and what is refused.
#include "host/nic/hca_list.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "host/base/error.h"

namespace peal::nic {
namespace {

using Syntax = HcaList::Syntax;

/// Which ports of a machine with mlx5_0, mlx5_1, mlx5_10 and ib_0, two ports each, are allowed.
std::string allowed(const HcaList& list) {
  std::string all;
  for (const char* name : {"mlx5_0", "mlx5_1", "mlx5_10", "ib_0"}) {
    for (const int port : {1, 2}) {
      if (!list.allows(name, port)) continue;
      all += (all.empty() ? "" : " ") + std::string(name) + ":" + std::to_string(port);
    }
  }
  return all;
}

std::string peal(const char* text) { return allowed({"PEAL_HCA", text, Syntax::kPeal}); }
std::string nccl(const char* text) { return allowed({"NCCL_IB_HCA", text, Syntax::kNccl}); }
std::string nvshmem(const char* text) {
  return allowed({"NVSHMEM_HCA_LIST", text, Syntax::kNvshmem});
}

HcaList read(std::initializer_list<const char*> entries, bool software = false) {
  std::vector<const char*> environment(entries);
  environment.push_back(nullptr);
  return HcaList::from(Config::from_environment(environment.data()), software);
}

constexpr const char* kAll =
    "mlx5_0:1 mlx5_0:2 mlx5_1:1 mlx5_1:2 mlx5_10:1 mlx5_10:2 ib_0:1 ib_0:2";

TEST(HcaList, AllowsAllWhenNothingIsSet) {
  EXPECT_EQ(allowed(HcaList()), kAll);
  EXPECT_EQ(allowed(read({})), kAll);
  EXPECT_EQ(allowed(read({"PEAL_HCA=", "NVSHMEM_HCA_LIST=", "NCCL_IB_HCA="})), kAll);
  EXPECT_TRUE(read({}).empty());
  EXPECT_EQ(read({}).description(), "");
}

TEST(HcaList, TakesPealsNamesWhole) {
  EXPECT_EQ(peal("mlx5_1"), "mlx5_1:1 mlx5_1:2");
  EXPECT_EQ(peal("mlx5_1:2"), "mlx5_1:2");
  EXPECT_EQ(peal("mlx5_0:1,ib_0"), "mlx5_0:1 ib_0:1 ib_0:2");
  EXPECT_EQ(peal("mlx5"), "");
  EXPECT_EQ(peal("^mlx5_1,ib_0:2"), "mlx5_0:1 mlx5_0:2 mlx5_10:1 mlx5_10:2 ib_0:1");
}

TEST(HcaList, TakesNcclsNamesForBeginnings) {
  EXPECT_EQ(nccl("mlx5_1"), "mlx5_1:1 mlx5_1:2 mlx5_10:1 mlx5_10:2");
  EXPECT_EQ(nccl("mlx5:1"), "mlx5_0:1 mlx5_1:1 mlx5_10:1");
  EXPECT_EQ(nccl("=mlx5_1,mlx5_0:2"), "mlx5_0:2 mlx5_1:1 mlx5_1:2");
  EXPECT_EQ(nccl("^mlx5_1"), "mlx5_0:1 mlx5_0:2 ib_0:1 ib_0:2");
  EXPECT_EQ(nccl("^=mlx5_1,ib_0"), "mlx5_0:1 mlx5_0:2 mlx5_10:1 mlx5_10:2");
}

TEST(HcaList, TakesNvshmemsMarksNameByName) {
  EXPECT_EQ(nvshmem("mlx5_0:1,mlx5_1"), "mlx5_0:1 mlx5_1:1 mlx5_1:2");
  EXPECT_EQ(nvshmem("^mlx5_1,^ib_0"), "mlx5_0:1 mlx5_0:2 mlx5_10:1 mlx5_10:2");
  EXPECT_EQ(nvshmem("mlx5_0,^mlx5_0:2,mlx5_1:1"), "mlx5_0:1 mlx5_1:1");
  EXPECT_EQ(nvshmem("^mlx5_0,mlx5_0"), "");  // an exclusion wins
}

TEST(HcaList, TheFirstVariableThatIsSetDecides) {
  const HcaList own = read({"NCCL_IB_HCA=ib", "PEAL_HCA=mlx5_0", "NVSHMEM_HCA_LIST=mlx5_1"});
  EXPECT_EQ(allowed(own), "mlx5_0:1 mlx5_0:2");
  EXPECT_EQ(own.description(), "PEAL_HCA=\"mlx5_0\"");
  const HcaList nvshmems = read({"NCCL_IB_HCA=ib", "PEAL_HCA=", "NVSHMEM_HCA_LIST=mlx5_1"});
  EXPECT_EQ(allowed(nvshmems), "mlx5_1:1 mlx5_1:2");
  EXPECT_EQ(nvshmems.description(), "NVSHMEM_HCA_LIST=\"mlx5_1\"");
  const HcaList nccls = read({"NCCL_IB_HCA=ib"});
  EXPECT_EQ(allowed(nccls), "ib_0:1 ib_0:2");
  EXPECT_NO_THROW(read({"NCCL_IB_HCA=, ,", "PEAL_HCA=mlx5_0"}));  // not even looked at
}

TEST(HcaList, ListsOfOtherLibrariesDoNotCountForTheSoftwareNic) {
  EXPECT_EQ(allowed(read({"NCCL_IB_HCA=ib", "NVSHMEM_HCA_LIST=mlx5_1"}, true)), kAll);
  EXPECT_NO_THROW(read({"NCCL_IB_HCA=, ,"}, true));
  EXPECT_EQ(allowed(read({"NCCL_IB_HCA=ib", "PEAL_HCA=mlx5_0"}, true)), "mlx5_0:1 mlx5_0:2");
}

/// What the refusal of `variable`=`value` says; fails the test when it is accepted.
std::string refusal(const std::string& variable, const std::string& value) {
  try {
    read({(variable + "=" + value).c_str()});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConfiguration);
    return error.what();
  }
  ADD_FAILURE() << "accepted " << value;
  return "";
}

TEST(HcaList, RefusesWhatIsNoListAndSaysWhatIs) {
  for (const char* value : {",", "mlx5_0,", ",mlx5_0", "mlx5_0,,mlx5_1", "mlx5_0, mlx5_1", " ", "^",
                            "mlx5_0:", "mlx5_0:0", "mlx5_0:255", "mlx5_0:1:1", "mlx5_0:one",
                            "mlx5_0:-1", "mlx5_0:99999999999", ":1", "mlx5*", "^^mlx5_0"}) {
    for (const char* variable : {"PEAL_HCA", "NVSHMEM_HCA_LIST", "NCCL_IB_HCA"}) {
      const std::string what = refusal(variable, value);
      EXPECT_EQ(what.find(variable + std::string("=\"") + value + "\" is not accepted: give "), 0u)
          << what;
      EXPECT_NE(what.find("mlx5_0:1,mlx5_3"), std::string::npos) << what;
    }
  }
}

TEST(HcaList, RefusesTheMarksOfAnotherSyntax) {
  for (const char* value : {"=mlx5_0", "^=mlx5_0", "mlx5_0,^mlx5_1"}) refusal("PEAL_HCA", value);
  for (const char* value : {"=mlx5_0", "^=mlx5_0"}) refusal("NVSHMEM_HCA_LIST", value);
  for (const char* value : {"==mlx5_0", "=^mlx5_0", "mlx5_0,^mlx5_1", "mlx5_0,=mlx5_1"}) {
    refusal("NCCL_IB_HCA", value);
  }
}

TEST(HcaList, AllowsANicOfWhichItAllowsSomePort) {
  const HcaList second("PEAL_HCA", "mlx5_0:2,mlx5_1", HcaList::Syntax::kPeal);
  EXPECT_TRUE(second.allows("mlx5_0"));
  EXPECT_TRUE(second.allows("mlx5_1"));
  EXPECT_FALSE(second.allows("mlx5_2"));
  const HcaList all_but("PEAL_HCA", "^mlx5_0:1,mlx5_1", HcaList::Syntax::kPeal);
  EXPECT_TRUE(all_but.allows("mlx5_0"));
  EXPECT_FALSE(all_but.allows("mlx5_1"));
  EXPECT_TRUE(HcaList().allows("mlx5_0"));
}

}  // namespace
}  // namespace peal::nic
