// SPDX-License-Identifier: Apache-2.0
//
// Rows of firmware commands in mailboxes of any size and content, through the C interface as a
// client of rdma-core calls it. Fields that name objects are made right for most commands, so that
// rows get somewhere. Answers stay inside their mailbox, closing the device frees everything, and
// the numbers of the NIC do not run away.
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <vector>

#include "tests/fuzz/input.h"

namespace peal::fuzz {
namespace {

constexpr size_t kUmemBytes = 16384;
constexpr size_t kContext = 0x10;       // of a CQ or a DC target in its mailbox
constexpr size_t kQueueContext = 0x18;  // of a queue pair
constexpr uint32_t kMostNumbers = 4096;

struct Command {
  uint16_t opcode;
  uint16_t bytes;
};
constexpr Command kCreate[] = {{0x400, 272}, {0x500, 272}, {0x710, 128}, {0x800, 16}, {0x200, 272}};
constexpr Command kModify[] = {{0x502, 272}, {0x503, 272}, {0x504, 272}, {0x505, 272},
                               {0x507, 16},  {0x50a, 16},  {0x50e, 272}, {0x403, 272}};
constexpr Command kQuery[] = {{0x402, 16}, {0x50b, 16}, {0x713, 16}};
constexpr Command kGeneral[] = {{0x100, 16}, {0x760, 16}, {0x801, 16}};

struct FreePages {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{4096}); }
};

/// The device, open for the life of the program: joining the fabric takes longer than a run.
struct Device {
  Device() {
    setenv("PEAL_SOFTNIC_DIR", folder.c_str(), 1);
    setenv("PEAL_SOFTNIC_ENGINE", "cpu", 1);
    ibv_device** list = ibv_get_device_list(nullptr);
    device = list[0];
    ibv_free_device_list(list);
    base = ibv_open_device(device);
    require(base != nullptr);
  }
  ~Device() {
    ibv_close_device(base);
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  static std::string make_folder() {
    char name[] = "/dev/shm/peal-fuzz-XXXXXX";
    require(mkdtemp(name) != nullptr);
    return name;
  }
  std::string folder = make_folder();
  ibv_device* device = nullptr;
  ibv_context* base = nullptr;
};

class Run {
 public:
  Run(Input& in, Device& device) : in_(in), context_(ibv_open_device(device.device)) {
    require(context_ != nullptr);
    memory_.reset(static_cast<std::byte*>(::operator new (kUmemBytes, std::align_val_t{4096})));
    std::fill_n(memory_.get(), kUmemBytes, std::byte{0});
    umem_ = mlx5dv_devx_umem_reg(context_, memory_.get(), kUmemBytes, IBV_ACCESS_LOCAL_WRITE);
    uar_ = mlx5dv_devx_alloc_uar(context_, MLX5DV_UAR_ALLOC_TYPE_BF);
    ibv_pd* pd = ibv_alloc_pd(context_);
    require(umem_ != nullptr && uar_ != nullptr && pd != nullptr);
    mlx5dv_pd view = {};
    mlx5dv_obj object = {};
    object.pd.in = pd;
    object.pd.out = &view;
    require(mlx5dv_init_obj(&object, MLX5DV_OBJ_PD) == 0);
    pdn_ = view.pdn;
    ibv_srq_init_attr shared = {};
    shared.attr.max_wr = 4;
    shared.attr.max_sge = 1;
    ibv_srq* srq = ibv_create_srq(pd, &shared);
    mlx5dv_srq srq_view = {};
    srq_view.comp_mask = MLX5DV_SRQ_MASK_SRQN;
    object.srq.in = srq;
    object.srq.out = &srq_view;
    require(srq != nullptr && mlx5dv_init_obj(&object, MLX5DV_OBJ_SRQ) == 0);
    srqn_ = srq_view.srqn;
  }
  ~Run() { require(ibv_close_device(context_) == 0); }

