// SPDX-License-Identifier: Apache-2.0
//
// Environment blocks: texts apart by zero bytes, first as peal's settings, with the lists of NICs
// among them, then as the software NIC's. Whatever is refused is refused as an error of
// configuration; what is accepted is within the limits that the documentation names.
#include <cstdlib>
#include <string>
#include <vector>

#include "host/base/config.h"
#include "host/base/error.h"
#include "host/nic/hca_list.h"
#include "softnic/presentation/settings.h"
#include "tests/fuzz/input.h"

namespace peal::fuzz {
namespace {

constexpr const char* kNames[] = {
    "PEAL_HEAP_SIZE",
    "PEAL_QUEUES",
    "PEAL_QUEUE_DEPTH",
    "PEAL_TIMEOUT",
    "PEAL_BOOTSTRAP",
    "PEAL_BOOTSTRAP_TIMEOUT",
    "PEAL_TCP_ID",
    "PEAL_TCP_RANK",
    "PEAL_TCP_SIZE",
    "PEAL_MPI_PLUGIN",
    "PEAL_IBVERBS",
    "PEAL_TRANSPORT",
    "PEAL_DEVICE",
    "PEAL_INFO",
    "PEAL_LOG",
    "PEAL_SOFTNIC_FABRIC",
    "PEAL_SOFTNIC_DIR",
    "PEAL_SOFTNIC_TIMEOUT_SCALE",
    "PEAL_SOFTNIC_ENGINE",
    "PEAL_SOFTNIC_GPU",
    "PEAL_SOFTNIC_ENGINE_PROGRAM",
    "PEAL_SOFTNIC_FAULTS",
    "PEAL_SOFTNIC_PRESENT",
    "PEAL_RAILS",
    "PEAL_HCA",
    "NCCL_IB_HCA",
    "NVSHMEM_HCA_LIST",
    "PEAL_MLX5",
};

/// Texts apart by zero bytes. One that starts with a byte below 32 stands for a name and its value.
std::vector<std::string> texts_of(const uint8_t* data, size_t bytes) {
  std::vector<std::string> texts(1);
  for (size_t i = 0; i < bytes; ++i) {
    if (data[i] == 0) {
      texts.emplace_back();
    } else if (texts.back().empty() && data[i] < 32) {
      texts.back() = std::string(kNames[data[i] % std::size(kNames)]) + "=";
    } else {
      texts.back().push_back(static_cast<char>(data[i]));
    }
  }
  return texts;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

void check(const Config& config) {
  using namespace std::chrono_literals;
  require(config.heap_size >= 64u << 10 && config.heap_size <= uint64_t{1} << 44);
  require(config.queues >= 1 && config.queues <= 1024);
  require(config.queue_depth >= 128 && config.queue_depth <= 16384);
  require((config.queue_depth & (config.queue_depth - 1)) == 0);
  require(config.timeout >= 0us && config.timeout <= 24h);
  require(config.bootstrap_timeout >= 1ms && config.bootstrap_timeout <= 24h);
  require(config.tcp_rank >= 0 && config.tcp_rank <= 65535);
  require(config.tcp_size >= 1 && config.tcp_size <= 65536);
  require(config.device >= -1 && config.device <= 1023);
  require(config.rails >= -1 && config.rails != 0 && config.rails <= 4);
  // A secret is not shown. What it happens to spell may stand in the table without it, too.
  Config without = config;
  without.tcp_id.clear();
  require(config.tcp_id.empty() || config.given.size() > 1 ||
          count(config.describe(), config.tcp_id) <= count(without.describe(), config.tcp_id));
}

/// A list that is empty allows everything; one that is not was set, and says by what.
void check(const nic::HcaList& list, bool any_set) {
  size_t allowed = 0;
  for (const char* name : {"mlx5_0", "mlx5_1", "mlx5_10", "ib_0", "a", "-"}) {
    for (const int port : {1, 2, 254}) allowed += list.allows(name, port) ? 1 : 0;
  }
  if (list.empty()) require(allowed == 18 && !list.chooses() && list.description().empty());
  require(any_set || list.empty());
  const std::string said = list.description();
  require(said.empty() || (said.ends_with('"') && said.find("=\"") != std::string::npos));
}

void read_lists(const Config& config) {
  for (const bool software : {false, true}) {
    try {
      const bool any = !config.hca.empty() ||
                       (!software && !(config.nvshmem_hca_list + config.nccl_ib_hca).empty());
      check(nic::HcaList::from(config, software), any);
    } catch (const Error& error) {
      require(error.code() == ErrorCode::kConfiguration);
      require(std::string(error.what()).find("is not accepted: give ") != std::string::npos);
    }
  }
}

void read_settings(const std::vector<std::string>& texts) {
  std::vector<const char*> block;
  for (const std::string& text : texts) block.push_back(text.c_str());
  block.push_back(nullptr);
  try {
    const Config config = Config::from_environment(block.data());
    check(config);
    read_lists(config);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kConfiguration && error.what()[0] != '\0');
  }
}

void check(const softnic::PresentedDevice& device) {
  using softnic::PresentedDevice;
  require(!device.name.empty() && device.name.size() <= 32);
  require(device.port >= 1 && device.port <= device.ports);
  require(device.ports <= PresentedDevice::kMaxPorts);
  require(device.mtu >= 1 && device.mtu <= 5);
  require(!device.gids.empty() && device.gids.size() <= PresentedDevice::kMaxGids);
  require(device.min_udp_port >= 1 && device.min_udp_port <= device.max_udp_port);
  require(device.log_responder_depth <= 4 && device.log_initiator_depth <= 4);
  require(device.max_qp >= 1 && device.max_qp <= 1u << 17 && device.log_max_qp_wr <= 15);
  for (const softnic::GidRule& rule : device.gids) {
    require(rule.source == softnic::GidRule::Source::kNone ||
            device.ethernet == (rule.network != softnic::Network::kInfiniBand));
  }
}

void read_softnic_settings(const std::vector<std::string>& texts) {
  for (const char* name : kNames) unsetenv(name);
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    for (const char* name : kNames) {
      if (text.compare(0, equals, name) != 0) continue;
      // The path of a plan is opened: none that an input chooses.
      const bool opens =
          text.starts_with("PEAL_SOFTNIC_FAULTS=/") || text.starts_with("PEAL_SOFTNIC_PRESENT=/");
      setenv(name, opens ? "/dev/null" : text.c_str() + equals + 1, 1);
    }
  }
  try {
    const softnic::Settings settings = softnic::Settings::from_environment();
    require(!settings.fabric.empty() && settings.fabric.size() <= 64);
    require(settings.fabric.find('/') == std::string::npos && settings.fabric[0] != '.');
    require(settings.directory[0] == '/');
    require(settings.timing.scale >= 0.001 && settings.timing.scale <= 1000);
    require(!settings.gpu || *settings.gpu >= 0);
    require(settings.present.size() <= softnic::kMaxDevices);
    for (const softnic::PresentedDevice& device : settings.present) check(device);
    require(settings.engine_program.empty() || settings.engine_program[0] == '/');
  } catch (const std::invalid_argument& error) {
    require(std::string(error.what()).starts_with("PEAL_SOFTNIC_"));
  }
}

}  // namespace
}  // namespace peal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto texts = peal::fuzz::texts_of(data, bytes);
  peal::fuzz::read_settings(texts);
  peal::fuzz::read_softnic_settings(texts);
  return 0;
}
