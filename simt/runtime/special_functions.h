// SPDX-License-Identifier: Apache-2.0
//
// Functions of reals that CUDA has and C has not: of the normal distribution, inverse error
// functions, norms. They are computed in double, so results may differ from a GPU's in the last
// places.
//
// Every CUDA program reads this file: declarations, and the float's by the double's.
#pragma once

namespace peal::simt::cuda::special_functions {

double erfinv(double y);      ///< of (-1, 1)
double erfcinv(double y);     ///< of (0, 2)
double erfcx(double x);       ///< exp(x^2) erfc(x)
double normcdf(double x);     ///< the normal distribution below x
double normcdfinv(double y);  ///< of (0, 1)
double rhypot(double x, double y);
double norm3d(double x, double y, double z);
double norm4d(double x, double y, double z, double w);
double rnorm3d(double x, double y, double z);
double rnorm4d(double x, double y, double z, double w);
double norm(int n, const double* x);
double rnorm(int n, const double* x);
void sincospi(double x, double* sine, double* cosine);

#define PEAL_SIMT_FLOAT_BY_DOUBLE(NAME) \
  inline float NAME##f(float x) { return static_cast<float>(NAME(double{x})); }
PEAL_SIMT_FLOAT_BY_DOUBLE(erfinv)
PEAL_SIMT_FLOAT_BY_DOUBLE(erfcinv)
PEAL_SIMT_FLOAT_BY_DOUBLE(erfcx)
PEAL_SIMT_FLOAT_BY_DOUBLE(normcdf)
PEAL_SIMT_FLOAT_BY_DOUBLE(normcdfinv)
#undef PEAL_SIMT_FLOAT_BY_DOUBLE
inline float rhypotf(float x, float y) { return static_cast<float>(rhypot(x, y)); }
inline float norm3df(float x, float y, float z) { return static_cast<float>(norm3d(x, y, z)); }
inline float norm4df(float x, float y, float z, float w) {
  return static_cast<float>(norm4d(x, y, z, w));
}
inline float rnorm3df(float x, float y, float z) { return static_cast<float>(rnorm3d(x, y, z)); }
inline float rnorm4df(float x, float y, float z, float w) {
  return static_cast<float>(rnorm4d(x, y, z, w));
}
float normf(int n, const float* x);
float rnormf(int n, const float* x);
inline void sincospif(float x, float* sine, float* cosine) {
  double wide_sine = 0, wide_cosine = 0;
  sincospi(x, &wide_sine, &wide_cosine);
  *sine = static_cast<float>(wide_sine);
  *cosine = static_cast<float>(wide_cosine);
}

}  // namespace peal::simt::cuda::special_functions

using namespace peal::simt::cuda::special_functions;
