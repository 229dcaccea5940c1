// SPDX-License-Identifier: Apache-2.0
//
// Reads PEAL_SOFTNIC_*: a value that cannot be right is an error, never a default.
#include "softnic/presentation/settings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "base/fd.h"
#include "base/internet.h"
#include "base/words.h"

namespace peal::softnic {

namespace {

using std::string_view;

[[noreturn]] void malformed(const char* name, string_view value, const std::string& allowed) {
  throw std::invalid_argument(std::string(name) + "=\"" + std::string(value) + "\": " + allowed);
}

bool is_fabric_name(string_view name) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= 64 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), fits);
}

/// The whole text as a number.
template <class T>
bool read_number(string_view text, T* number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end;
}

bool read_path(string_view text, std::string* path) {
  *path = text;
  return text.starts_with('/');
}

/// Addresses that a socket can be bound to, between commas.
bool read_addresses(string_view text, Settings* to) {
  constexpr size_t kMost = 256;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    const std::string one(text.substr(0, comma));
    const auto address = parse_internet(one);
    if (!address || !is_of_one_host(*address) || to->udp.size() == kMost) return false;
    // One of IPv4 is written as such.
    if (is_ipv4(*address) && one.find(':') != std::string::npos) return false;
    to->udp.push_back(*address);
    more = comma != string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return true;
}

struct Variable {
  const char* name;
  const char* allowed;
  bool (*read)(string_view text, Settings* to);  // false for what is not allowed
};
constexpr Variable kVariables[] = {
    {"PEAL_SOFTNIC_FABRIC", "1 to 64 letters, digits, '-', '_', '.'",
     [](string_view text, Settings* to) {
       to->fabric = text;
       return is_fabric_name(text);
     }},
    {"PEAL_SOFTNIC_DIR", "an absolute path",
     [](string_view text, Settings* to) { return read_path(text, &to->directory); }},
    {"PEAL_SOFTNIC_TIMEOUT_SCALE", "a number from 0.001 to 1000",
     [](string_view text, Settings* to) {
       double& scale = to->timing.scale;
       return read_number(text, &scale) && scale >= 0.001 && scale <= 1000;
     }},
    {"PEAL_SOFTNIC_DOORBELL", "value or record",
     [](string_view text, Settings* to) {
       to->doorbell_by_value = text == "value";
       return text == "value" || text == "record";
     }},
    {"PEAL_SOFTNIC_ENGINE", "auto, cpu or gpu",
     [](string_view text, Settings* to) {
       if (text == "cpu") to->engine = EngineChoice::kCpu;
       if (text == "gpu") to->engine = EngineChoice::kGpu;
       return text == "auto" || text == "cpu" || text == "gpu";
     }},
    {"PEAL_SOFTNIC_ENGINE_PROGRAM", "an absolute path",
     [](string_view text, Settings* to) { return read_path(text, &to->engine_program); }},
    {"PEAL_SOFTNIC_GPU", "the number of a GPU, from 0",
     [](string_view text, Settings* to) {
       to->gpu = -1;
       return read_number(text, &*to->gpu) && *to->gpu >= 0;
     }},
    {"PEAL_SOFTNIC_PLACEMENT", "ordered, any, or any: and a number, the seed",
     [](string_view text, Settings* to) {
       constexpr string_view kAny = "any:";
       if (text == "ordered") return true;
       to->placement = 1;
       return text == "any" ||
              (text.starts_with(kAny) && read_number(text.substr(kAny.size()), &*to->placement));
     }},
    {"PEAL_SOFTNIC_UDP",
     "addresses of this host, of IPv4 or IPv6 (no link-local ones), between commas, 256 at most",
     read_addresses},
};

/// The text that a variable holds or that lies in the file it names: at most one byte more than a
/// text may have.
std::string text_of(const char* name, const char* value) {
  constexpr const char* kAllowed = "the text itself, or the absolute path of a readable file: ";
  if (value[0] != '/') return value;
  // O_NONBLOCK: opening a pipe that nobody writes would wait for ever. Files do not care.
  const Fd file(open(value, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (!file || fstat(file.get(), &info) != 0) {
    malformed(name, value, kAllowed + std::string(std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    malformed(name, value, kAllowed + std::string("this is no regular file"));
  }
  std::string text(words::kMaxTextBytes + 1, '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = read(file.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) malformed(name, value, kAllowed + std::string(std::strerror(errno)));
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  text.resize(have);
  return text;
}

/// What `parse` makes of the variable's text.
template <class Parse>
auto parsed(const char* name, const char* value, Parse parse) {
  const std::string text = text_of(name, value);
  try {
    return parse(text);
  } catch (const std::invalid_argument& error) {
    malformed(name, value, error.what());
  }
}

}  // namespace

Presentation Settings::presentation_from_environment() {
  const char* const present = std::getenv("PEAL_SOFTNIC_PRESENT");
  // What has an IP address is on Ethernet.
  const bool udp = std::getenv("PEAL_SOFTNIC_UDP") != nullptr;
  if (present == nullptr) return parse_presentation(udp ? "link=roce" : "");
  return parsed("PEAL_SOFTNIC_PRESENT", present, parse_presentation);
}

Settings Settings::from_environment() {
  Settings settings;
  for (const Variable& variable : kVariables) {
    const char* const set = std::getenv(variable.name);
    if (set != nullptr && !variable.read(set, &settings)) {
      malformed(variable.name, set, variable.allowed);
    }
  }
  if (const char* faults = std::getenv("PEAL_SOFTNIC_FAULTS")) {
    settings.faults = parsed("PEAL_SOFTNIC_FAULTS", faults, parse_fault_plan);
  }
  settings.present = presentation_from_environment();
  return settings;
}

}  // namespace peal::softnic