  void go() {
    for (int commands = 0; commands < 40 && !in_.done(); ++commands) {
      switch (in_.below(8)) {
        case 0:
        case 1:
        case 2:
          create();
          break;
        case 3:
        case 4:
          on_object(kModify, mlx5dv_devx_obj_modify);
          break;
        case 5:
          on_object(kQuery, mlx5dv_devx_obj_query);
          break;
        case 6:
          general();
          break;
        default:
          destroy();
      }
    }
  }

 private:
  struct Made {
    mlx5dv_devx_obj* handle;
    uint16_t opcode;
    uint32_t number;
  };

  uint32_t word(size_t offset) const {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | mailbox_[offset + i];
    return value;
  }
  /// What the NIC took for a queue lies in the umem, whatever the command said.
  static void require_inside(uint64_t high, uint64_t low, uint64_t bytes) {
    const uint64_t offset = high << 32 | low;
    require(offset <= kUmemBytes && bytes <= kUmemBytes - offset);
  }
  void check_cq() const {
    const uint32_t cqe_bytes = (word(kContext) >> 21 & 7) == 0 ? 64 : 128;
    require_inside(word(0x50), word(0x54),
                   uint64_t{cqe_bytes} << (word(kContext + 12) >> 24 & 0x1f));
    require_inside(word(kContext + 56), word(kContext + 60), 8);
  }
  void check_qp() const {
    const uint32_t sizes = word(kQueueContext + 4 * 2);
    const bool receives = (word(kQueueContext + 4 * 43) >> 24 & 7) == 0;
    const bool sends = (sizes >> 15 & 1) == 0;
    const uint64_t receive = receives ? 16ull << ((sizes >> 19 & 0xf) + (sizes >> 16 & 7)) : 0;
    const uint64_t send = sends ? 64ull << (sizes >> 11 & 0xf) : 0;
    require_inside(word(0x100), word(0x104), (receive + 63) / 64 * 64 + send);
    require_inside(word(kQueueContext + 160), word(kQueueContext + 164), 8);
  }

