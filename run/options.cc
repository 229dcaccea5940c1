// SPDX-License-Identifier: Apache-2.0
#include "run/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/words.h"

namespace peal::run {
namespace {

constexpr const char* kAbout =
    "Starts PROGRAM as the PEs of one job, without MPI, and ends all of them when one fails.\n"
    "  peal-run -n 4 ./program                  four PEs on this machine\n"
    "  peal-run --hosts a:2,b:2 ./program       two on each of two machines, by ssh\n"
    "Its exit code is 0, or that of the PE that failed first (128 + N: killed by signal N).\n"
    "What the PEs of a job that hangs wait for: Runtime::dump(), or gdb -p PID -ex 'peal waits'.";
constexpr const char* kShell =
    "ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15";
constexpr int kMostPes = 65536;
constexpr int kMostRestarts = 1000;

[[noreturn]] void refuse(const std::string& why) { throw EarlyExit{2, "peal-run: " + why + "\n"}; }

std::optional<int> number(std::string_view text) {
  const std::optional<uint64_t> value = words::number(text);
  return value && *value <= INT_MAX ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::vector<std::string> split(std::string_view text, const char* separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::string_view part = words::take_until(text, separator);
    if (!part.empty()) parts.emplace_back(part);
  }
  return parts;
}

// "a:2,b" and how many PEs in all; 0: as many as the hosts say.
std::vector<Host> read_hosts(const std::string& text, int pes) {
  if (text.empty()) return {{"", pes == 0 ? 1 : pes}};
  std::vector<Host> hosts;
  int left = pes;
  for (const std::string& entry : split(text, ",")) {
    const std::size_t colon = entry.find(':');
    const std::optional<int> slots =
        colon == entry.npos ? std::optional(1) : number(std::string_view(entry).substr(colon + 1));
    if (!slots || *slots < 1 || *slots > kMostPes || colon == 0 || entry.starts_with('-')) {
      refuse(
          fmt::format("--hosts: '{}' is not a host and a number of PEs, such as node1:4", entry));
    }
    const int here = pes == 0 ? *slots : std::min(*slots, left);
    left -= here;
    if (here > 0) hosts.push_back({entry.substr(0, colon), here});
  }
  if (hosts.empty()) refuse("--hosts names no host");
  if (left > 0) {
    refuse(
        fmt::format("-n {}: --hosts {} have room for {}; give more hosts, or more PEs to one "
                    "(node1:4)",
                    pes, text, pes - left));
  }
  return hosts;
}

std::chrono::milliseconds read_grace(const std::string& text) {
  const std::size_t unit = text.find_first_not_of("0123456789");
  const std::optional<int> count = number(std::string_view(text).substr(0, unit));
  const std::string name = unit == text.npos ? "" : text.substr(unit);
  if (!count || *count > 3'600'000 || (name != "ms" && name != "s" && !name.empty())) {
    refuse(fmt::format("--grace: '{}' is not a time such as 500ms or 10s", text));
  }
  return std::chrono::milliseconds(name == "ms" ? *count : int64_t{*count} * 1000);
}

// Empty where it was deleted: who runs here is in it all the same.
std::string current_folder(const std::vector<Host>& hosts) {
  char* const path = ::get_current_dir_name();
  const std::string folder = path == nullptr ? "" : path;
  ::free(path);
  if (folder.empty() && std::ranges::any_of(hosts, &Host::remote)) {
    refuse("the current folder has no path any more: other hosts cannot go there; cd elsewhere");
  }
  return folder;
}

// What mpirun calls -n, "-np", would be -n with a "p".
void rename_np(std::vector<std::string>& arguments) {
  const std::set<std::string> kWithValue = {"-n",       "--np",         "--pes",       "--hosts",
                                            "--rsh",    "--agent-path", "--interface", "-x",
                                            "--export", "--grace",      "--input",     "--restart"};
  for (std::size_t i = 0; i < arguments.size() && arguments[i].starts_with('-'); ++i) {
    if (arguments[i] == "-np") arguments[i] = "--np";
    if (kWithValue.contains(arguments[i])) ++i;
  }
}

// peal's own settings and what is asked for by name. The PEs' places in the job are peal-run's.
std::vector<std::string> read_exports(const std::vector<std::string>& asked, char** environment) {
  static const std::set<std::string> kOwn = {"PEAL_TCP_ID", "PEAL_TCP_RANK", "PEAL_TCP_RESTART",
                                             "PEAL_TCP_SIZE"};
  std::map<std::string, std::string> there;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string entry = *environment;
    const std::size_t equals = std::min(entry.find('='), entry.size());
    there[entry.substr(0, equals)] = entry.substr(std::min(equals + 1, entry.size()));
  }
  std::map<std::string, std::string> exported;
  for (const auto& [name, value] : there) {
    if (name.starts_with("PEAL_") && !kOwn.contains(name)) exported[name] = value;
  }
  for (const std::string& entry : asked) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (name.empty() || kOwn.contains(name)) {
      refuse(fmt::format("-x {}: {}", entry,
                         name.empty() ? "no name" : "peal-run itself sets it for every PE"));
    }
    if (equals != entry.npos) {
      exported[name] = entry.substr(equals + 1);
    } else if (const auto found = there.find(name); found != there.end()) {
      exported[name] = found->second;
    } else {
      refuse(fmt::format("-x {}: not set here; give {}=VALUE", name, name));
    }
  }
  if (const auto way = exported.find("PEAL_BOOTSTRAP");
      way != exported.end() && way->second != "auto" && way->second != "tcp") {
    refuse(
        fmt::format("PEAL_BOOTSTRAP={}: the PEs of peal-run meet over tcp; unset it", way->second));
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : exported) entries.push_back(name + "=" + value);
  return entries;
}

