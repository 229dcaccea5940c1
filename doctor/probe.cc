// SPDX-License-Identifier: Apache-2.0
//
// The questions, their answers as JSON, and observe(), which asks them beside each other.
#include "doctor/probe.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/words.h"
#include "doctor/child.h"
#include "host/base/cuda_driver.h"
#include "host/base/error.h"
#include "host/memory/gdrcopy.h"
#include "host/nic/capabilities.h"
#include "host/nic/verbs.h"

namespace peal::doctor {

namespace {

constexpr auto kPatience = std::chrono::milliseconds(1500);

int mtu_bytes(int code) { return code >= 1 && code <= 5 ? 128 << code : 0; }

ProbedPort ask_port(const nic::VerbsLibrary& library, ibv_context* context, int number) {
  ibv_port_attr port{};
  // The exported function fills in the first 48 bytes: all that is read here.
  auto* const compatible = reinterpret_cast<_compat_ibv_port_attr*>(&port);
  if (library.ibv.query_port(context, static_cast<uint8_t>(number), compatible) != 0) {
    return {.number = number};
  }
  return {.number = number,
          .state = static_cast<int>(port.state),
          .active_mtu = mtu_bytes(port.active_mtu),
          .max_mtu = mtu_bytes(port.max_mtu)};
}

std::string missing_capabilities(const nic::VerbsLibrary& library, ibv_context* context,
                                 const std::string& name) {
  try {
    nic::require(nic::query_capabilities(library, context), name);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

ProbedNic ask_nic(const nic::VerbsLibrary& library, ibv_device* device) {
  ProbedNic nic{.name = library.ibv.get_device_name(device), .lacks = "", .ports = {}};
  ibv_context* const context = nic::try_to_open(library, device);
  if (!context) {
    nic.open_error = errno != 0 ? errno : EOPNOTSUPP;
    return nic;
  }
  nic.lacks = missing_capabilities(library, context, nic.name);
  nic.uar_error = nic::try_register_page(library, context);
  nic.dma_buf_error = nic::try_dma_buf_queues(library, context);
  ibv_device_attr answer{};
  const bool counted = library.ibv.query_device(context, &answer) == 0;
  const int ports = counted ? std::max<int>(answer.phys_port_cnt, 1) : 1;
  for (int port = 1; port <= ports; ++port) nic.ports.push_back(ask_port(library, context, port));
  library.ibv.close_device(context);
  return nic;
}

uint64_t memlock_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? kUnlimited : limit.rlim_cur;
}

// An answer of a child, or a view that holds but the reason why there is none.
template <class View>
View collect(Child& child, Child::Clock::time_point deadline) {
  const Child::Answer answer = child.wait_until(deadline);
  if (answer.problem.empty()) return from_text<View>(answer.text);
  View view;
  view.problem = answer.problem;
  return view;
}

}  // namespace

VerbsView ask_verbs(const std::string& ibverbs, const std::string& mlx5) {
  VerbsView view;
  try {
    const auto library = nic::VerbsLibrary::open({ibverbs, mlx5, "", "", ""});
    view.library = library->description();
    const nic::DeviceList list(*library);
    for (ibv_device* const device : list.usable()) {
      view.nics.push_back(ask_nic(*library, device));
    }
  } catch (const Error& error) {
    view.problem = error.what();
  }
  return view;
}

CudaView ask_cuda(const std::string& library) {
  const cuda::Loaded loaded = cuda::load_driver(library);
  CudaView view;
  view.problem = loaded.reason;
  if (!loaded.driver) return view;
  if (loaded.driver->driver_version(&view.version) != cuda::kSuccess) view.version = 0;
  if (loaded.driver->device_count(&view.gpus) != cuda::kSuccess) view.gpus = 0;
  for (int index = 0; index < view.gpus; ++index) {
    cuda::DeviceHandle device = 0;
    int ordering = 0;
    const bool told =
        loaded.driver->device(&device, index) == cuda::kSuccess &&
        loaded.driver->device_attribute(&ordering, cuda::kWritesOrdering, device) == cuda::kSuccess;
    if (!told || ordering < cuda::kOrderedForOwner) ++view.unordered;
  }
  return view;
}

GdrcopyView ask_gdrcopy(const std::string& library) {
  const gdrcopy::Opened opened = gdrcopy::open(library);
  return {opened.session ? opened.session->name() : "", opened.why_not};
}

Machine observe(const char* const* environment) {
  Machine machine;
  for (; *environment; ++environment) {
    const std::string line = *environment;
    const size_t equals = line.find('=');
    if (equals != std::string::npos) {
      machine.environment[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  machine.memlock_bytes = memlock_limit();

  std::string ibverbs = machine.variable("PEAL_IBVERBS");
  std::string mlx5 = machine.variable("PEAL_MLX5");
  if (ibverbs.empty() && mlx5.empty()) {
    ibverbs = "libibverbs.so.1";
    mlx5 = "libmlx5.so.1";
  }
  std::string gdrapi = machine.variable("PEAL_GDRCOPY");
  if (gdrapi.empty() || gdrapi == "auto" || words::switch_of(gdrapi))
    gdrapi = gdrcopy::kLibraryName;
  const auto deadline = Child::Clock::now() + kPatience;
  Child verbs([&] { return to_text(ask_verbs(ibverbs, mlx5)); });
  Child cuda([] { return to_text(ask_cuda("libcuda.so.1")); });
  Child gdr([&] { return to_text(ask_gdrcopy(gdrapi)); });
  machine.verbs = collect<VerbsView>(verbs, deadline);
  machine.cuda = collect<CudaView>(cuda, deadline);
  machine.gdrcopy = collect<GdrcopyView>(gdr, deadline);
  return machine;
}

}  // namespace peal::doctor
