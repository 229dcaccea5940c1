// SPDX-License-Identifier: Apache-2.0
//
// Text -> Presentation. A line is a list of name=value words, each at most once. What cannot be
// right is an error, never a default.
#include "softnic/presentation/present.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <optional>

#include "base/words.h"
#include "softnic/engine/address_vector.h"

namespace peal::softnic {

namespace {

using std::string_view;
using words::number;
using words::take_until;

template <class T>
struct Named {
  string_view name;
  T value;
};

constexpr Named<bool> kLinks[] = {{"ib", false}, {"roce", true}};
constexpr Named<PortState> kStates[] = {{"active", PortState::kActive},
                                        {"down", PortState::kDown},
                                        {"init", PortState::kInit},
                                        {"armed", PortState::kArmed}};
constexpr Named<uint8_t> kMtus[] = {{"256", 1}, {"512", 2}, {"1024", 3}, {"2048", 4}, {"4096", 5}};
constexpr Named<uint8_t> kRates[] = {{"40", 4}, {"56", 16}, {"100", 32}, {"200", 64}, {"400", 128}};
constexpr Named<uint32_t> kRefusals[] = {{"devx", kRefuseDevx},
                                         {"peermem", kRefusePeermem},
                                         {"uar", kRefuseUar},
                                         {"atomics", kRefuseAtomics},
                                         {"relaxed_ordering", kRefuseRelaxedOrdering},
                                         {"umem_peermem", kRefuseUmemPeermem}};
constexpr Named<DmaBufSupport> kDmaBufs[] = {
    {"none", DmaBufSupport::kNone}, {"mr", DmaBufSupport::kRegions}, {"all", DmaBufSupport::kAll}};
constexpr Named<TimestampSupport> kClocks[] = {{"free", TimestampSupport::kFree},
                                               {"real", TimestampSupport::kRealTime},
                                               {"both", TimestampSupport::kBoth}};
constexpr Named<Network> kNetworks[] = {
    {"ib", Network::kInfiniBand}, {"v1", Network::kRoceV1}, {"v2", Network::kRoceV2}};
constexpr Named<GidRule::Source> kSources[] = {{"link", GidRule::Source::kLink},
                                               {"ipv4", GidRule::Source::kIpv4},
                                               {"ipv6", GidRule::Source::kIpv6}};

constexpr uint8_t kDefaultEthernetMtu = 3;  // 1024: what fits an Ethernet frame of 1500

/// Calls `take` for each part between commas: one at least, empty ones too.
template <class Take>
void for_each_item(string_view list, Take take) {
  for (;;) {
    const size_t comma = list.find(',');
    take(list.substr(0, comma));
    if (comma == string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

/// One line of the presentation, and everything that is said about its errors.
class Line {
 public:
  Line(uint64_t number, string_view text) : number_(number), text_(text) {}

  /// Adds the line's devices to the presentation. False for a line without words.
  bool read(Presentation* presentation) {
    string_view rest = text_;
    while (!rest.empty()) {
      word_ = take_until(rest, " \t\r");
      if (!word_.empty()) take_word();
    }
    if (taken_.empty()) return false;
    complete();
    const uint64_t count = count_.value_or(1);
    if (presentation->size() + count > kMaxDevices) fail(text_, "a process has at most 16 devices");
    for (uint64_t i = 0; i < count; ++i) {
      if (!named()) device_.name = "mlx5_" + std::to_string(presentation->size());
      const auto same = [this](const PresentedDevice& other) { return other.name == device_.name; };
      if (std::any_of(presentation->begin(), presentation->end(), same)) {
        fail(text_, "there is a device " + device_.name + " already");
      }
      presentation->push_back(device_);
    }
    return true;
  }

 private:
  [[noreturn]] void fail(string_view word, const std::string& allowed) const {
    words::fail(number_, word, allowed);
  }

  void take_word() {
    value_ = word_;
    const string_view name = take_until(value_, "=");
    if (named(name)) fail(word_, "this word stands twice in its line");
    taken_.push_back(name);
    take(name);
  }

  void take(string_view name) {
    constexpr uint64_t kPorts = PresentedDevice::kMaxPorts;
    if (name == "devices") return set(count_, within(0, kMaxDevices));
    if (name == "name") return set(device_.name, device_name());
    if (name == "link") return set(device_.ethernet, one_of(kLinks));
    if (name == "ports") return set(device_.ports, within(1, kPorts));
    if (name == "port") return set(device_.port, within(1, kPorts));
    if (name == "state") return set(device_.state, one_of(kStates));
    if (name == "mtu") return set(device_.mtu, one_of(kMtus));
    if (name == "rate") return set(device_.speed, one_of(kRates));
    if (name == "subnet") return set(device_.subnet, within(1, ~uint64_t{0}));
    if (name == "gids") return take_gids();
    if (name == "pkeys") return take_pkeys();
    if (name == "udp") return take_udp_ports();
    if (name == "bond") return set(device_.bonded, within(1, kPorts));
    if (name == "clock") return set(device_.clock, one_of(kClocks));
    if (name == "refuse") {
      return for_each_item(value_,
                           [&](string_view item) { device_.refuses |= one_of(item, kRefusals); });
    }
    if (name == "dmabuf") return set(device_.dma_buf, one_of(kDmaBufs));
    if (name == "max_qp") return set(device_.max_qp, within(1, 1u << 17));
    if (name == "max_qp_wr") return set(device_.log_max_qp_wr, log_within(1u << 15));
    if (name == "max_rd_atom") return set(device_.log_responder_depth, log_within(16));
    if (name == "max_init_rd_atom") return set(device_.log_initiator_depth, log_within(16));
    if (name == "force_order") return set(device_.forces_order, on());
    if (name == "relaxed_only") return set(device_.relaxed_only, on());
    if (name == "ooo_rw") return set(device_.any_order, on());
    if (name == "pci_atomics") return set(device_.pci_atomics, on());
    if (name == "ooo_sl") return set(device_.unordered_levels, within(0, 0xffff));
    fail(word_,
         "a word is devices=, name=, link=, ports=, port=, state=, mtu=, rate=, subnet=, gids=, "
         "pkeys=, "
         "udp=, bond=, clock=, refuse=, dmabuf=, max_qp=, max_qp_wr=, max_rd_atom=, "
         "max_init_rd_atom=, force_order=, relaxed_only=, ooo_rw=, pci_atomics= or "
         "ooo_sl=");
  }

  /// The value was checked: it fits.
  template <class T, class Value>
  static void set(T& place, const Value& value) {
    place = static_cast<T>(value);
  }

  uint64_t within(uint64_t least, uint64_t most) const { return within(value_, least, most); }
  uint64_t within(string_view value, uint64_t least, uint64_t most) const {
    return words::within(number_, word_, value, least, most);
  }

  int log_within(uint64_t most) const {
    const auto n = number(value_);
    if (!n || !std::has_single_bit(*n) || *n > most) {
      fail(word_, "a power of two from 1 to " + std::to_string(most));
    }
    return std::countr_zero(*n);
  }

  template <class T, size_t N>
  T one_of(const Named<T> (&choices)[N]) const {
    return one_of(value_, choices);
  }
  template <class T, size_t N>
  T one_of(string_view value, const Named<T> (&choices)[N]) const {
    std::string names;
    for (const Named<T>& choice : choices) {
      if (choice.name == value) return choice.value;
      names += (names.empty() ? "" : ", ") + std::string(choice.name);
    }
    fail(word_, "one of " + names);
  }

  bool on() const {
    const std::optional<bool> given = words::switch_of(value_);
    if (!given) fail(word_, words::kSwitches);
    return *given;
  }

  string_view device_name() const {
    const auto fits = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    };
    if (value_.empty() || value_.size() > 32 || !std::ranges::all_of(value_, fits)) {
      fail(word_, "1 to 32 letters, digits, '-', '_'");
    }
    return value_;
  }

  void take_udp_ports() {
    const string_view first = take_until(value_, "-");
    set(device_.min_udp_port, within(first, 1, 0xffff));
    set(device_.max_udp_port, within(device_.min_udp_port, 0xffff));
  }

  void take_gids() {
    device_.gids.clear();
    for_each_item(value_, [&](string_view item) {
      if (device_.gids.size() == PresentedDevice::kMaxGids) fail(word_, "at most 16 GIDs");
      device_.gids.push_back(gid_rule(item));
    });
  }

  void take_pkeys() {
    device_.pkeys.clear();
    for_each_item(value_, [&](string_view item) {
      if (device_.pkeys.size() == PresentedDevice::kMaxPkeys) fail(word_, "at most 16 P_Keys");
      device_.pkeys.push_back(static_cast<uint16_t>(within(item, 0, 0xffff)));
    });
  }

  GidRule gid_rule(string_view text) const {
    if (text == "none") return {.source = GidRule::Source::kNone};
    string_view from = text;
    GidRule rule;
    rule.network = one_of(take_until(from, ":"), kNetworks);
    for (const auto& source : kSources) {
      rule.source = source.value;
      if (source.name == from) return rule;
    }
    const auto literal = parse_internet(std::string(from));
    if (!literal) {
      fail(word_,
           "a GID is none or TYPE:FROM, FROM one of link, ipv4, ipv6, an IPv4 address, an "
           "IPv6 address");
    }
    rule.source = GidRule::Source::kLiteral;
    rule.gid = *literal;
    return rule;
  }

  bool named(string_view name = "name") const {
    return std::find(taken_.begin(), taken_.end(), name) != taken_.end();
  }

  /// What follows from the link layer, and words that do not fit each other.
  void complete() {
    if (named() && count_) fail(text_, "name= goes without devices=");
    if (device_.port > device_.ports) fail(text_, "port= is one of the ports that ports= gives");
    if (!device_.ethernet && named("udp")) fail(text_, "udp= needs link=roce");
    if (device_.ethernet && named("subnet")) fail(text_, "subnet= needs link=ib");
    if (device_.ethernet && named("pkeys")) fail(text_, "pkeys= needs link=ib");
    if (!device_.ethernet && named("bond")) fail(text_, "bond= needs link=roce");
    if (device_.relaxed_only && device_.refuses_any(kRefuseRelaxedOrdering)) {
      fail(text_, "relaxed_only= goes without refuse=relaxed_ordering");
    }
    if (device_.ethernet && named("ooo_sl")) fail(text_, "ooo_sl= needs link=ib");
    if (device_.ethernet && !named("mtu")) device_.mtu = kDefaultEthernetMtu;
    if (!named("gids") && device_.ethernet) {
      // As a driver fills it: each address once for every version of RoCE.
      device_.gids.clear();
      for (const auto source : {GidRule::Source::kLink, GidRule::Source::kIpv4}) {
        for (const Network network : {Network::kRoceV1, Network::kRoceV2}) {
          device_.gids.push_back({.network = network, .source = source});
        }
      }
    }
    for (const GidRule& rule : device_.gids) {
      if (rule.source == GidRule::Source::kNone) continue;
      if ((rule.network != Network::kInfiniBand) != device_.ethernet) {
        fail(text_, "the GIDs of link=ib are of type ib, those of link=roce v1 or v2");
      }
      if (rule.network == Network::kInfiniBand &&
          (rule.source == GidRule::Source::kIpv4 || rule.source == GidRule::Source::kIpv6)) {
        fail(text_, "a GID of type ib is ib:link or a literal address");
      }
    }
  }

  uint64_t number_;
  string_view text_;
  string_view word_;   // that is being read
  string_view value_;  // of it
  std::vector<string_view> taken_;
  std::optional<uint64_t> count_;
  PresentedDevice device_;
};

}  // namespace

Presentation parse_presentation(string_view text) {
  Presentation presentation;
  bool any = false;
  words::for_each_line(text, "a presentation", [&](uint64_t line, string_view part) {
    any |= Line(line, part).read(&presentation);
  });
  if (!any) presentation.emplace_back();
  return presentation;
}

namespace {

void put(std::array<uint8_t, 16>& gid, size_t at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    gid[at + i] = static_cast<uint8_t>(value >> (8 * (bytes - 1 - i)));
  }
}

/// fe80:: and the modified EUI-64 of the Ethernet address, as a driver makes it.
std::array<uint8_t, 16> link_local_of(const MacAddress& mac) {
  std::array<uint8_t, 16> gid = {0xfe, 0x80};
  gid[8] = mac[0] ^ 2;
  gid[9] = mac[1];
  gid[10] = mac[2];
  gid[11] = 0xff;
  gid[12] = 0xfe;
  std::copy(mac.begin() + 3, mac.end(), gid.begin() + 13);
  return gid;
}

}  // namespace

MacAddress mac_of(uint16_t lid) {
  MacAddress mac;
  for (size_t i = 0; i < 4; ++i) mac[i] = static_cast<uint8_t>(kMacPrefix >> (24 - 8 * i));
  mac[4] = static_cast<uint8_t>(lid >> 8);
  mac[5] = static_cast<uint8_t>(lid);
  return mac;
}

uint16_t lid_of(const MacAddress& mac) {
  const uint32_t head = uint32_t{mac[0]} << 24 | uint32_t{mac[1]} << 16 | uint32_t{mac[2]} << 8;
  return lid_behind(head | mac[3], uint32_t{mac[4]} << 8 | mac[5]);
}

std::vector<GidTableEntry> gid_table(const PresentedDevice& device, uint16_t lid, uint64_t guid,
                                     const std::optional<InternetAddress>& address) {
  std::vector<GidTableEntry> table;
  for (const GidRule& rule : device.gids) {
    GidTableEntry gid{
        .used = rule.source != GidRule::Source::kNone, .network = rule.network, .raw = {}};
    switch (rule.source) {
      case GidRule::Source::kNone:
        break;
      case GidRule::Source::kLink:
        if (device.ethernet) {
          gid.raw = link_local_of(mac_of(lid));
        } else {
          put(gid.raw, 0, device.subnet, 8);
          put(gid.raw, 8, guid, 8);
        }
        break;
      case GidRule::Source::kIpv4:
        gid.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 112};
        put(gid.raw, 14, lid, 2);
        if (address) gid.raw = *address;
        break;
      case GidRule::Source::kIpv6:
        gid.raw = {0xfd, 0x70, 0x65, 0x61, 0x6c};
        put(gid.raw, 14, lid, 2);
        if (address && !is_ipv4(*address)) gid.raw = *address;
        break;
      case GidRule::Source::kLiteral:
        gid.raw = rule.gid;
        break;
    }
    table.push_back(gid);
  }
  return table;
}

}  // namespace peal::softnic
