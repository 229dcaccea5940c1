// SPDX-License-Identifier: Apache-2.0
//
// doctor: is this machine ready for kernels that drive a ConnectX, and if not, what is to be done?
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "base/command_line.h"
#include "doctor/checks.h"

int main(int argc, char** argv) {
  std::signal(SIGCHLD, SIG_DFL);  // where it is ignored nobody learns how a probe ended
  CLI::App app("Looks at this machine with peal's eyes and says what is missing, and the remedy.",
               "doctor");
  bool as_json = false;
  app.add_flag("--json", as_json, "One JSON object instead of the table");
  app.footer(
      "Exit code: 0 nothing fails, 1 something does, 2 bad arguments. docs/doctor.md tells "
      "how to\nread each line.");
  return peal::run_command_line(app, argc, argv, [&as_json] {
    const auto findings = peal::doctor::examine(peal::doctor::observe(environ));
    std::fputs((as_json ? json(findings) : table(findings)).c_str(), stdout);
    return peal::doctor::exit_code(findings);
  });
}
