// SPDX-License-Identifier: Apache-2.0
//
// How long the host takes to load and store words of a GPU's memory, and to copy small pieces, by
// each way that there is (host/memory/host_view.h): by copies of a stream, and by GDRCopy, which on
// coherent platforms makes plain loads and stores of them. No kernel, no NIC, no peer.
//
//   host_words [--way all|stream|gdrcopy] [--gpu N] [--gdrcopy PATH] [--iterations N] [--json]
//
// Every value is compared: what was stored with what a stream reads, what was loaded with what a
// stream wrote. Exit code: 0; 1 wrong data, no GPU, or a way that was named and is not there; 2 bad
// arguments.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "host/memory/backing_cuda.h"

namespace {

using peal::Backing;
using peal::Gpu;

struct Options {
  std::string way = "all";
  std::string gdrcopy = "auto";
  int gpu = 0;
  uint64_t iterations = 2000;
  bool json = false;
};

constexpr uint64_t kWarmUp = 50;
constexpr size_t kLargest = 64u << 10;
constexpr size_t kSizes[] = {8, 64, 256, 1024, 4096, 16384, kLargest};

/// One way, on memory of its own.
struct CallWay {
  std::string name;
  std::shared_ptr<Gpu> gpu;
  Backing memory;
};

struct Row {
  std::string op;
  size_t bytes;
  std::vector<double> usec{};
  uint64_t errors = 0;
};

void print(const CallWay& way, Row row, bool json) {
  std::ranges::sort(row.usec);
  const auto at = [&](double part) {
    return row.usec[static_cast<size_t>(part * static_cast<double>(row.usec.size() - 1))];
  };
  if (json) {
    const nlohmann::ordered_json line{
        {"program", "host_words"},     {"way", way.name},        {"how", way.gpu->describe_words()},
        {"gpu", way.gpu->name()},      {"op", row.op},           {"bytes", row.bytes},
        {"usec_min", at(0)},           {"usec_median", at(0.5)}, {"usec_p99", at(0.99)},
        {"verified", row.usec.size()}, {"errors", row.errors}};
    std::puts(line.dump().c_str());
  } else {
    std::puts(fmt::format("{:<8} {:<9} {:>6} {:>9.2f} {:>9.2f} {:>9.2f} {:>7}", way.name, row.op,
                          row.bytes, at(0), at(0.5), at(0.99), row.errors)
                  .c_str());
  }
}

template <class Body>
double timed(const Body& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return took.count();
}

/// Times `act(i)`, which `prepare(i)` precedes and `right(i)` looks at, both off the clock.
template <class Prepare, class Act, class Right>
Row measure(const Row& what, uint64_t iterations, const Prepare& prepare, const Act& act,
            const Right& right) {
  Row row = what;
  for (uint64_t i = 0; i < kWarmUp + iterations; ++i) {
    prepare(i);
    const double took = timed([&] { act(i); });
    if (i >= kWarmUp) row.usec.push_back(took);
    if (!right(i)) ++row.errors;
  }
  return row;
}

uint64_t value_of(uint64_t i) { return (i + 1) * 0x9e3779b97f4a7c15u; }

/// What a stream reads and writes: the judge of every way.
uint64_t read_word(const CallWay& way, const uint64_t* word) {
  uint64_t value = 0;
  way.gpu->copy(&value, word, sizeof(value));
  return value;
}
void write_word(const CallWay& way, uint64_t* word, uint64_t value) {
  way.gpu->copy(word, &value, sizeof(value));
}

std::vector<Row> rows_of(const CallWay& way, uint64_t iterations) {
  auto* const word = reinterpret_cast<uint64_t*>(way.memory.address()) + 3;
  uint64_t seen = 0;
  std::vector<Row> rows;
  rows.push_back(measure(
      {"store", 8}, iterations, [](uint64_t) {},
      [&](uint64_t i) { way.memory.store_word(word, value_of(i)); },
      [&](uint64_t i) { return read_word(way, word) == value_of(i); }));
  rows.push_back(measure(
      {"load", 8}, iterations, [&](uint64_t i) { write_word(way, word, value_of(i)); },
      [&](uint64_t) { seen = way.memory.load_word(word); },
      [&](uint64_t i) { return seen == value_of(i); }));
  std::vector<std::byte> mine(kLargest);
  std::vector<std::byte> there(kLargest);
  std::byte* const at = way.memory.address();
  for (const size_t bytes : kSizes) {
    const auto fill = [&](std::vector<std::byte>& with, uint64_t i) {
      std::memset(with.data(), static_cast<int>(i * 7 + bytes), bytes);
      const uint64_t first = value_of(i);
      std::memcpy(with.data(), &first, sizeof(first));
    };
    const auto same = [&](uint64_t) { return std::memcmp(mine.data(), there.data(), bytes) == 0; };
    rows.push_back(measure(
        {"copy_in", bytes}, iterations, [&](uint64_t i) { fill(mine, i); },
        [&](uint64_t) { way.memory.copy_in(at, mine.data(), bytes); },
        [&](uint64_t i) {
          way.gpu->copy(there.data(), at, bytes);
          return same(i);
        }));
    rows.push_back(measure(
        {"copy_out", bytes}, iterations,
        [&](uint64_t i) {
          fill(there, i);
          way.gpu->copy(at, there.data(), bytes);
        },
        [&](uint64_t) { way.memory.copy_out(mine.data(), at, bytes); }, same));
  }
  return rows;
}

CallWay open(const std::string& name, const Options& options) {
  auto gpu = Gpu::open(options.gpu, 0, name == "stream" ? "off" : options.gdrcopy);
  Backing memory = peal::make_cuda_backing(gpu, kLargest, "host_words");
  return {name, std::move(gpu), std::move(memory)};
}

int run(const Options& options) {
  uint64_t errors = 0;
  if (!options.json) {
    std::puts("way      op         bytes   usec min    median       p99  errors");
  }
  for (const char* name : {"stream", "gdrcopy"}) {
    const bool asked = options.way == name;
    if (!asked && options.way != "all") continue;
    const CallWay way = open(name, options);
    if (name != std::string("stream") && !way.memory.reaches(way.memory.address(), 8)) {
      std::fprintf(stderr, "host_words: the way gdrcopy is not available here: %s\n",
                   way.gpu->describe_words().c_str());
      if (asked) return 1;
      continue;
    }
    for (const Row& row : rows_of(way, options.iterations)) {
      errors += row.errors;
      print(way, row, options.json);
    }
  }
  if (errors != 0) {
    std::fprintf(stderr, "host_words: %llu values were wrong\n",
                 static_cast<unsigned long long>(errors));
  }
  return errors == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Latency of words and small copies between host and GPU memory, by each way.",
               "host_words");
  app.add_option("--way", options.way, "all, stream or gdrcopy")
      ->check(CLI::IsMember({"all", "stream", "gdrcopy"}));
  app.add_option("--gpu", options.gpu, "Index of the GPU")->check(CLI::Range(0, 1023));
  app.add_option("--gdrcopy", options.gdrcopy, "Path of libgdrapi.so.2; auto = as it is found");
  app.add_option("--iterations", options.iterations, "Of each row")
      ->check(CLI::Range(uint64_t{1}, uint64_t{10'000'000}));
  app.add_flag("--json", options.json, "One JSON object a row");
  return peal::run_command_line(app, argc, argv, [&options] { return run(options); });
}
