// SPDX-License-Identifier: Apache-2.0
//
// A group of threads or forked processes belongs to whoever started them (run_threads,
// run_processes), while a Runtime wants a Bootstrap of its own: this forwards.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/bootstrap.h"

namespace peal::bootstrap {

/// `group`, as a Runtime wants to own it; `group` must outlive it. peal::join(group) makes one.
class BorrowedBootstrap : public Bootstrap {
 public:
  explicit BorrowedBootstrap(Bootstrap& group) : group_(group) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void name_calls(std::string_view name) override { group_.name_calls(name); }
  void name_hosts(std::vector<std::string> hosts) override { group_.name_hosts(std::move(hosts)); }
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    group_.allgather(mine, all);
  }
  void barrier() override { group_.barrier(); }
  void end(const std::function<bool()>& go_on) override { group_.end(go_on); }
  void quit(const std::string& how) noexcept override { group_.quit(how); }
  std::vector<int> connections() const override { return group_.connections(); }
  [[noreturn]] void abort(const std::string& reason) override {
    group_.abort(reason);
    std::abort();  // g++ does not know that the call above stays
  }

 private:
  Bootstrap& group_;
};

}  // namespace peal::bootstrap
