// SPDX-License-Identifier: Apache-2.0
//
// Dispatch and combine of a mixture of experts, from inside kernels: each token's row goes to the
// PEs of its experts as soon as it is read, each row comes back as soon as its expert has it, and
// nobody knows counts in advance. bf16; the experts multiply by a power of two, so every value is
// checked exactly.
//
//   dispatch   row (t, k) -> slot of (expert, source PE), announced by a signal; then the count
//   experts    wait for counts and rows, and send each row back to (t, k) at its owner
//   combine    waits for the k rows of a token, and adds them up by their weights
//
//   moe [--tokens 128 a PE] [--hidden 7168] [--experts 256] [--top 8] [--blocks 66] [--threads 256]
//       [--rounds 20]
#include "perf/apps/app.cuh"

namespace {

/// What goes ahead of a row's elements: where it returns to.
struct alignas(16) Header {
  uint32_t token;
  uint32_t choice;
};

struct Moe {
  const uint16_t* tokens;  // tokens x hidden
  const uint32_t* chosen;  // tokens x top: experts
  uint8_t* outbox;         // tokens x top rows, as they leave
  uint8_t* inbox;          // [expert of this PE][source PE][slot] rows
  uint8_t* returned;       // tokens x top rows, as they came back
  float* result;           // tokens x hidden
  uint32_t* slots;         // by expert: rows that this PE has sent there
  uint64_t* arrived;       // [expert of this PE][source PE] rows, of all rounds
  uint64_t* counts;        // [expert of this PE][source PE]: round << 32 | rows
  uint64_t* back;          // by token: rows that came back, of all rounds
  uint64_t* before;        // [expert of this PE][source PE] rows of earlier rounds
  uint32_t token_count;
  uint32_t hidden;
  uint32_t experts;
  uint32_t top;
  uint32_t pes;
  uint32_t me;

