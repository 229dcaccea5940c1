// SPDX-License-Identifier: Apache-2.0
//
// The shared libraries as programs find them: names, versions, sonames, stubs, and life beside
// rdma-core's own libibverbs in one process.
//
// argv[1] is the folder of the three libraries.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

std::string& folder() {
  static std::string path;
  return path;
}

/// Closes at the end of a test.
class Library {
 public:
  Library(const std::string& path, int flags) : handle_(dlopen(path.c_str(), flags)) {}
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  explicit operator bool() const { return handle_ != nullptr; }
  void* handle() const { return handle_; }

  template <class F>
  F* symbol(const char* name) const {
    return reinterpret_cast<F*>(dlsym(handle_, name));
  }
  template <class F>
  F* symbol(const char* name, const char* version) const {
    return reinterpret_cast<F*>(dlvsym(handle_, name, version));
  }

 private:
  void* handle_;
};

struct Libraries {
  Library verbs{folder() + "/libibverbs.so.1", RTLD_NOW | RTLD_LOCAL};
  Library mlx5{folder() + "/libmlx5.so.1", RTLD_NOW | RTLD_LOCAL};
};

struct Name {
  const char* name;
  const char* node;
};

// What NVSHMEM's and NCCL's plugins, perftest and the rdma-core tools ask for.
constexpr Name kVerbsNames[] = {
    {"ibv_create_comp_channel", "IBVERBS_1.0"},
    {"ibv_destroy_comp_channel", "IBVERBS_1.0"},
    {"ibv_read_sysfs_file", "IBVERBS_1.0"},
    {"ibv_get_sysfs_path", "IBVERBS_1.0"},
    {"ibv_rate_to_mult", "IBVERBS_1.0"},
    {"ibv_copy_qp_attr_from_kern", "IBVERBS_1.0"},
    {"ibv_get_device_list", "IBVERBS_1.1"},
    {"ibv_free_device_list", "IBVERBS_1.1"},
    {"ibv_get_device_name", "IBVERBS_1.1"},
    {"ibv_open_device", "IBVERBS_1.1"},
    {"ibv_close_device", "IBVERBS_1.1"},
    {"ibv_get_async_event", "IBVERBS_1.1"},
    {"ibv_ack_async_event", "IBVERBS_1.1"},
    {"ibv_query_device", "IBVERBS_1.1"},
    {"ibv_query_port", "IBVERBS_1.1"},
    {"ibv_query_gid", "IBVERBS_1.1"},
    {"ibv_query_qp", "IBVERBS_1.1"},
    {"ibv_alloc_pd", "IBVERBS_1.1"},
    {"ibv_dealloc_pd", "IBVERBS_1.1"},
    {"ibv_reg_mr", "IBVERBS_1.1"},
    {"ibv_dereg_mr", "IBVERBS_1.1"},
    {"ibv_create_cq", "IBVERBS_1.1"},
    {"ibv_destroy_cq", "IBVERBS_1.1"},
    {"ibv_create_srq", "IBVERBS_1.1"},
    {"ibv_modify_srq", "IBVERBS_1.1"},
    {"ibv_query_srq", "IBVERBS_1.1"},
    {"ibv_destroy_srq", "IBVERBS_1.1"},
    {"ibv_create_qp", "IBVERBS_1.1"},
    {"ibv_modify_qp", "IBVERBS_1.1"},
    {"ibv_destroy_qp", "IBVERBS_1.1"},
    {"ibv_create_ah", "IBVERBS_1.1"},
    {"ibv_destroy_ah", "IBVERBS_1.1"},
    {"ibv_fork_init", "IBVERBS_1.1"},
    {"ibv_event_type_str", "IBVERBS_1.1"},
    {"ibv_wc_status_str", "IBVERBS_1.1"},
    {"ibv_get_device_guid", "IBVERBS_1.1"},
    {"ibv_get_pkey_index", "IBVERBS_1.5"},
    {"ibv_qp_to_qp_ex", "IBVERBS_1.6"},
    {"ibv_reg_mr_iova", "IBVERBS_1.7"},
    {"ibv_reg_mr_iova2", "IBVERBS_1.8"},
    {"ibv_get_device_index", "IBVERBS_1.9"},
    {"ibv_query_ece", "IBVERBS_1.10"},
    {"ibv_set_ece", "IBVERBS_1.10"},
    {"_ibv_query_gid_ex", "IBVERBS_1.11"},
    {"_ibv_query_gid_table", "IBVERBS_1.11"},
    {"ibv_reg_dmabuf_mr", "IBVERBS_1.12"},
    {"ibv_is_fork_initialized", "IBVERBS_1.13"},
    {"ibv_query_qp_data_in_order", "IBVERBS_1.14"},
    {"ibv_query_gid_type", "IBVERBS_PRIVATE_34"},
    {"verbs_set_ops", "IBVERBS_PRIVATE_34"},
    {"verbs_register_driver_34", "IBVERBS_PRIVATE_34"},
    {"ibv_cmd_create_qp_ex", "IBVERBS_PRIVATE_34"},
};

