// SPDX-License-Identifier: Apache-2.0
//
// GPU driver, and the two things that a NIC and a GPU need of it: the NIC's doorbell page mapped
// for kernels, the GPU's memory registered with the NIC.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/words.h"
#include "doctor/checks.h"

namespace peal::doctor {
namespace {

constexpr int kOldestDriver = 525;  // the first for CUDA 12
constexpr int kDmaBufDriver = 515;  // CUDA 11.7
constexpr int kDmaBufKernel[] = {5, 12};

struct KernelDriver {
  std::string version;  // "580.95.05"; empty: none loaded
  int major = 0;
  bool open_module = false;
};

int number_at(const std::string& text, size_t at) {
  int number = 0;
  std::from_chars(text.data() + std::min(at, text.size()), text.data() + text.size(), number);
  return number;
}

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build ..."
KernelDriver loaded_driver(const Machine& machine) {
  std::istringstream words(machine.text("proc/driver/nvidia/version"));
  KernelDriver driver;
  std::string line;
  std::getline(words, line);
  driver.open_module = line.find("Open Kernel Module") != std::string::npos;
  std::istringstream parts(line);
  for (std::string word; driver.version.empty() && parts >> word;) {
    if (word[0] >= '0' && word[0] <= '9' && word.find('.') != std::string::npos) {
      driver.version = word;
    }
  }
  driver.major = number_at(driver.version, 0);
  return driver;
}

// Major version of the toolkit in /usr/local/cuda; 0: none.
int toolkit_major(const Machine& machine) {
  const auto json =
      nlohmann::json::parse(machine.text("usr/local/cuda/version.json"), nullptr, false);
  if (!json.is_object() || !json.contains("cuda") || !json["cuda"].is_object()) return 0;
  const auto version = json["cuda"].find("version");
  if (version == json["cuda"].end() || !version->is_string()) return 0;
  return number_at(version->get<std::string>(), 0);
}

bool kernel_has_dma_buf(const Machine& machine) {
  const std::string release = machine.text("proc/sys/kernel/osrelease");
  const int major = number_at(release, 0);
  const int minor = number_at(release, release.find('.') + 1);
  return major > kDmaBufKernel[0] || (major == kDmaBufKernel[0] && minor >= kDmaBufKernel[1]);
}

bool dma_buf_possible(const Machine& machine) {
  const KernelDriver driver = loaded_driver(machine);
  return driver.open_module && driver.major >= kDmaBufDriver && kernel_has_dma_buf(machine);
}

// 0, or why a NIC takes no queues that lie in a dma-buf: that is younger than windows that do.
int queues_refused(const Machine& machine) {
  for (const ProbedNic& nic : machine.verbs.nics) {
    if (nic.dma_buf_error != 0) return nic.dma_buf_error;
  }
  return 0;
}

bool peermem_installed(const Machine& machine) {
  const std::string modules = "lib/modules/" + machine.text("proc/sys/kernel/osrelease");
  return machine.text(modules + "/modules.dep").find("nvidia-peermem.ko") != std::string::npos;
}

}  // namespace

bool has_gpu(const Machine& machine) {
  return machine.exists("proc/driver/nvidia/version") || !nvidia_gpus(machine).empty();
}

Findings unless_gpu_and_nic(const Machine& machine, const char* check) {
  const bool gpu = has_gpu(machine);
  const bool nic = !connectx(machine).empty();
  if (gpu && nic) return {};
  const char* const missing = gpu ? "no ConnectX" : nic ? "no GPU" : "no GPU, no ConnectX";
  return {{check, "", Level::kSkip, fmt::format("matters between GPU and NIC: {}", missing)}};
}

Findings check_gpu_driver(const Machine& machine) {
  const KernelDriver driver = loaded_driver(machine);
  if (driver.version.empty()) {
    if (nvidia_gpus(machine).empty()) {
      return {{"gpu driver", "", Level::kWarn, "no NVIDIA GPU: kernels run on the CPU",
               "nothing to do for development; else a machine with an NVIDIA GPU"}};
    }
    return {
        {"gpu driver", "", Level::kFail, "GPU without a loaded driver (/proc/driver/nvidia)",
         "install NVIDIA's driver 550 or newer and: sudo modprobe nvidia; in a container start it "
         "with --gpus all"}};
  }
  const std::string found = fmt::format("{}, {} kernel module", driver.version,
                                        driver.open_module ? "open" : "proprietary");
  if (driver.major < kOldestDriver) {
    return {{"gpu driver", "", Level::kFail, found + ": too old for CUDA 12",
             "install NVIDIA's driver 550 or newer, with open kernel modules"}};
  }
  return {{"gpu driver", "", Level::kOk, found}};
}

namespace {

Finding judge_writes(const CudaView& cuda) {
  if (cuda.unordered == 0) {
    return {"gpu writes", "", Level::kOk, "kernels see a NIC's writes in order"};
  }
  return {"gpu writes", "", Level::kWarn,
          fmt::format("{} of {} GPUs show kernels a NIC's writes in no order", cuda.unordered,
                      cuda.gpus),
          "a signal may be seen before its data there: call quiet between a put and its signal, or "
          "use Hopper or newer (docs/memory_model.md, Several memories)"};
}

}  // namespace

Findings check_cuda(const Machine& machine) {
  const CudaView& cuda = machine.cuda;
  if (!cuda.problem.empty() || cuda.gpus == 0) {
    const std::string found = cuda.problem.empty() ? "libcuda sees no GPU" : cuda.problem;
    if (!has_gpu(machine)) return {{"cuda", "", Level::kSkip, "no GPU: " + found}};
    return {
        {"cuda", "", Level::kFail, found,
         "compare with nvidia-smi; in a container start it with --gpus all; if it takes seconds: "
         "sudo nvidia-smi -pm 1; CUDA_VISIBLE_DEVICES must not hide all GPUs"}};
  }
  const int toolkit = toolkit_major(machine);
  const std::string found =
      fmt::format("CUDA {}.{} of the driver, {} GPU{}", cuda.version / 1000,
                  cuda.version % 1000 / 10, cuda.gpus, cuda.gpus == 1 ? "" : "s");
  if (toolkit > cuda.version / 1000) {
    return {{"cuda", "", Level::kFail,
             fmt::format("{}, but /usr/local/cuda is CUDA {}: what it builds does not start here",
                         found, toolkit),
             fmt::format("update the driver, or build with CUDA {}", cuda.version / 1000)}};
  }
  return {{"cuda", "", Level::kOk, found}, judge_writes(cuda)};
}

Findings check_doorbell_mapping(const Machine& machine) {
  constexpr const char* kCheck = "doorbell mapping";
  if (auto skip = unless_gpu_and_nic(machine, kCheck); !skip.empty()) return skip;
  const std::string remedy =
      "echo 'options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\"' | sudo tee "
      "/etc/modprobe.d/peal.conf; then sudo update-initramfs -u (dracut -f) and reboot";
  const std::string params = machine.text("proc/driver/nvidia/params");
  if (params.find("PeerMappingOverride=1") != std::string::npos) {
    return {{kCheck, "", Level::kOk, "PeerMappingOverride=1"}};
  }
  const std::string found = params.empty()
                                ? "/proc/driver/nvidia/params cannot be read"
                                : "the driver's RegistryDwords has no PeerMappingOverride=1";
  if (machine.has(Capability::kSysAdmin)) {
    return {{kCheck, "", Level::kWarn, found + "; you are administrator and pass, others do not",
             remedy}};
  }
  return {{kCheck, "", Level::kWarn,
           found + ": kernels cannot ring the NIC, a CPU thread does it for them, slower", remedy}};
}

Findings check_peermem(const Machine& machine) {
  constexpr const char* kCheck = "nvidia-peermem";
  if (auto skip = unless_gpu_and_nic(machine, kCheck); !skip.empty()) return skip;
  if (machine.exists("sys/module/nvidia_peermem") ||
      machine.exists("sys/kernel/mm/memory_peers/nvidia-peermem")) {
    return {{kCheck, "", Level::kOk, "loaded"}};
  }
  // Either of the two will do, and dma-buf is tried first.
  const bool windows = dma_buf_possible(machine);
  const bool needed = !windows || queues_refused(machine) != 0;
  const Level level = !windows ? Level::kFail : needed ? Level::kWarn : Level::kSkip;
  const std::string other = !windows ? ", and no dma-buf: a NIC cannot reach GPU memory"
                            : needed ? ", and no dma-buf for queues: a CPU thread posts for "
                                       "kernels, slower"
                                     : "; dma-buf takes its place";
  const auto remedy = [&](const char* text) { return needed ? text : ""; };
  if (machine.exists("sys/module/nv_peer_mem")) {
    return {{kCheck, "", level, "its predecessor nv_peer_mem is loaded: not for queues" + other,
             remedy("sudo rmmod nv_peer_mem; sudo modprobe nvidia-peermem")}};
  }
  if (peermem_installed(machine)) {
    return {{kCheck, "", level, "installed, not loaded" + other,
             remedy("sudo modprobe nvidia-peermem; for good: echo nvidia-peermem | sudo tee "
                    "/etc/modules-load.d/nvidia-peermem.conf")}};
  }
  return {{kCheck, "", level, "not there" + other,
           remedy("install DOCA-OFED (or MLNX_OFED), reinstall NVIDIA's driver after it, and: sudo "
                  "modprobe nvidia-peermem; or NVIDIA's open kernel modules on Linux 6.1")}};
}

Findings check_dma_buf(const Machine& machine) {
  constexpr const char* kCheck = "dma-buf";
  if (auto skip = unless_gpu_and_nic(machine, kCheck); !skip.empty()) return skip;
  const int refused = queues_refused(machine);
  if (dma_buf_possible(machine) && refused == 0) {
    return {{kCheck, "", Level::kOk, "kernel and driver export GPU memory; peal registers it so"}};
  }
  if (dma_buf_possible(machine)) {
    return {{kCheck, "", Level::kWarn,
             fmt::format("for windows only: no queues in it, mlx5dv_devx_umem_reg_ex: {}",
                         std::strerror(refused)),
             "not needed while nvidia-peermem is loaded; else Linux 6.1 (or DOCA-OFED) and "
             "rdma-core 44"}};
  }
  std::string lacks;
  if (!kernel_has_dma_buf(machine)) lacks = "kernel older than 5.12";
  if (!loaded_driver(machine).open_module) {
    lacks += std::string(lacks.empty() ? "" : ", ") + "proprietary kernel module";
  }
  if (lacks.empty()) lacks = "driver older than 515";
  return {{kCheck, "", Level::kWarn, "not possible: " + lacks,
           "not needed while nvidia-peermem is loaded; else kernel 6.1 and NVIDIA's open kernel "
           "modules"}};
}

Findings check_gdrcopy(const Machine& machine) {
  constexpr const char* kCheck = "gdrcopy";
  if (!has_gpu(machine)) {
    return {{kCheck, "", Level::kSkip, "matters to a host beside a GPU: no GPU"}};
  }
  if (words::switch_of(machine.variable("PEAL_GDRCOPY")) == false) {
    return {{kCheck, "", Level::kSkip, "PEAL_GDRCOPY=off: not used"}};
  }
  const std::string driver = machine.text("sys/module/gdrdrv/version");
  const bool device = machine.exists("dev/gdrdrv");
  const GdrcopyView& view = machine.gdrcopy;
  if (!view.name.empty()) {
    return {{kCheck, "", Level::kOk,
             fmt::format("{}, {}", view.name,
                         device ? "gdrdrv " + driver : "no gdrdrv: by dma-bufs of the driver")}};
  }
  const std::string found =
      fmt::format("{}: the host reads and writes words of GPU memory by copies of a stream, slower",
                  view.problem);
  if (device) {
    return {{kCheck, "", Level::kWarn, "gdrdrv " + driver + " is there, but " + found,
             "install GDRCopy's libgdrapi, 2.4 or newer and no older than gdrdrv wants; "
             "/dev/gdrdrv must be open to the user: sudo chmod 666 /dev/gdrdrv; in a container "
             "start it with --device /dev/gdrdrv"}};
  }
  return {{kCheck, "", Level::kWarn, "no /dev/gdrdrv, and " + found,
           "install GDRCopy 2.4 or newer (github.com/NVIDIA/gdrcopy: libgdrapi, gdrdrv-dkms) and: "
           "sudo modprobe gdrdrv; libgdrapi 2.6 needs no gdrdrv where the driver is of CUDA 13.3"}};
}

}  // namespace peal::doctor
