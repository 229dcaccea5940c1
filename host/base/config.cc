// SPDX-License-Identifier: Apache-2.0
//
// Rules (how a text becomes a value, and what to tell who wrote another), and the three walks over
// the table: parse, refuse unknown names, describe.
#include "host/base/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "base/words.h"
#include "host/base/algorithm_names.h"
#include "host/base/error.h"

namespace peal {
namespace {

using std::string_view;

/// Digits at the front of `text`, taken off it. nullopt when there are none or too many.
std::optional<uint64_t> take_number(string_view& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

std::optional<uint64_t> multiply(uint64_t a, uint64_t b) {
  if (b != 0 && a > std::numeric_limits<uint64_t>::max() / b) return std::nullopt;
  return a * b;
}

// A rule has parse(text) -> optional value and accepts() -> text for people.

struct Size {
  uint64_t low, high;

  std::optional<uint64_t> parse(string_view text) const {
    const std::optional<uint64_t> number = take_number(text);
    if (!number || text.size() > 1) return std::nullopt;
    const size_t power = text.empty() ? 0 : string_view("KMGT").find(text[0]) + 1;
    if (!text.empty() && power == 0) return std::nullopt;  // npos + 1
    const std::optional<uint64_t> bytes = multiply(*number, uint64_t{1} << (10 * power));
    return bytes && *bytes >= low && *bytes <= high ? bytes : std::nullopt;
  }
  std::string accepts() const {
    return fmt::format("a size from {} to {}, such as 64K, 512M or 2G", format_size(low),
                       format_size(high));
  }
};

struct Count {
  int low, high;

  std::optional<int> parse(string_view text) const {
    const std::optional<uint64_t> number = take_number(text);
    if (!number || !text.empty() || *number > static_cast<uint64_t>(high)) return std::nullopt;
    const int count = static_cast<int>(*number);
    return count >= low ? std::optional(count) : std::nullopt;
  }
  std::string accepts() const { return fmt::format("a whole number from {} to {}", low, high); }
};

/// -1 stands for auto.
struct AutoOr {
  Count count;

  std::optional<int> parse(string_view text) const {
    return text == "auto" ? std::optional(-1) : count.parse(text);
  }
  std::string accepts() const { return "auto or " + count.accepts(); }
};

/// The key of an InfiniBand partition; -1 stands for auto.
struct Pkey {
  std::optional<int> parse(string_view text) const {
    if (text == "auto") return -1;
    const int base = text.starts_with("0x") ? 16 : 10;
    if (base == 16) text.remove_prefix(2);
    int key = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key, base);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && key >= 1 && key <= 0xffff ? std::optional(key) : std::nullopt;
  }
  std::string accepts() const { return "auto or a key from 0x1 to 0xffff"; }
};

struct PowerOfTwo {
  int low, high;

  std::optional<int> parse(string_view text) const {
    const std::optional<int> count = Count{low, high}.parse(text);
    return count && (*count & (*count - 1)) == 0 ? count : std::nullopt;
  }
  std::string accepts() const { return fmt::format("a power of two from {} to {}", low, high); }
};

struct ZeroOr {
  PowerOfTwo other;

  std::optional<int> parse(string_view text) const {
    return words::switch_of(text) == false ? std::optional(0) : other.parse(text);
  }
  std::string accepts() const { return "0 or " + other.accepts(); }
};

struct Time {
  Microseconds low;
  static constexpr Microseconds kHigh = std::chrono::hours(24);