constexpr Name kMlx5Names[] = {
    {"mlx5dv_query_device", "MLX5_1.0"},
    {"mlx5dv_init_obj", "MLX5_1.0"},
    {"mlx5dv_create_cq", "MLX5_1.1"},
    {"mlx5dv_init_obj", "MLX5_1.2"},
    {"mlx5dv_set_context_attr", "MLX5_1.2"},
    {"mlx5dv_create_qp", "MLX5_1.3"},
    {"mlx5dv_get_clock_info", "MLX5_1.4"},
    {"mlx5dv_devx_alloc_uar", "MLX5_1.7"},
    {"mlx5dv_devx_free_uar", "MLX5_1.7"},
    {"mlx5dv_devx_general_cmd", "MLX5_1.7"},
    {"mlx5dv_devx_obj_create", "MLX5_1.7"},
    {"mlx5dv_devx_obj_modify", "MLX5_1.7"},
    {"mlx5dv_devx_obj_query", "MLX5_1.7"},
    {"mlx5dv_devx_obj_destroy", "MLX5_1.7"},
    {"mlx5dv_devx_query_eqn", "MLX5_1.7"},
    {"mlx5dv_devx_umem_reg", "MLX5_1.7"},
    {"mlx5dv_devx_umem_dereg", "MLX5_1.7"},
    {"mlx5dv_open_device", "MLX5_1.7"},
    {"mlx5dv_is_supported", "MLX5_1.8"},
    {"mlx5dv_devx_qp_query", "MLX5_1.8"},
    {"mlx5dv_create_mkey", "MLX5_1.10"},
    {"mlx5dv_qp_ex_from_ibv_qp_ex", "MLX5_1.10"},
    {"mlx5dv_devx_umem_reg_ex", "MLX5_1.19"},
    {"mlx5dv_crypto_login", "MLX5_1.21"},
    {"mlx5dv_dek_create", "MLX5_1.21"},
    {"mlx5dv_reg_dmabuf_mr", "MLX5_1.25"},
    {"mlx5dv_get_data_direct_sysfs_path", "MLX5_1.25"},
};

TEST(SoftnicLibrary, OffersEveryNameUnderItsVersion) {
  Libraries libraries;
  ASSERT_TRUE(libraries.verbs) << dlerror();
  ASSERT_TRUE(libraries.mlx5) << dlerror();
  for (const Name& each : kVerbsNames)
    EXPECT_NE(libraries.verbs.symbol<void>(each.name, each.node), nullptr)
        << each.name << "@" << each.node;
  for (const Name& each : kMlx5Names)
    EXPECT_NE(libraries.mlx5.symbol<void>(each.name, each.node), nullptr)
        << each.name << "@" << each.node;
}

TEST(SoftnicLibrary, DoesNotOfferANameUnderAnotherVersion) {
  Libraries libraries;
  EXPECT_EQ(libraries.verbs.symbol<void>("ibv_reg_mr_iova2", "IBVERBS_1.1"), nullptr);
  // A version from before 2007: whoever asks for it hears at once that it is not here.
  EXPECT_EQ(libraries.verbs.symbol<void>("ibv_open_device", "IBVERBS_1.0"), nullptr);
  EXPECT_EQ(libraries.mlx5.symbol<void>("mlx5dv_create_qp", "MLX5_1.7"), nullptr);
  EXPECT_EQ(libraries.mlx5.symbol<void>("peal_softnic_init_obj_1_0"), nullptr);
}

