// SPDX-License-Identifier: Apache-2.0
//
// Memory keys: of memory, and of entries that name other keys (softnic/engine/keys.h). What those
// name is looked at when it is used, as a ConnectX does: they may go, or come, at any time.
#include "softnic/control/control.h"
#include "softnic/engine/keys.h"

namespace peal::softnic {

namespace {

constexpr uint64_t kMostEntries = 1 << kLogMostEntries;
constexpr uint64_t kAtomicBytes = 8;

}  // namespace

/// What any key must have in order.
Refusal Control::check_key(const Key& config) {
  if (domains_.find(config.pd) == nullptr) return bad_resource("unknown pd");
  const uint32_t remote_writes = kRemoteWrite | kRemoteAtomic;
  if ((config.access & remote_writes) != 0 && (config.access & kLocalWrite) == 0) {
    return bad_parameter("remote write or atomic without local write");
  }
  if (config.bytes > 0 && config.iova + (config.bytes - 1) < config.iova) {
    return bad_parameter("iova range wraps");
  }
  return {};
}

/// What one of memory must have.
Refusal Control::check(const Key& config) {
  if (config.bytes > 0 && config.memory == nullptr) {
    return bad_parameter("registration without memory");
  }
  return check_key(config);
}

/// An index that no key has, with a place for its variant; 0 when there is none left.
uint32_t Control::take_key_index() {
  const uint32_t index = tables_.keys.take();
  if (variants_.size() <= index) variants_.resize(index + 1);
  return index;
}

void Control::enter_key(uint32_t number, const Key& config) {
  Key& key = tables_.keys[number >> 8] = config;
  key.number = number;
  tables_.port.key_count = tables_.keys.used();
  ++domains_[config.pd].users;
}

/// Of memory whatever the caller says: what it sends may come from another process.
Outcome Control::apply(const RegisterMemory& config) {
  const Refusal wrong = check(config);
  if (wrong.refused()) return wrong;
  const uint32_t index = take_key_index();
  if (index == 0) return no_resources("no memory key left");
  const uint32_t number = index << 8 | variants_[index]++;
  Key direct = config;
  direct.entries = nullptr;
  enter_key(number, direct);
  return number;
}

/// The rules by which firmware knows that it has an entry for every byte. UCX says of a ConnectX
/// that it counts from the start of the entity in which the first address would lie, and that an
/// atomic's key begins and ends at multiples of the longest atomic (openucx/ucx v1.22.0,
/// src/uct/ib/mlx5/dv/ib_mlx5dv_md.c, uct_ib_mlx5_devx_reg_ksm_data_contig).
Refusal Control::check(const IndirectKey& config) {
  const Key& key = config.key;
  if (key.bytes == 0 || config.entries.empty()) {
    return bad_parameter("indirect key without bytes or without entries");
  }
  if (key.log_entity < kLogLeastEntity || key.log_entity > kLogMostEntity) {
    return bad_parameter("entries of less than 2^12 bytes or more than 2^31");
  }
  const uint64_t entity = uint64_t{1} << key.log_entity;
  const uint64_t room = config.entries.size() << key.log_entity;
  const uint64_t before = key.iova & (entity - 1);
  if (config.entries.size() > kMostEntries || key.bytes > room || before > room - key.bytes) {
    return bad_parameter("too few entries for the length, or more than 2^16");
  }
  if ((key.access & kRemoteAtomic) != 0 && ((key.iova | key.bytes) & (kAtomicBytes - 1)) != 0) {
    return bad_parameter("indirect key for atomics not aligned to 8");
  }
  return check_key(key);
}

Created Control::make_indirect_key(const IndirectKey& config) {
  std::vector<KeyEntry> entries(config.entries.begin(), config.entries.end());
  const Runner::Pause pause(runner_);
  const Refusal wrong = check(config);
  if (wrong.refused()) return {0, wrong};
  const uint32_t index = take_key_index();
  if (index == 0) return {0, no_resources("no memory key left")};
  Key key = config.key;
  key.memory = nullptr;
  key.entries = (entries_[index] = std::move(entries)).data();
  enter_key(index << 8 | config.variant, key);
  variants_[index] = config.variant + 1;
  return {index << 8 | config.variant, {}};
}

Refusal Control::change_memory(uint32_t key, const Key& config) {
  const Runner::Pause pause(runner_);
  if (find_key(tables_.port, key) == nullptr) return bad_resource("unknown memory key");
  const Refusal wrong = check(config);
  if (wrong.refused()) return wrong;
  Key& entry = tables_.keys[key >> 8];
  --domains_[entry.pd].users;
  ++domains_[config.pd].users;
  entry = config;
  entry.number = key;
  return {};
}

Outcome Control::apply(const DeregisterMemory& call) {
  if (find_key(tables_.port, call.number) == nullptr) return bad_resource("unknown memory key");
  const uint32_t index = call.number >> 8;
  --domains_[tables_.keys[index].pd].users;
  tables_.keys[index] = {};
  entries_.erase(index);
  tables_.keys.release(index);
  return {};
}

}  // namespace peal::softnic
