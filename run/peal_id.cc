// SPDX-License-Identifier: Apache-2.0
//
// peal-id: prints a fresh unique id for PEAL_TCP_ID, for a job whose PE 0 runs on this machine.
#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>

#include "base/command_line.h"
#include "bootstrap/bootstraps.h"
#include "host/base/address.h"
#include "host/base/error.h"

int main(int argc, char** argv) {
  std::string interface;
  std::uint16_t port = 0;
  CLI::App app(
      "Prints a fresh unique id for a job that starts without a launcher. Set it as PEAL_TCP_ID "
      "for "
      "every PE, with PEAL_TCP_RANK and PEAL_TCP_SIZE. PE 0 must run on this machine. The id is a "
      "secret: who knows it may join.",
      "peal-id");
  app.add_option("--interface", interface,
                 "where PE 0 listens: an interface or its address; lo for one machine; by "
                 "default the one that leads to others")
      ->type_name("NAME");
  app.add_option("--port", port, "its port; 0: one that is free now")
      ->type_name("PORT")
      ->capture_default_str();
  return peal::run_command_line(app, argc, argv, [&] {
    const std::string address = peal::find_address(interface);
    fmt::print("{}\n", peal::bootstrap::make_unique_id(address, port).to_string());
    if (std::fflush(stdout) != 0) peal::fail_errno(errno, "standard output");
    return 0;
  });
}