TEST(SoftnicLibrary, PlainLookupFindsTheDefaultVersion) {
  Libraries libraries;
  EXPECT_EQ(libraries.verbs.symbol<void>("ibv_open_device"),
            libraries.verbs.symbol<void>("ibv_open_device", "IBVERBS_1.1"));
  EXPECT_EQ(libraries.mlx5.symbol<void>("mlx5dv_init_obj"),
            libraries.mlx5.symbol<void>("mlx5dv_init_obj", "MLX5_1.2"));
  EXPECT_NE(libraries.mlx5.symbol<void>("mlx5dv_init_obj"),
            libraries.mlx5.symbol<void>("mlx5dv_init_obj", "MLX5_1.0"));
}

/// Every function that the installed rdma-core library exports, by its own symbol table.
std::vector<std::string> exported_functions(const char* soname) {
  Library real(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);  // it frees nothing when unloaded
  if (!real) return {};
  link_map* map = nullptr;
  dlinfo(real.handle(), RTLD_DI_LINKMAP, &map);
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
  }
  std::vector<std::string> names;
  // The string table follows the symbol table.
  auto* end = reinterpret_cast<const ElfW(Sym)*>(strings);
  for (const ElfW(Sym)* each = symbols; each + 1 <= end; ++each)
    if (each->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(each->st_info) == STT_FUNC)
      // Names whose every version is a hidden one are not found without naming it.
      if (real.symbol<void>(strings + each->st_name) != nullptr)
        names.emplace_back(strings + each->st_name);
  return names;
}

TEST(SoftnicLibrary, OffersAllThatRdmaCoreExports) {
  // Before ours are loaded: from then on their sonames are taken.
  std::vector<std::string> names = exported_functions("libibverbs.so.1");
  std::vector<std::string> mlx5_names = exported_functions("libmlx5.so.1");
  if (names.empty() || mlx5_names.empty()) GTEST_SKIP() << "rdma-core is not installed";
  names.insert(names.end(), mlx5_names.begin(), mlx5_names.end());
  EXPECT_GT(names.size(), 300u);
  Libraries libraries;
  for (const std::string& name : names)
    EXPECT_NE(libraries.mlx5.symbol<void>(name.c_str()), nullptr) << name;
}

