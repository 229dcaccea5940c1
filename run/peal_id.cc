// SPDX-License-Identifier: Apache-2.0
//
// peal-id: prints a fresh unique id for PEAL_TCP_ID, for a job whose PE 0 runs on this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "bootstrap/address.h"
#include "bootstrap/bootstraps.h"
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
                 "where PE 0 listens: an interface or its IPv4 address; lo for one machine; by "
                 "default the one that leads to others")
      ->type_name("NAME");
  app.add_option("--port", port, "its port; 0: one that is free now")
      ->type_name("PORT")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "peal-id: {}; see peal-id --help\n", error.what());
    return 2;
  }
  try {
    const std::string address = peal::bootstrap::find_address(interface);
    fmt::print("{}\n", peal::bootstrap::make_unique_id(address, port).to_string());
    if (std::fflush(stdout) != 0) peal::fail_errno(errno, "standard output");
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "peal-id: {}\n", error.what());
    return 1;
  }
}
