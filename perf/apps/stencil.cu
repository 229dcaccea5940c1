// SPDX-License-Identifier: Apache-2.0
//
// A heat equation on a cube of points that is dealt to the PEs by planes, periodic. Blocks of the
// outer planes wait for the neighbours' planes, compute theirs, and send them; the others compute
// what is inside meanwhile. Compared bit by bit with the same steps on one GPU.
//
//   stencil [--n 256 points of a side] [--steps 50] [--pieces 8 blocks a plane] [--threads 256]
#include "perf/apps/app.cuh"

namespace {

/// `planes` + 2 planes of n x n, twice: the first and the last are the neighbours'.
struct Slab {
  float* points;
  uint64_t* arrived;  // by side (from below, from above) and piece: steps; what blocks send is not
                      // ordered among them, so each piece has a word
  uint32_t n;
  uint32_t planes;
  uint32_t pieces;

  __host__ __device__ uint64_t plane_points() const { return uint64_t{n} * n; }
  __host__ __device__ float* at(uint32_t step, uint32_t plane) const {
    return points + (uint64_t{step % 2} * (planes + 2) + plane) * plane_points();
  }
};

/// The point of index `i` in a plane after a step, from the planes around it.
__device__ float stepped(const float* below, const float* here, const float* above, uint64_t i,
                         uint32_t n) {
  const auto x = static_cast<uint32_t>(i % n);
  const auto y = static_cast<uint32_t>(i / n);
  const float west = here[uint64_t{y} * n + (x + n - 1) % n];
  const float east = here[uint64_t{y} * n + (x + 1) % n];
  const float north = here[uint64_t{(y + n - 1) % n} * n + x];
  const float south = here[uint64_t{(y + 1) % n} * n + x];
  const float around = west + east + (north + south) + (below[i] + above[i]);
  return here[i] + 0.1f * (around - 6.0f * here[i]);
}

__device__ void step_points(const Slab& slab, uint32_t step, uint32_t plane, uint64_t first,
                            uint64_t end) {
  const float* here = slab.at(step, plane);
  for (uint64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
    slab.at(step + 1, plane)[i] =
        stepped(slab.at(step, plane - 1), here, slab.at(step, plane + 1), i, slab.n);
  }
}

/// Piece `piece` of an outer plane: of the first one (`side` 0) or of the last one.
__device__ void outer(const Slab& slab, uint32_t step, uint32_t side, uint32_t piece, int pe) {
  const uint64_t first = slab.plane_points() * piece / slab.pieces;
  const uint64_t end = slab.plane_points() * (piece + 1) / slab.pieces;
  const uint32_t plane = side == 0 ? 1 : slab.planes;
  for (uint32_t i = threadIdx.x; i < slab.pieces; i += blockDim.x) {
    nvshmem_signal_wait_until(slab.arrived + side * slab.pieces + i, NVSHMEM_CMP_GE, step);
  }
  __syncthreads();
  step_points(slab, step, plane, first, end);
  __syncthreads();
  float* const there = slab.at(step + 1, side == 0 ? slab.planes + 1 : 0) + first;
  nvshmemx_putmem_signal_nbi_block(
      there, slab.at(step + 1, plane) + first, (end - first) * sizeof(float),
      slab.arrived + (1 - side) * slab.pieces + piece, step + 1, NVSHMEM_SIGNAL_SET, pe);
}

__global__ void step_slab(Slab slab, uint32_t step, int below, int above) {
  if (blockIdx.x < slab.pieces) return outer(slab, step, 0, blockIdx.x, below);
  if (blockIdx.x < 2 * slab.pieces) return outer(slab, step, 1, blockIdx.x - slab.pieces, above);
  for (uint32_t plane = 2 + blockIdx.x - 2 * slab.pieces; plane < slab.planes;
       plane += gridDim.x - 2 * slab.pieces) {
    step_points(slab, step, plane, 0, slab.plane_points());
  }
}

__global__ void drain() { nvshmem_quiet(); }

/// The same on a whole cube, whose neighbours are itself.
__global__ void step_whole(Slab whole, uint32_t step) {
  for (uint32_t plane = blockIdx.x; plane < whole.planes; plane += gridDim.x) {
    const uint32_t below = (plane + whole.planes - 1) % whole.planes;
    const uint32_t above = (plane + 1) % whole.planes;
    for (uint64_t i = threadIdx.x; i < whole.plane_points(); i += blockDim.x) {
      whole.at(step + 1, plane)[i] =
          stepped(whole.at(step, below), whole.at(step, plane), whole.at(step, above), i, whole.n);
    }
  }
}

float begin_value(uint64_t plane, uint64_t i) {
  return static_cast<float>(app::mixed(plane << 32 | i) % 1024);
}

/// Plane `plane` of the whole cube after `steps`, for every plane from `first` on.
uint64_t wrong_points(const Slab& slab, uint32_t steps, uint32_t first, uint32_t all,
                      uint32_t threads) {
  Slab whole{nullptr, nullptr, slab.n, all, 0};
  const uint64_t points = 2 * uint64_t{all + 2} * slab.plane_points();
  CUDA_CHECK(cudaMalloc(&whole.points, points * sizeof(float)));
  std::vector<float> values(uint64_t{all} * slab.plane_points());
  for (uint64_t i = 0; i < values.size(); ++i) {
    values[i] = begin_value(i / slab.plane_points(), i % slab.plane_points());
  }
  CUDA_CHECK(cudaMemcpy(whole.at(0, 0), values.data(), values.size() * sizeof(float),
                        cudaMemcpyHostToDevice));
  for (uint32_t step = 0; step < steps; ++step) step_whole<<<64, threads>>>(whole, step);
  CUDA_CHECK(cudaDeviceSynchronize());
  const uint64_t mine = slab.planes * slab.plane_points();
  std::vector<float> want(mine), got(mine);
  CUDA_CHECK(cudaMemcpy(want.data(), whole.at(steps, first), mine * sizeof(float),
                        cudaMemcpyDeviceToHost));
  CUDA_CHECK(
      cudaMemcpy(got.data(), slab.at(steps, 1), mine * sizeof(float), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(whole.points));
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < mine; ++i) wrong += want[i] != got[i] ? 1 : 0;
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  app::AppOptions options(argc, argv);
  const auto n = static_cast<uint32_t>(options.number("n", 256));
  const auto steps = static_cast<uint32_t>(options.number("steps", 50));
  const auto pieces = static_cast<uint32_t>(options.number("pieces", 8));
  const auto threads = static_cast<uint32_t>(options.number("threads", 256));
  options.done();
  app::begin();
  const auto pes = static_cast<uint32_t>(nvshmem_n_pes());
  const auto me = static_cast<uint32_t>(nvshmem_my_pe());
  if (n % pes != 0 || n / pes < 2)
    options.refuse("--n: a multiple of the number of PEs, two planes each");
  Slab slab{nullptr, app::symmetric<uint64_t>(2 * pieces), n, n / pes, pieces};
  slab.points = app::symmetric<float>(2 * uint64_t{slab.planes + 2} * slab.plane_points());
  std::vector<float> values(uint64_t{slab.planes + 2} * slab.plane_points());
  for (uint64_t i = 0; i < values.size(); ++i) {
    const uint64_t plane = (me * slab.planes + n - 1 + i / slab.plane_points()) % n;
    values[i] = begin_value(plane, i % slab.plane_points());
  }
  CUDA_CHECK(cudaMemcpy(slab.at(0, 0), values.data(), values.size() * sizeof(float),
                        cudaMemcpyHostToDevice));
  const auto below = static_cast<int>((me + pes - 1) % pes);
  const auto above = static_cast<int>((me + 1) % pes);
  const uint32_t inner = slab.planes < 98 ? slab.planes : 98;
  const double took = app::seconds([&] {
    for (uint32_t step = 0; step < steps; ++step) {
      step_slab<<<2 * pieces + inner, threads>>>(slab, step, below, above);
    }
    drain<<<1, 1>>>();
  });
  const uint64_t errors = wrong_points(slab, steps, me * slab.planes, n, threads);
  return app::finish("stencil",
                     app::row("\"n\": %u, \"steps\": %u, \"pieces\": %u, \"us_per_step\": %.2f", n,
                              steps, pieces, took / steps * 1e6),
                     errors);
}
