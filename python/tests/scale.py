import numpy as np, peal

scale = peal.kernel("""
__global__ void scale(float* x, float by, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= by;
}""")
with peal.job():
    x = peal.full(1000, 2, np.float32)
    scale[4, 256](x, 1.5, x.size)         # returns when it has ended; x is 3 everywhere
    assert (x.numpy() == 3).all()
