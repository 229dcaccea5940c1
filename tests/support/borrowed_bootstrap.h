// SPDX-License-Identifier: Apache-2.0
//
// A group of threads or forked processes whose Bootstrap belongs to whoever started them, while a
// Runtime wants one of its own: this forwards.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>

#include "host/bootstrap.h"

namespace peal::api_test {

/// A group of run_threads or run_processes, as a Runtime wants to own it.
class BorrowedBootstrap : public Bootstrap {
 public:
  explicit BorrowedBootstrap(Bootstrap& group) : group_(group) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    group_.allgather(mine, all);
  }
  void barrier() override { group_.barrier(); }
  [[noreturn]] void abort(const std::string& reason) override {
    group_.abort(reason);
    std::abort();  // g++ does not know that the call above stays
  }

 private:
  Bootstrap& group_;
};

}  // namespace peal::api_test