  std::optional<Microseconds> parse(string_view text) const {
    const std::optional<uint64_t> number = take_number(text);
    if (!number) return std::nullopt;
    uint64_t unit = 0;
    if (text == "us") unit = 1;
    if (text == "ms") unit = 1000;
    if (text == "s" || text.empty()) unit = 1000000;
    if (unit == 0) return std::nullopt;
    const std::optional<uint64_t> us = multiply(*number, unit);
    if (!us || *us > static_cast<uint64_t>(kHigh.count())) return std::nullopt;
    const Microseconds time(static_cast<int64_t>(*us));
    return time >= low ? std::optional(time) : std::nullopt;
  }
  std::string accepts() const {
    return fmt::format(
        "a time from {}us to 86400s, such as 500us, 20ms or 10s; a number alone is seconds",
        low.count());
  }
};

struct Switch {
  std::optional<bool> parse(string_view text) const { return words::switch_of(text); }
  std::string accepts() const { return words::kSwitches; }
};

struct AutoOrSwitch {
  std::optional<RelaxedOrdering> parse(string_view text) const {
    if (text == "auto") return RelaxedOrdering::kAuto;
    const std::optional<bool> on = words::switch_of(text);
    if (!on) return std::nullopt;
    return *on ? RelaxedOrdering::kOn : RelaxedOrdering::kOff;
  }
  std::string accepts() const { return std::string("auto, ") + words::kSwitches; }
};

/// The setting of a library that peal can do without: auto, off, or its path.
struct OptionalLibrary {
  std::optional<std::string> parse(string_view text) const {
    const std::optional<bool> on = words::switch_of(text);
    return on ? (*on ? "auto" : "off") : std::string(text);
  }
  std::string accepts() const { return "auto, off or a path"; }
};

struct Text {
  std::optional<std::string> parse(string_view text) const { return std::string(text); }
  std::string accepts() const { return "any text"; }
};

struct CallAndAlgorithm {
  std::optional<collective::ForcedAlgorithm> parse(string_view text) const {
    const collective::ForcedAlgorithm forced = forced_algorithm(text);
    const bool named = forced.algorithm != collective::Algorithm::kAny;
    return named || text.empty() ? std::optional(forced) : std::nullopt;
  }
  std::string accepts() const {
    return "one call and one algorithm of it, of " + all_algorithms() + " (docs/collectives.md)";
  }
};

/// A path in which %r, %p and %% stand for something else.
struct TraceName {
  std::optional<std::string> parse(string_view text) const {
    for (size_t at = 0; (at = text.find('%', at)) != string_view::npos; at += 2) {
      if (at + 1 == text.size() || string_view("rp%").find(text[at + 1]) == string_view::npos) {
        return std::nullopt;
      }
    }
    return std::string(text);
  }
  std::string accepts() const {
    return "a path in which %r stands for the PE, %p for the process and %% for %";
  }
};

/// Not to be shown.
struct Secret : Text {};

template <class Value, size_t kChoices>
struct Choice {
  std::array<std::pair<string_view, Value>, kChoices> choices;