  __host__ __device__ uint32_t here() const { return experts / pes; }
  __host__ __device__ uint64_t row_bytes() const {
    return sizeof(Header) + uint64_t{hidden} * sizeof(uint16_t);
  }
  __host__ __device__ uint64_t slot(uint32_t expert, uint32_t source, uint32_t at) const {
    return ((uint64_t{expert} * pes + source) * token_count + at) * row_bytes();
  }
};

__host__ __device__ float as_float(uint16_t bf16) {
  const uint32_t bits = uint32_t{bf16} << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// Exact where `factor` is a power of two and nothing overflows.
__host__ __device__ uint16_t times(uint16_t bf16, float factor) {
  const float value = as_float(bf16) * factor;
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

__host__ __device__ float factor_of(uint32_t expert) {
  return static_cast<float>(1u << expert % 4);
}
__host__ __device__ float weight_of(uint32_t choice) {
  return 1.0f / static_cast<float>(1 + choice);
}

__global__ void dispatch(Moe m) {
  __shared__ uint32_t slot;
  const uint32_t rows = m.token_count * m.top;
  for (uint32_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const uint32_t expert = m.chosen[i];
    if (threadIdx.x == 0) slot = atomicAdd(m.slots + expert, 1u);
    uint8_t* const row = m.outbox + i * m.row_bytes();
    if (threadIdx.x == 0) *reinterpret_cast<Header*>(row) = {i / m.top, i % m.top};
    auto* const to = reinterpret_cast<uint4*>(row + sizeof(Header));
    const auto* from = reinterpret_cast<const uint4*>(m.tokens + uint64_t{i / m.top} * m.hidden);
    for (uint32_t k = threadIdx.x; k < m.hidden / 8; k += blockDim.x) to[k] = from[k];
    __syncthreads();
    const uint32_t there = expert % m.here();
    nvshmemx_putmem_signal_nbi_block(m.inbox + m.slot(there, m.me, slot), row, m.row_bytes(),
                                     m.arrived + there * m.pes + m.me, 1, NVSHMEM_SIGNAL_ADD,
                                     static_cast<int>(expert / m.here()));
    __syncthreads();  // `slot` is read
  }
}

__global__ void tell_counts(Moe m, uint64_t round) {
  for (uint32_t expert = threadIdx.x; expert < m.experts; expert += blockDim.x) {
    const uint32_t there = expert % m.here();
    nvshmemx_signal_op(m.counts + there * m.pes + m.me, round << 32 | m.slots[expert],
                       NVSHMEM_SIGNAL_SET, static_cast<int>(expert / m.here()));
    m.slots[expert] = 0;
  }
}

/// A block for each (expert of this PE, source PE), in turn.
__global__ void run_experts(Moe m, uint64_t round) {
  __shared__ uint32_t rows;
  for (uint32_t pair = blockIdx.x; pair < m.here() * m.pes; pair += gridDim.x) {
    const uint32_t source = pair % m.pes;
    const float factor = factor_of(m.me * m.here() + pair / m.pes);
    if (threadIdx.x == 0) {
      nvshmem_signal_wait_until(m.counts + pair, NVSHMEM_CMP_GE, round << 32);
      rows = static_cast<uint32_t>(nvshmem_signal_fetch(m.counts + pair));
      nvshmem_signal_wait_until(m.arrived + pair, NVSHMEM_CMP_GE, m.before[pair] + rows);
      m.before[pair] += rows;
    }
    __syncthreads();
    for (uint32_t i = 0; i < rows; ++i) {
      uint8_t* const row = m.inbox + m.slot(pair / m.pes, source, i);
      auto* const values = reinterpret_cast<uint16_t*>(row + sizeof(Header));
      for (uint32_t k = threadIdx.x; k < m.hidden; k += blockDim.x) {
        values[k] = times(values[k], factor);
      }
      __syncthreads();
      const Header to = *reinterpret_cast<const Header*>(row);
      nvshmemx_putmem_signal_nbi_block(
          m.returned + (uint64_t{to.token} * m.top + to.choice) * m.row_bytes(), row, m.row_bytes(),
          m.back + to.token, 1, NVSHMEM_SIGNAL_ADD, static_cast<int>(source));
    }
    __syncthreads();  // `rows` is read
  }
}

__global__ void combine(Moe m, uint64_t round) {
  for (uint32_t token = blockIdx.x; token < m.token_count; token += gridDim.x) {
    if (threadIdx.x == 0) {
      nvshmem_signal_wait_until(m.back + token, NVSHMEM_CMP_GE, round * m.top);
    }
    __syncthreads();
    for (uint32_t k = threadIdx.x; k < m.hidden; k += blockDim.x) {
      float sum = 0;
      for (uint32_t choice = 0; choice < m.top; ++choice) {
        const uint8_t* row = m.returned + (uint64_t{token} * m.top + choice) * m.row_bytes();
        const auto* values = reinterpret_cast<const uint16_t*>(row + sizeof(Header));
        sum = fmaf(weight_of(choice), as_float(values[k]), sum);
      }
      m.result[uint64_t{token} * m.hidden + k] = sum;
    }
  }
  if (threadIdx.x == 0) nvshmem_quiet();
}

/// `top` different experts of a token, as a router may choose them.
std::vector<uint32_t> choices(const Moe& m) {
  std::vector<uint32_t> chosen;
  for (uint32_t token = 0; token < m.token_count; ++token) {
    const uint64_t random = app::mixed(uint64_t{m.me} << 32 | token);
    const uint64_t stride = 2 * (random >> 32 & 0xffff) + 1;  // odd: no expert twice
    for (uint64_t k = 0; k < m.top; ++k) {
      chosen.push_back(static_cast<uint32_t>((random + k * stride) % m.experts));
    }
  }
  return chosen;
}

template <class T>
T* on_gpu(const std::vector<T>& values) {
  T* copy = nullptr;
  CUDA_CHECK(cudaMalloc(&copy, values.size() * sizeof(T)));
  CUDA_CHECK(cudaMemcpy(copy, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return copy;
}

uint64_t wrong_values(const Moe& m, const std::vector<uint16_t>& tokens,
                      const std::vector<uint32_t>& chosen) {
  std::vector<float> result(tokens.size());
  CUDA_CHECK(
      cudaMemcpy(result.data(), m.result, result.size() * sizeof(float), cudaMemcpyDeviceToHost));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < result.size(); ++i) {
    float sum = 0;
    for (uint32_t choice = 0; choice < m.top; ++choice) {
      const uint32_t expert = chosen[i / m.hidden * m.top + choice];
      sum = fmaf(weight_of(choice), as_float(times(tokens[i], factor_of(expert))), sum);
    }
    wrong += result[i] != sum ? 1 : 0;
  }
  return wrong;
}

void allocate(Moe& m, const std::vector<uint16_t>& tokens, const std::vector<uint32_t>& chosen) {
  const uint64_t rows = uint64_t{m.token_count} * m.top;
  const uint64_t pairs = uint64_t{m.here()} * m.pes;
  m.tokens = on_gpu(tokens);
  m.chosen = on_gpu(chosen);
  m.outbox = app::symmetric<uint8_t>(rows * m.row_bytes());
  m.inbox = app::symmetric<uint8_t>(pairs * m.token_count * m.row_bytes());
  m.returned = app::symmetric<uint8_t>(rows * m.row_bytes());
  m.arrived = app::symmetric<uint64_t>(pairs);
  m.counts = app::symmetric<uint64_t>(pairs);
  m.back = app::symmetric<uint64_t>(m.token_count);
  m.result = on_gpu(std::vector<float>(tokens.size()));
  m.slots = on_gpu(std::vector<uint32_t>(m.experts));
  m.before = on_gpu(std::vector<uint64_t>(pairs));
}

}  // namespace

int main(int argc, char** argv) {
  app::AppOptions options(argc, argv);
  Moe m{};
  m.token_count = static_cast<uint32_t>(options.number("tokens", 128));
  m.hidden = static_cast<uint32_t>(options.number("hidden", 7168, 8));
  m.experts = static_cast<uint32_t>(options.number("experts", 256));
  m.top = static_cast<uint32_t>(options.number("top", 8));
  const auto blocks = static_cast<uint32_t>(options.number("blocks", 66));
  const auto threads = static_cast<uint32_t>(options.number("threads", 256));
  const long rounds = options.number("rounds", 20);
  options.done();
  app::begin();
  m.pes = static_cast<uint32_t>(nvshmem_n_pes());
  m.me = static_cast<uint32_t>(nvshmem_my_pe());
  if (m.hidden % 8 != 0) options.refuse("--hidden takes a multiple of 8");
  if ((m.experts & (m.experts - 1)) != 0 || m.experts % m.pes != 0 || m.top > m.experts) {
    options.refuse(
        "--experts takes a power of two, a multiple of the number of PEs, at least --top");
  }
  std::vector<uint16_t> tokens(uint64_t{m.token_count} * m.hidden);
  for (uint64_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<uint16_t>(0x3f80 + app::mixed(uint64_t{m.me} << 40 | i) % 0x180);
  }
  const std::vector<uint32_t> chosen = choices(m);
  allocate(m, tokens, chosen);
  double best = 1e9;
  for (long round = 1; round <= rounds; ++round) {
    const auto number = static_cast<uint64_t>(round);
    const double took = app::seconds([&] {
      dispatch<<<blocks, threads>>>(m);
      tell_counts<<<1, 256>>>(m, number);
      run_experts<<<blocks, threads>>>(m, number);
      combine<<<blocks, threads>>>(m, number);
    });
    best = took < best ? took : best;
  }
  return app::finish("moe",
                     app::row("\"tokens\": %u, \"hidden\": %u, \"experts\": %u, \"top\": %u, "
                              "\"us\": %.1f",
                              m.token_count, m.hidden, m.experts, m.top, best * 1e6),
                     wrong_values(m, tokens, chosen));
}