// The options as the command line has them.
struct Raw {
  int pes = 0;
  std::string hosts;
  std::string shell = kShell;
  std::string grace = "5s";
  std::vector<std::string> exports;
  bool bare = false;
  bool pipe = false;
};

void declare(CLI::App& app, Raw& raw, RunOptions& options) {
  app.prefix_command();
  app.add_option("-n,--pes,--np", raw.pes, "PEs in all; without it 1, or what --hosts has room for")
      ->type_name("N");
  app.add_option("--hosts", raw.hosts, "machines and their PEs: a:2,b:2")->type_name("LIST");
  app.add_option("--rsh", raw.shell, "command that starts another on a host")
      ->type_name("COMMAND")
      ->capture_default_str();
  app.add_option("--agent-path", options.agent, "peal-run on the hosts; this one's path by default")
      ->type_name("PATH");
  app.add_option("--interface", options.interface,
                 "of the first host, or its address, where all PEs can reach it")
      ->type_name("NAME");
  app.add_option("-x,--export", raw.exports, "a variable for the PEs; PEAL_* are theirs anyway")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
  app.add_flag("--no-prefix", raw.bare, "do not write [RANK] before each line of output");
  app.add_flag("--no-pty", raw.pipe,
               "standard output of a PE is a pipe, which programs fill before they write");
  app.add_flag("--keep-going", options.keep_going, "let the others run on when a PE fails");
  app.add_option("--restart", options.restarts,
                 "start a PE that fails again, N times at most; the others rejoin()")
      ->type_name("N");
  app.add_option("--grace", raw.grace, "time from SIGTERM to SIGKILL")
      ->type_name("TIME")
      ->capture_default_str();
  app.add_flag("--agent", options.be_agent)->group("");
  app.add_option("--input", options.input)->group("");
}

}  // namespace

int RunOptions::size() const {
  int sum = 0;
  for (const Host& host : hosts) sum += host.pes;
  return sum;
}

RunOptions read_options(int argc, char** argv, char** environment) {
  RunOptions options;
  Raw raw;
  CLI::App app(kAbout, "peal-run");
  declare(app, raw, options);
  try {
    std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    rename_np(arguments);
    std::ranges::reverse(arguments);  // CLI11 takes them from the end
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    throw EarlyExit{0, app.help()};
  } catch (const CLI::ParseError& error) {
    refuse(fmt::format("{}; see peal-run --help", error.what()));
  }
  if (options.be_agent) return options;
  options.argv = app.remaining();
  if (!options.argv.empty() && options.argv[0] == "--") options.argv.erase(options.argv.begin());
  if (options.argv.empty()) refuse("no program; see peal-run --help");
  if (options.argv[0].starts_with('-')) {
    refuse(fmt::format("{} is unknown; see peal-run --help", options.argv[0]));
  }
  if (app.count("-n") > 0 && (raw.pes < 1 || raw.pes > kMostPes)) {
    refuse(fmt::format("-n {}: 1 to {} PEs", raw.pes, kMostPes));
  }
  if (options.restarts < 0 || options.restarts > kMostRestarts) {
    refuse(fmt::format("--restart {}: 0 to {} times", options.restarts, kMostRestarts));
  }
  options.hosts = read_hosts(raw.hosts, raw.pes);
  options.shell = split(raw.shell, " ");
  if (options.shell.empty()) refuse("--rsh: no command");
  options.grace = read_grace(raw.grace);
  options.exports = read_exports(raw.exports, environment);
  options.prefix = !raw.bare;
  options.terminal = !raw.pipe;
  options.folder = current_folder(options.hosts);
  if (options.agent.empty()) {
    std::error_code error;
    options.agent = std::filesystem::read_symlink("/proc/self/exe", error).string();
  }
  return options;
}

}  // namespace peal::run