TEST(SoftnicLibrary, StubsAnswerUnsupportedInTheirOwnWay) {
  Libraries libraries;
  errno = 0;
  EXPECT_EQ(libraries.mlx5.symbol<void*(void*, void*, void*)>("mlx5dv_create_wq")(0, 0, 0),
            nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(libraries.mlx5.symbol<int(void*, void*)>("mlx5dv_dek_query")(0, 0), EOPNOTSUPP);
  EXPECT_EQ(libraries.verbs.symbol<int(void*, void*)>("ibv_query_ece")(0, 0), EOPNOTSUPP);
  EXPECT_EQ(libraries.verbs.symbol<int(void*, int)>("ibv_resize_cq")(0, 1), EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(libraries.mlx5.symbol<int(void*)>("mlx5dv_vfio_get_events_fd")(0), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  libraries.mlx5.symbol<void(void*)>("mlx5dv_pp_free")(nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  libraries.verbs.symbol<void(void*)>("verbs_register_driver_34")(nullptr);
}

TEST(SoftnicLibrary, BothFrontsShareOneDevice) {
  Libraries libraries;
  auto* list = libraries.verbs.symbol<ibv_device**(int*)>("ibv_get_device_list");
  ibv_device** devices = list(nullptr);
  auto* open = libraries.mlx5.symbol<ibv_context*(ibv_device*, void*)>("mlx5dv_open_device");
  ibv_context* context = open(devices[0], nullptr);
  ASSERT_NE(context, nullptr) << std::strerror(errno);
  auto* alloc = libraries.verbs.symbol<ibv_pd*(ibv_context*)>("ibv_alloc_pd");
  ibv_pd* pd = alloc(context);
  ASSERT_NE(pd, nullptr);
  mlx5dv_pd view = {};
  mlx5dv_obj obj = {};
  obj.pd.in = pd;
  obj.pd.out = &view;
  auto* init = libraries.mlx5.symbol<int(mlx5dv_obj*, uint64_t)>("mlx5dv_init_obj");
  EXPECT_EQ(init(&obj, MLX5DV_OBJ_PD), 0);
  EXPECT_NE(view.pdn, 0u);
  EXPECT_EQ(libraries.verbs.symbol<int(ibv_pd*)>("ibv_dealloc_pd")(pd), 0);
  EXPECT_EQ(libraries.verbs.symbol<int(ibv_context*)>("ibv_close_device")(context), 0);
  libraries.verbs.symbol<void(ibv_device**)>("ibv_free_device_list")(devices);
}

TEST(SoftnicLibrary, TakesAFaultPlanWhileADeviceIsOpen) {
  Libraries libraries;
  Library softnic(folder() + "/libpeal_softnic.so", RTLD_NOW | RTLD_LOCAL);
  auto* inject = softnic.symbol<int(const char*, char*, size_t)>("peal_softnic_inject");
  auto* clear = softnic.symbol<int()>("peal_softnic_clear_faults");
  ASSERT_TRUE(inject != nullptr && clear != nullptr);
  char why[100] = "";
  EXPECT_EQ(inject("wqe=1 fault=stall", why, sizeof(why)), ENODEV);
  EXPECT_STREQ(why, "this process has no NIC open");
  EXPECT_EQ(clear(), ENODEV);
  auto* devices = libraries.verbs.symbol<ibv_device**(int*)>("ibv_get_device_list")(nullptr);
  auto* context = libraries.verbs.symbol<ibv_context*(ibv_device*)>("ibv_open_device")(devices[0]);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(inject("wqe=1 fault=sleep", why, sizeof(why)), EINVAL);
  EXPECT_EQ(std::string(why).substr(0, 50), "line 1: \"fault=sleep\": a fault is one of drop, del");
  EXPECT_EQ(std::strlen(why), sizeof(why) - 1);
  EXPECT_EQ(inject("nonsense", nullptr, 0), EINVAL);
  EXPECT_EQ(inject("wqe=1 fault=stall", why, sizeof(why)), 0);
  EXPECT_EQ(clear(), 0);
  EXPECT_EQ(libraries.verbs.symbol<int(ibv_context*)>("ibv_close_device")(context), 0);
  libraries.verbs.symbol<void(ibv_device**)>("ibv_free_device_list")(devices);
}

// Hazard: of a folder that cannot be used a client heard an errno, and nobody which folder.
TEST(SoftnicLibrary, SaysWhatErrnoHasNoRoomFor) {
  Libraries libraries;
  Library softnic(folder() + "/libpeal_softnic.so", RTLD_NOW | RTLD_LOCAL);
  auto* const say = softnic.symbol<void(ibv_context*, char*, size_t)>("peal_softnic_why");
  auto* const fabric =
      softnic.symbol<int(ibv_context*, uint64_t*, char*, size_t)>("peal_softnic_fabric");
  ASSERT_TRUE(say != nullptr && fabric != nullptr);
  auto* devices = libraries.verbs.symbol<ibv_device**(int*)>("ibv_get_device_list")(nullptr);
  auto* open = libraries.verbs.symbol<ibv_context*(ibv_device*)>("ibv_open_device");
  char text[200] = "";
  setenv("PEAL_SOFTNIC_DIR", "/nonexistent/place", 1);
  EXPECT_EQ(open(devices[0]), nullptr);
  EXPECT_EQ(errno, ENOENT);
  say(nullptr, text, sizeof text);
  EXPECT_NE(std::string(text).find("mkdir /nonexistent/place/peal-softnic-"), std::string::npos);
  unsetenv("PEAL_SOFTNIC_DIR");
  ibv_context* const context = open(devices[0]);
  ASSERT_NE(context, nullptr);
  say(context, text, sizeof text);
  EXPECT_STREQ(text, "") << "it has no trouble";
  uint64_t number = 0;
  EXPECT_EQ(fabric(context, &number, text, sizeof text), 0);
  EXPECT_NE(number, 0u);
  EXPECT_EQ(std::string(text).find("/dev/shm/peal-softnic-"), 0u) << text;
  auto* query = libraries.verbs.symbol<int(ibv_context*, int, ibv_port_attr*)>("ibv_query_port");
  ibv_port_attr port = {};
  EXPECT_NE(query(context, 99, &port), 0);
  say(nullptr, text, sizeof text);
  EXPECT_STREQ(text, "") << "of an earlier call";
  EXPECT_EQ(libraries.verbs.symbol<int(ibv_context*)>("ibv_close_device")(context), 0);
  libraries.verbs.symbol<void(ibv_device**)>("ibv_free_device_list")(devices);
}

TEST(SoftnicLibrary, OldInitObjAnswersWhereTheUarPointerLies) {
  Libraries libraries;
  auto* devices = libraries.verbs.symbol<ibv_device**(int*)>("ibv_get_device_list")(nullptr);
  auto* context = libraries.verbs.symbol<ibv_context*(ibv_device*)>("ibv_open_device")(devices[0]);
  auto* create =
      libraries.verbs.symbol<ibv_cq*(ibv_context*, int, void*, void*, int)>("ibv_create_cq");
  ibv_cq* cq = create(context, 16, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  mlx5dv_cq old_view = {};
  mlx5dv_cq view = {};
  mlx5dv_obj obj = {};
  obj.cq.in = cq;
  obj.cq.out = &view;
  EXPECT_EQ(
      libraries.mlx5.symbol<int(mlx5dv_obj*, uint64_t)>("mlx5dv_init_obj")(&obj, MLX5DV_OBJ_CQ), 0);
  obj.cq.out = &old_view;
  EXPECT_EQ(libraries.mlx5.symbol<int(mlx5dv_obj*, uint64_t)>("mlx5dv_init_obj", "MLX5_1.0")(
                &obj, MLX5DV_OBJ_CQ),
            0);
  EXPECT_EQ(*static_cast<void**>(old_view.cq_uar), view.cq_uar);
  libraries.verbs.symbol<int(ibv_context*)>("ibv_close_device")(context);
  libraries.verbs.symbol<void(ibv_device**)>("ibv_free_device_list")(devices);
}

/// An MPI library loads rdma-core's libibverbs globally; ours must not bind to it.
TEST(SoftnicLibrary, LivesBesideTheRealLibrary) {
  Library real("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (!real) GTEST_SKIP() << "rdma-core's libibverbs.so.1 is not installed";
  Libraries libraries;
  ASSERT_TRUE(libraries.mlx5) << dlerror();
  EXPECT_NE(real.symbol<void>("ibv_open_device"), libraries.verbs.symbol<void>("ibv_open_device"));
  EXPECT_EQ(libraries.mlx5.symbol<void>("ibv_open_device"),
            libraries.verbs.symbol<void>("ibv_open_device"));
  auto* devices = libraries.verbs.symbol<ibv_device**(int*)>("ibv_get_device_list")(nullptr);
  auto* open = libraries.mlx5.symbol<ibv_context*(ibv_device*, void*)>("mlx5dv_open_device");
  ibv_context* context = open(devices[0], nullptr);
  ASSERT_NE(context, nullptr);
  ibv_device_attr attr = {};
  EXPECT_EQ(context->ops._compat_query_device(context, &attr), 0);
  EXPECT_EQ(attr.vendor_part_id, 4129u);
  EXPECT_EQ(libraries.verbs.symbol<int(ibv_context*)>("ibv_close_device")(context), 0);
  libraries.verbs.symbol<void(ibv_device**)>("ibv_free_device_list")(devices);
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  std::string path = argv[1];
  // A file of the folder will do: build tools name files.
  if (std::ifstream(path).good() && path.find(".so") != std::string::npos)
    path = path.substr(0, path.rfind('/'));
  if (path.front() != '/') {
    char here[4096];
    path = std::string(getcwd(here, sizeof here)) + "/" + path;
  }
  folder() = path;
  return RUN_ALL_TESTS();
}
