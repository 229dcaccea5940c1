// SPDX-License-Identifier: Apache-2.0
#include "host/nic/verbs.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <mutex>

#include "base/library.h"
#include "base/search.h"
#include "host/base/error.h"

namespace peal::nic {
namespace {

namespace fs = std::filesystem;

constexpr int kParents = 5;  // of the program's folder that are searched for softnic/

void* open_library(const std::string& path) {
  // The loader would wait for ever for somebody to write into a pipe.
  if (std::error_code error; path.find('/') != std::string::npos && fs::exists(path, error) &&
                             !fs::is_regular_file(path, error)) {
    fail(ErrorCode::kUnsupported,
         "{} is no regular file; PEAL_IBVERBS and PEAL_MLX5 name the libraries to use", path);
  }
  // RTLD_LOCAL: the real libibverbs may be in the process too (Open MPI loads it), and neither may
  // answer for the other.
  void* const library = load_library(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fail(ErrorCode::kUnsupported,
         "dlopen({}): {}; PEAL_IBVERBS and PEAL_MLX5 name the libraries to use", path, ::dlerror());
  }
  return library;
}

/// `missing`: a function of the library at `path` that was not found, or null.
void refuse_without(const std::string& path, const char* missing) {
  if (missing == nullptr) return;
  fail(ErrorCode::kUnsupported,
       "{} has no function {}: it is not rdma-core 44 or newer, nor peal's software NIC; "
       "PEAL_IBVERBS and PEAL_MLX5 name the libraries to use",
       path, missing);
}

/// The file that `function` was loaded from, with links resolved; what was asked for if unknown.
fs::path file_of(const void* function, const std::string& asked) {
  const fs::path file = file_loaded_at(function);
  return file.empty() ? fs::path(asked) : file;
}

// The file behind both of the software NIC's fronts. Loading it, and not the fronts, keeps the
// names libibverbs.so.1 and libmlx5.so.1 free for a library that needs the real ones later (UCX,
// say).
constexpr std::array kSoftnicFiles = {"softnic/libpeal_softnic.so",
                                      "softnic/abi/libpeal_softnic.so"};

}  // namespace

LibrarySearch LibrarySearch::from(const Config& config, NicUse use) {
  return {.ibverbs = config.ibverbs,
          .mlx5 = config.mlx5,
          .real_ibverbs = "libibverbs.so.1",
          .real_mlx5 = "libmlx5.so.1",
          .program_directory = search_start(),
          .use = use};
}

std::shared_ptr<VerbsLibrary> VerbsLibrary::load(const std::string& ibverbs,
                                                 const std::string& mlx5, NicUse use) {
  // PEs that are threads, one at a time: dladdr answers with a name that dlopen has allocated, in
  // another thread perhaps, and ThreadSanitizer does not see the loader's own lock around both.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  struct Constructible : VerbsLibrary {};
  auto library = std::make_shared<Constructible>();
  library->use_ = use;
  LibraryFunctions functions(open_library(ibverbs));
#define PEAL_FIND(name) functions.find(library->ibv.name, "ibv_" #name);
  PEAL_IBV_FUNCTIONS(PEAL_FIND)
  refuse_without(ibverbs, functions.missing());
  PEAL_IBV_OPTIONAL_FUNCTIONS(PEAL_FIND)
#undef PEAL_FIND
  functions.find(library->ibv.query_gid_ex, "_ibv_query_gid_ex");
  functions.find(library->tell_fabric_, "peal_softnic_fabric");
  functions.find(library->tell_why_, "peal_softnic_why");
  functions.find(library->keep_on_cpu_, "peal_softnic_keep_on_cpu");
  fs::path file = file_of(reinterpret_cast<const void*>(library->ibv.create_qp), ibverbs);
  if (!mlx5.empty()) {
    const FoundModel model = find_model(open_library(mlx5));
    refuse_without(mlx5, model.missing);
    library->model = model.calls;
    file = file_of(model.function, mlx5);
  }
  library->software_ = file.string().find("softnic") != std::string::npos;
  if (library->software_) {
    library->description_ = "software NIC (softnic) at " + file.parent_path().string();
  } else {
    library->description_ = (use == NicUse::kVerbs ? "verbs of " : "ConnectX via ") + file.string();
  }
  return library;
}

std::string VerbsLibrary::software_reason() const {
  if (tell_why_ == nullptr) return "a line above that begins with \"softnic:\" says more";
  const std::string why = software_trouble(nullptr);
  return why.empty() ? "docs/software_nic.md says what the software NIC refuses" : why;
}

std::string VerbsLibrary::software_trouble(ibv_context* context) const {
  std::array<char, 1024> text{};
  if (tell_why_ != nullptr) tell_why_(context, text.data(), text.size());
  return text.data();
}

VerbsLibrary::SoftwareFabric VerbsLibrary::software_fabric(ibv_context* context) const {
  SoftwareFabric fabric;
  std::array<char, 1024> folder{};
  if (tell_fabric_ == nullptr) return fabric;
  if (tell_fabric_(context, &fabric.number, folder.data(), folder.size()) != 0) return {};
  fabric.folder = folder.data();
  return fabric;
}

void VerbsLibrary::keep_software_on_cpu(ibv_context* context) const {
  if (keep_on_cpu_ == nullptr || keep_on_cpu_(context) == 0) return;
  fail(ErrorCode::kUnsupported, "a CPU cannot post to the software NIC: {}", software_reason());
}

DeviceList::DeviceList(const VerbsLibrary& library) : library_(library) {
  int count = 0;
  errno = 0;
  list_ = library.ibv.get_device_list(&count);
  if (!list_) {
    const int error = errno;
    fail_errno(error, "ibv_get_device_list of " + library.description() +
                          (library.software() ? ": " + library.software_reason() : ""));
  }
  std::copy_if(list_, list_ + count, std::back_inserter(usable_),
               [&](ibv_device* device) { return library.serves(device); });
}

ibv_device* DeviceList::find(const std::string& hca) const {
  for (ibv_device* const device : usable_) {
    if (hca.empty() || hca == library_.ibv.get_device_name(device)) return device;
  }
  return nullptr;
}

std::vector<std::string> device_names(const VerbsLibrary& library) {
  const DeviceList list(library);
  std::vector<std::string> names;
  for (ibv_device* const device : list.usable()) {
    names.emplace_back(library.ibv.get_device_name(device));
  }
  return names;
}

std::shared_ptr<const VerbsLibrary> VerbsLibrary::open(const LibrarySearch& search) {
  const bool verbs_only = search.use == NicUse::kVerbs;
  const bool alone = verbs_only && !search.ibverbs.empty();
  if (search.ibverbs.empty() != search.mlx5.empty() && !alone) {
    fail(ErrorCode::kConfiguration,
         "{} is set and {} is not: the two libraries belong together, set both or neither",
         search.mlx5.empty() ? "PEAL_IBVERBS" : "PEAL_MLX5",
         search.mlx5.empty() ? "PEAL_MLX5" : "PEAL_IBVERBS");
  }
  if (!search.ibverbs.empty()) return load(search.ibverbs, search.mlx5, search.use);

  std::string real_failure;
  try {
    auto real = load(search.real_ibverbs, verbs_only ? "" : search.real_mlx5, search.use);
    if (!DeviceList(*real).usable().empty()) return real;
    real_failure =
        real->description() + (verbs_only ? " lists no device" : " lists no mlx5 device");
  } catch (const Error& error) {
    real_failure = error.what();
  }
  if (const fs::path softnic = find_above(search.program_directory, kParents, kSoftnicFiles);
      !softnic.empty()) {
    auto library = load(softnic, softnic, search.use);
    library->software_ = true;
    library->description_ = "software NIC (softnic) at " + softnic.parent_path().string();
    return library;
  }
  fail(
      ErrorCode::kUnsupported,
      "no NIC: {}; and no software NIC (softnic/libpeal_softnic.so) in {} or "
      "its parents. An installation has it in peal/ beside libpeal.so, where tools/install puts it "
      "(peal's workspace builds //softnic/...); or set PEAL_IBVERBS and PEAL_MLX5",
      real_failure, search.program_directory.string());
}

}  // namespace peal::nic
