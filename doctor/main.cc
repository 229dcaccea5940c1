// SPDX-License-Identifier: Apache-2.0
//
// doctor: is this machine ready for kernels that drive a ConnectX, and if not, what is to be done?
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>

#include "doctor/checks.h"

namespace {

constexpr int kBadArguments = 2;

int run(int argc, char** argv) {
  CLI::App app("Looks at this machine with peal's eyes and says what is missing, and the remedy.",
               "doctor");
  bool as_json = false;
  app.add_flag("--json", as_json, "One JSON object instead of the table");
  app.footer(
      "Exit code: 0 nothing fails, 1 something does, 2 bad arguments. docs/hardware.md tells "
      "how to\nread each line.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "doctor: %s; see doctor --help\n", error.what());
    return kBadArguments;
  }
  const auto findings = peal::doctor::examine(peal::doctor::observe(environ));
  std::fputs((as_json ? json(findings) : table(findings)).c_str(), stdout);
  return peal::doctor::exit_code(findings);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGCHLD, SIG_DFL);  // where it is ignored nobody learns how a probe ended
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "doctor: %s\n", error.what());
    return 1;
  }
}
