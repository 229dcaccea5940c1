// SPDX-License-Identifier: Apache-2.0
//
// peal-run's command line: what it asks for, and what it says to mistakes.
#include "run/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace peal::run {
namespace {

using Texts = std::vector<std::string>;

std::vector<char*> pointers_to(Texts& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

RunOptions read(Texts arguments, Texts environment = {}) {
  arguments.insert(arguments.begin(), "peal-run");
  return read_options(static_cast<int>(arguments.size()), pointers_to(arguments).data(),
                      pointers_to(environment).data());
}

TEST(RunOptions, StartOnePeHereByDefault) {
  const RunOptions options = read({"./program"});
  EXPECT_EQ(options.size(), 1);
  EXPECT_FALSE(options.hosts.at(0).remote());
  EXPECT_EQ(options.argv, Texts{"./program"});
  EXPECT_EQ(options.grace, std::chrono::seconds(5));
  EXPECT_TRUE(options.prefix);
  EXPECT_TRUE(options.terminal);
  EXPECT_FALSE(read({"--no-pty", "./program"}).terminal);
  EXPECT_EQ(options.restarts, 0);
  EXPECT_EQ(read({"--restart", "3", "./program"}).restarts, 3);
}

// What stands behind the program is the program's, whatever it looks like.
TEST(RunOptions, LeaveTheProgramsArgumentsAlone) {
  const RunOptions options = read({"-n", "2", "./program", "-n", "3", "--hosts", "", "--", "-x"});
  EXPECT_EQ(options.size(), 2);
  EXPECT_EQ(options.argv, (Texts{"./program", "-n", "3", "--hosts", "", "--", "-x"}));
  EXPECT_EQ(read({"-n", "2", "--", "./program", "-n"}).argv, (Texts{"./program", "-n"}));
}

TEST(RunOptions, TakeTheNumberOfPesAsMpirunDoes) {
  for (const char* name : {"-n", "-np", "--np", "--pes"}) {
    const RunOptions options = read({"--grace", "7", name, "3", "./program", "-np", "4"});
    EXPECT_EQ(options.size(), 3) << name;
    EXPECT_EQ(options.argv, (Texts{"./program", "-np", "4"}));
    EXPECT_EQ(options.grace, std::chrono::seconds(7));
  }
  EXPECT_EQ(read({"-x", "-np", "./program"}, {"-np=1"}).exports, Texts{"-np=1"});
}

struct Dealt {
  const char* hosts;
  const char* pes;
  std::vector<Host> wanted;
};

TEST(RunOptions, DealPesToHostsInOrder) {
  for (const Dealt& row :
       {Dealt{"a:2,b:3", "", {{"a", 2}, {"b", 3}}}, Dealt{"a:2,b:3", "4", {{"a", 2}, {"b", 2}}},
        Dealt{"a:2,b:3", "2", {{"a", 2}}},
        Dealt{"a,b,localhost:2", "", {{"a", 1}, {"b", 1}, {"localhost", 2}}}}) {
    Texts arguments{"--hosts", row.hosts};
    if (*row.pes != '\0') arguments.insert(arguments.end(), {"-n", row.pes});
    arguments.push_back("./program");
    EXPECT_EQ(read(arguments).hosts, row.wanted) << row.hosts << " " << row.pes;
  }
}

TEST(RunOptions, ExportPealsSettingsAndWhatIsNamed) {
  const RunOptions options =
      read({"-x", "COLOR", "-x", "SHAPE=a=b", "-x", "PEAL_LOG=info", "./program"},
           {"PEAL_LOG=debug", "PEAL_INFO=1", "PEAL_TCP_ID=old", "COLOR=red", "HOME=/root"});
  EXPECT_EQ(options.exports, (Texts{"COLOR=red", "PEAL_INFO=1", "PEAL_LOG=info", "SHAPE=a=b"}));
}

struct Mistake {
  Texts arguments;
  const char* words;
};

TEST(RunOptions, AnswerMistakesInWords) {
  const std::vector<Mistake> mistakes = {
      {{}, "no program"},
      {{"-n", "2"}, "no program"},
      {{"-n", "two", "./program"}, "--pes = two"},
      {{"-n", "0", "./program"}, "-n 0: 1 to 65536 PEs"},
      {{"--threads", "./program"}, "--threads is unknown"},
      {{"--hosts", "a:0", "./program"}, "'a:0' is not a host"},
      {{"--hosts", ":2", "./program"}, "':2' is not a host"},
      {{"--hosts", "-oProxyCommand=x:2", "./program"}, "is not a host"},
      {{"--hosts", ",", "./program"}, "names no host"},
      {{"--hosts", "a:2", "-n", "3", "./program"}, "have room for 2"},
      {{"--grace", "5m", "./program"}, "'5m' is not a time such as 500ms or 10s"},
      {{"-np", "0", "./program"}, "-n 0: 1 to 65536 PEs"},
      {{"--grace", "s", "./program"}, "'s' is not a time"},
      {{"--rsh", "", "./program"}, "--rsh"},
      {{"-x", "=a", "./program"}, "no name"},
      {{"-x", "PEAL_TCP_ID=a", "./program"}, "peal-run itself sets it"},
      {{"-x", "PEAL_BOOTSTRAP=mpi", "./program"}, "PEAL_BOOTSTRAP=mpi"},
  };
  for (const Mistake& mistake : mistakes) {
    try {
      read(mistake.arguments);
      ADD_FAILURE() << "accepted, but for: " << mistake.words;
    } catch (const EarlyExit& answer) {
      EXPECT_EQ(answer.exit_code, 2);
      EXPECT_NE(answer.text.find(mistake.words), std::string::npos) << answer.text;
      EXPECT_TRUE(answer.text.starts_with("peal-run: ")) << answer.text;
    }
  }
}

}  // namespace
}  // namespace peal::run