  void set(size_t offset, uint32_t value) {
    for (size_t i = 0; i < 4 && offset + i < mailbox_.size(); ++i) {
      mailbox_[offset + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
    }
  }
  /// The low `bits` of a dword, the rest as it was.
  void set_low(size_t offset, unsigned bits, uint32_t value) {
    if (offset + 4 > mailbox_.size()) return;
    const uint32_t old = word(offset);
    const uint32_t mask = (1u << bits) - 1;
    set(offset, (old & ~mask) | (value & mask));
  }
  uint32_t number_of(uint16_t opcode) {
    const auto found = std::find_if(made_.begin(), made_.end(),
                                    [opcode](const Made& made) { return made.opcode == opcode; });
    return found == made_.end() ? 0 : found->number;
  }

  /// A command that would succeed, of the right size, but for what the input changes.
  void fill(Command command) {
    const uint8_t shape = in_.byte();
    const size_t bytes = (shape & 7) == 7 ? in_.number<uint16_t>() % 600 : command.bytes;
    mailbox_.assign(bytes, 0);
    set(0, uint32_t{command.opcode} << 16);
    if ((shape & 0x18) != 0x18) name_objects(command.opcode);
    for (uint32_t i = shape >> 5; i > 0 && bytes > 0; --i) {
      const size_t at = in_.number<uint16_t>() % bytes;
      mailbox_[at] = in_.byte();
    }
    mailbox_.shrink_to_fit();
  }
  void name_objects(uint16_t opcode) {
    const uint32_t offset = in_.below(8) * 2048;
    if (opcode == 0x400) {
      set(kContext + 4 * 1, umem_->umem_id);
      set(kContext + 4 * 3, 4u << 24 | uar_->page_id);  // 16 entries
      set(kContext + 4 * 5, 11);                        // event queue
      set(kContext + 4 * 15, 8);                        // doorbell record's offset
      set(0x54, offset);
      set(0x58, umem_->umem_id);
    } else if (opcode == 0x710) {
      set(kContext + 4 * 2, number_of(0x400));
      set(kContext + 4 * 5, srqn_);
      set(kContext + 4 * 6, pdn_);
      set(kContext + 4 * 10, 5u << 24 | 1u << 16);  // mtu, port
    } else if (mailbox_.size() > 16) {
      set(kQueueContext + 4 * 1, pdn_);
      set(kQueueContext + 4 * 2, 5u << 29 | 30u << 24 | 4u << 11);  // mtu, message, send blocks
      set(kQueueContext + 4 * 3, uar_->page_id);
      set(kQueueContext + 4 * 5, number_of(0x500));
      set(kQueueContext + 4 * 7, 1);          // LID of the peer
      set(kQueueContext + 4 * 15, 1u << 16);  // port
      set(kQueueContext + 4 * 31, number_of(0x400));
      set(kQueueContext + 4 * 36, 0xfu << 12);  // rights
      set(kQueueContext + 4 * 39, number_of(0x400));
      set(kQueueContext + 4 * 41, 64);  // doorbell record's offset
      set(kQueueContext + 4 * 43, (in_.below(4) << 24) | srqn_);
      set(kQueueContext + 4 * 57, umem_->umem_id);
      set(0x104, offset);
      set(0x108, umem_->umem_id);
    }
  }
  /// An answer's room, in an allocation of its own.
  std::vector<uint8_t> room() {
    static constexpr uint16_t kSizes[] = {16, 272, 80, 4112, 0, 15};
    return std::vector<uint8_t>(in_.choice(kSizes));
  }

  void create() {
    const Command command = in_.choice(kCreate);
    fill(command);
    std::vector<uint8_t> out = room();
    mlx5dv_devx_obj* handle =
        mlx5dv_devx_obj_create(context_, mailbox_.data(), mailbox_.size(), out.data(), out.size());
    if (handle == nullptr) {
      require(errno != 0);
      return;
    }
    const uint32_t number = uint32_t{out[9]} << 16 | uint32_t{out[10]} << 8 | out[11];
    require(out[0] == 0 && number > 0 && number < kMostNumbers);
    const auto opcode = static_cast<uint16_t>(mailbox_[0] << 8 | mailbox_[1]);
    if (opcode == 0x400) check_cq();
    if (opcode == 0x500) check_qp();
    made_.push_back({handle, opcode, number});
  }
  template <size_t kCommands, class Call>
  void on_object(const Command (&commands)[kCommands], Call call) {
    const Command command = in_.choice(commands);
    fill(command);
    if (made_.empty()) return;
    const Made& object = made_[in_.byte() % made_.size()];
    if (in_.below(8) != 7) set_low(8, 24, object.number);
    std::vector<uint8_t> out = room();
    const int error = call(object.handle, mailbox_.data(), mailbox_.size(), out.data(), out.size());
    require(error == 0 ? out[0] == 0 : errno == error);
  }
  void general() {
    fill(in_.choice(kGeneral));
    if (mailbox_.size() >= 8) mailbox_[7] = in_.byte();
    std::vector<uint8_t> out = room();
    static_cast<void>(mlx5dv_devx_general_cmd(context_, mailbox_.data(), mailbox_.size(),
                                              out.data(), out.size()));
  }
  void destroy() {
    if (made_.empty()) return;
    const size_t which = in_.byte() % made_.size();
    // Refused while another object uses it; then it stays.
    if (mlx5dv_devx_obj_destroy(made_[which].handle) == 0) {
      made_.erase(made_.begin() + static_cast<long>(which));
    }
  }

  Input& in_;
  std::unique_ptr<std::byte, FreePages> memory_;
  ibv_context* context_;
  mlx5dv_devx_umem* umem_ = nullptr;
  mlx5dv_devx_uar* uar_ = nullptr;
  uint32_t pdn_ = 0;
  uint32_t srqn_ = 0;
  std::vector<uint8_t> mailbox_;
  std::vector<Made> made_;
};

}  // namespace
}  // namespace peal::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static peal::fuzz::Device device;
  peal::fuzz::Input input(data, bytes);
  peal::fuzz::Run(input, device).go();
  return 0;
}
