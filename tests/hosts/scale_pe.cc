// SPDX-License-Identifier: Apache-2.0
//
// What a PE of a job takes: it starts, is in some barriers, and says in one line of JSON how long
// that took and what the process has then, while all others are there as well. For scale.py.
//
//   scale_pe [BARRIERS]
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "peal/peal.h"

namespace {

using Clock = std::chrono::steady_clock;

PEAL_KERNEL meet(peal::Context ctx, int times, peal::Status* ended) {
  *ended = peal::Status::kOk;
  for (int i = 0; i < times && *ended == peal::Status::kOk; ++i) *ended = barrier_all(ctx);
}

/// A number of /proc/self/`file`: the one behind `name`.
long number_of(const char* file, const std::string& name) {
  std::ifstream in(std::string("/proc/self/") + file);
  for (std::string word; in >> word;) {
    long number = 0;
    if (word == name && in >> number) return number;
  }
  throw std::runtime_error(fmt::format("/proc/self/{} has no {}", file, name));
}

long descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all)) - 1;  // the folder's own
}

double microseconds_since(Clock::time_point then) {
  return std::chrono::duration<double, std::micro>(Clock::now() - then).count();
}

void meet_all(peal::Runtime& pe, int times) {
  peal::Status ended{};
  peal::launch({}, meet, pe.context(), times, &ended).wait();
  if (ended != peal::Status::kOk) throw std::runtime_error(to_string(ended));
}

int live(int times) {
  const Clock::time_point begin = Clock::now();
  peal::Runtime pe = peal::start();
  const double start_us = microseconds_since(begin);
  const Clock::time_point first = Clock::now();
  meet_all(pe, 1);  // makes what is made at first use
  const double first_us = microseconds_since(first);
  const Clock::time_point together = Clock::now();
  meet_all(pe, times);
  const double barrier_us = microseconds_since(together) / times;
  const std::string line = fmt::format(
      R"({{"pe": {}, "pes": {}, "start_ms": {:.1f}, "first_ms": {:.1f}, "barrier_us": {:.1f}, )"
      R"("rss_kib": {}, "pss_kib": {}, "descriptors": {}, "threads": {}}})",
      pe.my_pe(), pe.n_pes(), start_us / 1000, first_us / 1000, barrier_us,
      number_of("status", "VmRSS:"), number_of("smaps_rollup", "Pss:"), descriptors(),
      number_of("status", "Threads:"));
  meet_all(pe, 1);  // nobody has left while the others look
  std::puts(line.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return peal::run_main([&] { return live(argc > 1 ? std::atoi(argv[1]) : 10); });
}
