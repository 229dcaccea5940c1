// SPDX-License-Identifier: Apache-2.0
//
// Reads PEAL_SOFTNIC_*: a value that cannot be right is an error, never a default.
#include "softnic/presentation/settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "softnic/engine/words.h"

namespace peal::softnic {

namespace {

[[noreturn]] void malformed(const char* name, std::string_view value, const char* allowed) {
  throw std::invalid_argument(std::string(name) + "=\"" + std::string(value) + "\": " + allowed);
}

bool is_fabric_name(std::string_view name) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= 64 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), fits);
}

EngineChoice choice_of(std::string_view text) {
  if (text == "auto") return EngineChoice::kAuto;
  if (text == "cpu") return EngineChoice::kCpu;
  if (text == "gpu") return EngineChoice::kGpu;
  malformed("PEAL_SOFTNIC_ENGINE", text, "auto, cpu or gpu");
}

void read_engine(Settings* settings) {
  if (const char* doorbell = std::getenv("PEAL_SOFTNIC_DOORBELL")) {
    const std::string_view text = doorbell;
    if (text != "value" && text != "record") {
      malformed("PEAL_SOFTNIC_DOORBELL", text, "value or record");
    }
    settings->doorbell_by_value = text == "value";
  }
  if (const char* engine = std::getenv("PEAL_SOFTNIC_ENGINE")) {
    settings->engine = choice_of(engine);
  }
  if (const char* program = std::getenv("PEAL_SOFTNIC_ENGINE_PROGRAM")) {
    if (program[0] != '/') {
      malformed("PEAL_SOFTNIC_ENGINE_PROGRAM", program, "an absolute path");
    }
    settings->engine_program = program;
  }
  if (const char* gpu = std::getenv("PEAL_SOFTNIC_GPU")) {
    const std::string_view text = gpu;
    int number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0) {
      malformed("PEAL_SOFTNIC_GPU", text, "the number of a GPU, from 0");
    }
    settings->gpu = number;
  }
}

/// "ordered", "any" or "any:17".
std::optional<uint64_t> placement_of(std::string_view text) {
  constexpr std::string_view kAny = "any:";
  if (text == "ordered") return std::nullopt;
  if (text == "any") return 1;
  uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const bool seeded = text.starts_with(kAny) && text.size() > kAny.size();
  const auto read = std::from_chars(text.data() + (seeded ? kAny.size() : 0), end, seed);
  if (!seeded || read.ec != std::errc() || read.ptr != end) {
    malformed("PEAL_SOFTNIC_PLACEMENT", text, "ordered, any, or any: and a number, the seed");
  }
  return seed;
}

/// The text that a variable holds or that lies in the file it names: at most one byte more than a
/// text may have.
std::string text_of(const char* name, const char* value) {
  if (value[0] != '/') return value;
  std::ifstream file(value, std::ios::binary);
  std::string text(words::kMaxTextBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    malformed(name, value, "the text itself, or the absolute path of a readable file");
  }
  text.resize(static_cast<size_t>(file.gcount()));
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
  if (present == nullptr) return parse_presentation("");
  return parsed("PEAL_SOFTNIC_PRESENT", present, parse_presentation);
}

Settings Settings::from_environment() {
  Settings settings;
  if (const char* fabric = std::getenv("PEAL_SOFTNIC_FABRIC")) {
    if (!is_fabric_name(fabric)) {
      malformed("PEAL_SOFTNIC_FABRIC", fabric, "1 to 64 letters, digits, '-', '_', '.'");
    }
    settings.fabric = fabric;
  }
  if (const char* directory = std::getenv("PEAL_SOFTNIC_DIR")) {
    if (directory[0] != '/') malformed("PEAL_SOFTNIC_DIR", directory, "an absolute path");
    settings.directory = directory;
  }
  if (const char* scale = std::getenv("PEAL_SOFTNIC_TIMEOUT_SCALE")) {
    const std::string_view text = scale;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), settings.timing.scale);
    if (error != std::errc() || end != text.data() + text.size() ||
        !(settings.timing.scale >= 0.001 && settings.timing.scale <= 1000)) {
      malformed("PEAL_SOFTNIC_TIMEOUT_SCALE", text, "a number from 0.001 to 1000");
    }
  }
  read_engine(&settings);
  if (const char* faults = std::getenv("PEAL_SOFTNIC_FAULTS")) {
    settings.faults = parsed("PEAL_SOFTNIC_FAULTS", faults, parse_fault_plan);
  }
  if (const char* placement = std::getenv("PEAL_SOFTNIC_PLACEMENT")) {
    settings.placement = placement_of(placement);
  }
  settings.present = presentation_from_environment();
  return settings;
}

}  // namespace peal::softnic
