// SPDX-License-Identifier: Apache-2.0
//
// Which NICs the user allows, in the three spellings that people have in their job scripts:
//
//   PEAL_HCA           mlx5_0,mlx5_3:1    these     ^mlx5_1,mlx5_2   all but these
//   NVSHMEM_HCA_LIST   mlx5_0:1,mlx5_3    these     ^mlx5_1          not this one; ^ for each name
//   NCCL_IB_HCA        as PEAL_HCA, but a name stands for all that begin with it, unless "=" or
//                      "^=" comes first
//
// The first of them that is set and not empty decides; the others are not even looked at. The last
// two were written for other libraries and name real NICs: with the software NIC they do not count.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/config.h"

namespace peal::nic {

class HcaList {
 public:
  enum class Syntax { kPeal, kNvshmem, kNccl };

  /// Allows everything.
  HcaList() = default;

  /// What `config` says; of the software NIC only what PEAL_HCA says. Throws as the next one.
  static HcaList from(const Config& config, bool software);

  /// Throws kConfiguration, naming variable, value and what is accepted, unless `text` is a list in
  /// that syntax. An empty one allows everything.
  HcaList(std::string variable, std::string text, Syntax syntax);

  bool allows(std::string_view name, int port) const;
  /// Some port of it, whether it has that one or not.
  bool allows(std::string_view name) const;

  /// It is one that allows everything because nothing was set.
  bool empty() const { return entries_.empty(); }
  /// It is PEAL_HCA and says which to use, not which to leave out.
  bool chooses() const;
  /// PEAL_HCA="^mlx5_1"; empty if nothing was set.
  std::string description() const;

 private:
  struct Entry {
    std::string name;
    std::optional<int> port;  // none: every port
    bool excluded;
  };

  [[noreturn]] void refuse() const;
  Entry parse_entry(std::string_view text, bool excluded) const;
  bool matches(const Entry& entry, std::string_view name, int port) const;

  std::string variable_;
  std::string text_;
  Syntax syntax_ = Syntax::kPeal;
  bool by_prefix_ = false;
  std::vector<Entry> entries_;
};

}  // namespace peal::nic