  std::optional<Value> parse(string_view text) const {
    for (const auto& [name, value] : choices) {
      if (name == text) return value;
    }
    return std::nullopt;
  }
  std::string accepts() const {
    std::string names = "one of";
    for (const auto& [name, value] : choices) names.append(" ").append(name);
    return names;
  }
};

constexpr Choice<BootstrapKind, 7> kBootstraps{{{{"auto", BootstrapKind::kAuto},
                                                 {"mpi", BootstrapKind::kMpi},
                                                 {"pmix", BootstrapKind::kPmix},
                                                 {"pmi", BootstrapKind::kPmi},
                                                 {"torchrun", BootstrapKind::kTorchrun},
                                                 {"tcp", BootstrapKind::kTcp},
                                                 {"single", BootstrapKind::kSingle}}}};
constexpr Choice<TransportKind, 4> kTransports{{{{"auto", TransportKind::kAuto},
                                                 {"p2p", TransportKind::kP2p},
                                                 {"ibgda", TransportKind::kIbgda},
                                                 {"proxy", TransportKind::kProxy}}}};
constexpr Choice<TargetKind, 3> kTargets{
    {{{"auto", TargetKind::kAuto}, {"cpu", TargetKind::kCpu}, {"gpu", TargetKind::kGpu}}}};
constexpr Choice<DoorbellKind, 3> kDoorbells{
    {{{"auto", DoorbellKind::kAuto}, {"gpu", DoorbellKind::kGpu}, {"cpu", DoorbellKind::kCpu}}}};
constexpr Choice<FenceKind, 3> kFences{
    {{{"auto", FenceKind::kAuto}, {"gpu", FenceKind::kGpu}, {"system", FenceKind::kSystem}}}};
constexpr Choice<ConnectKind, 3> kConnects{
    {{{"auto", ConnectKind::kAuto}, {"lazy", ConnectKind::kLazy}, {"eager", ConnectKind::kEager}}}};
constexpr Choice<GetFlush, 3> kGetFlushes{
    {{{"auto", GetFlush::kAuto}, {"dump", GetFlush::kDump}, {"none", GetFlush::kNothing}}}};
constexpr Choice<SignalOpsSetting, 4> kSignalOps{{{{"auto", SignalOpsSetting::kAuto},
                                                   {"write", SignalOpsSetting::kWrite},
                                                   {"atomic", SignalOpsSetting::kAtomic},
                                                   {"strong", SignalOpsSetting::kStrong}}}};
constexpr Choice<int, 6> kMtus{
    {{{"auto", 0}, {"256", 256}, {"512", 512}, {"1024", 1024}, {"2048", 2048}, {"4096", 4096}}}};
constexpr Choice<LogLevel, 4> kLogLevels{{{{"error", LogLevel::kError},
                                           {"warn", LogLevel::kWarn},
                                           {"info", LogLevel::kInfo},
                                           {"debug", LogLevel::kDebug}}}};

#define PEAL_CONFIG_NAME(type, field, variable, text, rule, documentation) variable,
constexpr string_view kNames[] = {PEAL_CONFIG_TABLE(PEAL_CONFIG_NAME)};
#undef PEAL_CONFIG_NAME

// Read by the software NIC, which shares no code with this file.
constexpr string_view kSoftnicNames[] = {
    "PEAL_SOFTNIC_FABRIC",    "PEAL_SOFTNIC_DIR",     "PEAL_SOFTNIC_TIMEOUT_SCALE",
    "PEAL_SOFTNIC_ENGINE",    "PEAL_SOFTNIC_GPU",     "PEAL_SOFTNIC_ENGINE_PROGRAM",
    "PEAL_SOFTNIC_FAULTS",    "PEAL_SOFTNIC_PRESENT", "PEAL_SOFTNIC_DOORBELL",
    "PEAL_SOFTNIC_PLACEMENT", "PEAL_SOFTNIC_UDP"};

// What other libraries, and people, call it.
constexpr std::pair<string_view, string_view> kOtherNames[] = {
    {"PEAL_DEBUG", "PEAL_LOG=debug or PEAL_INFO=1"},
    {"PEAL_VERBOSE", "PEAL_LOG=info or PEAL_INFO=1"},
    {"PEAL_LOG_LEVEL", "PEAL_LOG"},
    {"PEAL_LOGLEVEL", "PEAL_LOG"},
    {"PEAL_TRACE", "PEAL_RECORD and PEAL_RECORD_FILE"},
    {"PEAL_SYMMETRIC_SIZE", "PEAL_HEAP_SIZE"},
    {"PEAL_HCA_LIST", "PEAL_HCA"},
    {"PEAL_NIC", "PEAL_HCA"}};

// Set by Open MPI, PMIx launchers, MPICH's and Slurm's pmi2, srun, torchrun, others.
constexpr string_view kLauncherNames[] = {"OMPI_COMM_WORLD_SIZE",
                                          "PMIX_NAMESPACE",
                                          "PMIX_RANK",
                                          "PMI_FD",
                                          "PMI_RANK",
                                          "PMI_SIZE",
                                          "PMI_JOBID",
                                          "SLURM_STEP_NUM_TASKS",
                                          "RANK",
                                          "WORLD_SIZE",
                                          "MASTER_ADDR",
                                          "MASTER_PORT",
                                          "TORCHELASTIC_RUN_ID",
                                          "MV2_COMM_WORLD_SIZE",
                                          "FLUX_JOB_SIZE",
                                          "JSM_NAMESPACE_SIZE",
                                          "TORCHELASTIC_RESTART_COUNT"};

template <class Range>
bool holds(const Range& names, string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// Levenshtein distance: letters to insert, drop or change.
size_t distance(string_view a, string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

[[noreturn]] void refuse_unknown(string_view name) {
  std::vector<string_view> known(std::begin(kNames), std::end(kNames));
  known.insert(known.end(), std::begin(kSoftnicNames), std::end(kSoftnicNames));
  // The last words of a name left out count as one letter, however long they are.
  const auto off = [name](string_view other) {
    const bool shortened = other.starts_with(name) && other.substr(name.size()).starts_with('_');
    return shortened ? size_t{1} : distance(name, other);
  };
  string_view nearest = *std::min_element(
      known.begin(), known.end(), [&](string_view a, string_view b) { return off(a) < off(b); });
  // A name of which half would have to change was not misspelt.
  const size_t letters = name.size() - std::min(name.size(), string_view("PEAL_").size());
  if (2 * off(nearest) > letters) nearest = "";
  for (const auto& [other, meant] : kOtherNames) {
    if (name == other) nearest = meant;
  }
  fail(ErrorCode::kConfiguration,
       "{} is not a setting of peal; {}{}{}PEAL_INFO=1 lists all settings{}", name,
       nearest.empty() ? "" : "did you mean ", nearest, nearest.empty() ? "" : "? (",
       nearest.empty() ? "" : ")");
}

template <class Value, class Rule>
void assign(Value& value, string_view variable, const std::string& text, const Rule& rule) {
  const auto parsed = rule.parse(text);
  if (!parsed) {
    fail(ErrorCode::kConfiguration, "{}=\"{}\" is not accepted: give {}", variable, text,
         rule.accepts());
  }
  value = *parsed;
}

std::string shown(const std::string& text, bool secret) {
  if (text.empty()) return "(empty)";
  return secret ? "(not shown)" : text;
}

}  // namespace

Config Config::from_environment(const char* const* environment) {
  Config config;
  for (; environment && *environment; ++environment) {
    const string_view entry(*environment);
    const string_view name = entry.substr(0, entry.find('='));
    const string_view text = entry.substr(std::min(name.size() + 1, entry.size()));
    if (holds(kLauncherNames, name)) config.launcher.emplace(name, text);
    if (!holds(kNames, name)) {
      if (!name.starts_with("PEAL_")) continue;
      if (!holds(kSoftnicNames, name)) refuse_unknown(name);
      config.softnic.emplace(name, text);
      continue;
    }
    config.given.emplace(name, text);
  }
  const auto text_of = [&config](const char* variable, const char* otherwise) {
    const auto found = config.given.find(variable);
    return found == config.given.end() ? std::string(otherwise) : found->second;
  };
#define PEAL_CONFIG_ASSIGN(type, field, variable, text, rule, documentation) \
  assign(config.field, variable, text_of(variable, text), rule);
  PEAL_CONFIG_TABLE(PEAL_CONFIG_ASSIGN)
#undef PEAL_CONFIG_ASSIGN
  return config;
}

Config Config::defaults() { return from_environment(nullptr); }

std::string Config::describe() const {
  std::string lines;
  const auto add = [this, &lines](const char* variable, const char* otherwise, bool secret,
                                  const char* documentation) {
    const auto found = given.find(variable);
    const bool set = found != given.end();
    lines += fmt::format("{:<22} {:<12} {:<9} {}\n", variable,
                         shown(set ? found->second : otherwise, secret && set),
                         set ? "(set)" : "(default)", documentation);
  };
#define PEAL_CONFIG_DESCRIBE(type, field, variable, text, rule, documentation) \
  add(variable, text, std::is_same_v<decltype(rule), Secret>, documentation);
  PEAL_CONFIG_TABLE(PEAL_CONFIG_DESCRIBE)
#undef PEAL_CONFIG_DESCRIBE
  return lines;
}

std::string format_size(uint64_t bytes) {
  size_t power = 0;
  while (power < 4 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++power;
  }
  return power == 0 ? std::to_string(bytes) : fmt::format("{}{}", bytes, "KMGT"[power - 1]);
}

}  // namespace peal
