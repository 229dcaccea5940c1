// SPDX-License-Identifier: Apache-2.0
//
// The end of a main() whose command line CLI11 reads.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

namespace peal {

/// What `body` answers, or 0 after --help, 2 after a mistake on the command line, 1 after an
/// exception: these two with one line on stderr.
template <class Body>
int run_command_line(CLI::App& app, int argc, char** argv, const Body& body) {
  const char* const name = app.get_name().c_str();
  try {
    app.parse(argc, argv);
    return body();
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s; see %s --help\n", name, error.what(), name);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace peal
