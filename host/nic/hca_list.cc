// SPDX-License-Identifier: Apache-2.0
#include "host/nic/hca_list.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "host/base/error.h"

namespace peal::nic {
namespace {

using std::string_view;

constexpr int kMaxPort = 254;  // of InfiniBand

bool take(string_view& text, char mark) {
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(1);
  return true;
}

bool is_name(string_view text) {
  constexpr string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !text.empty() && text.find_first_not_of(kAllowed) == string_view::npos;
}

const char* accepted(HcaList::Syntax syntax) {
  switch (syntax) {
    case HcaList::Syntax::kPeal:
      break;
    case HcaList::Syntax::kNvshmem:
      return "names apart by commas, each with ^ before it to exclude it and with a port behind "
             "it if wanted: mlx5_0:1,mlx5_3 or ^mlx5_1";
    case HcaList::Syntax::kNccl:
      return "beginnings of names apart by commas, with a port behind each if wanted; ^ at the "
             "very front excludes them, = (or ^=) makes them whole names: mlx5, =mlx5_0:1,mlx5_3 "
             "or ^=mlx5_1";
  }
  return "names apart by commas, with a port behind each if wanted; ^ at the very front excludes "
         "them: mlx5_0, mlx5_0:1,mlx5_3 or ^mlx5_1,mlx5_2";
}

}  // namespace

HcaList HcaList::from(const Config& config, bool software) {
  if (!config.hca.empty()) return {"PEAL_HCA", config.hca, Syntax::kPeal};
  if (software) return {};
  if (!config.nvshmem_hca_list.empty()) {
    return {"NVSHMEM_HCA_LIST", config.nvshmem_hca_list, Syntax::kNvshmem};
  }
  if (!config.nccl_ib_hca.empty()) return {"NCCL_IB_HCA", config.nccl_ib_hca, Syntax::kNccl};
  return {};
}

HcaList::HcaList(std::string variable, std::string text, Syntax syntax)
    : variable_(std::move(variable)), text_(std::move(text)), syntax_(syntax) {
  if (text_.empty()) return;
  string_view rest = text_;
  const bool excluded = syntax_ != Syntax::kNvshmem && take(rest, '^');
  by_prefix_ = syntax_ == Syntax::kNccl && !take(rest, '=');
  while (true) {
    const size_t comma = rest.find(',');
    entries_.push_back(parse_entry(rest.substr(0, comma), excluded));
    if (comma == string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
}

HcaList::Entry HcaList::parse_entry(string_view text, bool excluded) const {
  Entry entry{.name = {}, .port = {}, .excluded = excluded};
  if (syntax_ == Syntax::kNvshmem) entry.excluded = take(text, '^');
  const size_t colon = text.find(':');
  entry.name = text.substr(0, colon);
  if (!is_name(entry.name)) refuse();
  if (colon == string_view::npos) return entry;
  const string_view digits = text.substr(colon + 1);
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 1 || port > kMaxPort) {
    refuse();
  }
  entry.port = port;
  return entry;
}

void HcaList::refuse() const {
  fail(ErrorCode::kConfiguration, "{} is not accepted: give {}", description(), accepted(syntax_));
}

bool HcaList::matches(const Entry& entry, string_view name, int port) const {
  if (entry.port && *entry.port != port) return false;
  return by_prefix_ ? name.starts_with(entry.name) : name == entry.name;
}

bool HcaList::allows(string_view name, int port) const {
  bool wanted = true;  // unless the list names some
  for (const Entry& entry : entries_) {
    if (entry.excluded && matches(entry, name, port)) return false;
    if (!entry.excluded) wanted = false;
  }
  return wanted || std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
           return !entry.excluded && matches(entry, name, port);
         });
}

bool HcaList::chooses() const {
  return syntax_ == Syntax::kPeal && !entries_.empty() && !entries_.front().excluded;
}

bool HcaList::allows(string_view name) const {
  for (int port = 1; port <= kMaxPort; ++port) {
    if (allows(name, port)) return true;
  }
  return false;
}

std::string HcaList::description() const {
  return entries_.empty() && text_.empty() ? "" : fmt::format("{}=\"{}\"", variable_, text_);
}

}  // namespace peal::nic
