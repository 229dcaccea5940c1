// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/special_functions.h"

#include <cmath>
#include <limits>

namespace peal::simt::cuda::special_functions {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kHalfRootOfPi = 0.88622692545275801365;

// A root of erfc(x) = y for 0 < y <= 1, by Newton's steps on the logarithm: it is nearly a
// parabola, so that few steps suffice however small y is.
double inverse_of_erfc(double y) {
  double x = y < 0.1 ? std::sqrt(-std::log(y)) : (1 - y) * kHalfRootOfPi;
  for (int step = 0; step < 60; ++step) {
    const double value = std::erfc(x);
    if (value <= 0) {
      x *= 0.9;
      continue;
    }
    const double slope = -std::exp(-x * x) / (kHalfRootOfPi * value);
    const double next = x - (std::log(value) - std::log(y)) / slope;
    if (std::abs(next - x) <= 1e-16 * std::abs(x)) return next;
    x = next;
  }
  return x;
}

template <class Real>
double length_of(int n, const Real* x) {
  double length = 0;
  for (int i = 0; i < n; ++i) length = std::hypot(length, static_cast<double>(x[i]));
  return length;
}

}  // namespace

double erfcinv(double y) {
  if (std::isnan(y) || y < 0 || y > 2) return kNaN;
  if (y == 0) return kInfinity;
  if (y == 2) return -kInfinity;
  return y > 1 ? -inverse_of_erfc(2 - y) : inverse_of_erfc(y);
}

double erfinv(double y) {
  const double size = std::abs(y);
  if (!(size <= 1)) return kNaN;
  if (size == 1) return std::copysign(kInfinity, y);
  if (size > 0.5) return std::copysign(inverse_of_erfc(1 - size), y);
  double x = y * kHalfRootOfPi;
  for (int step = 0; step < 8; ++step) {
    x -= (std::erf(x) - y) * kHalfRootOfPi * std::exp(x * x);
  }
  return x;
}

double erfcx(double x) {
  if (x < 25) return std::exp(x * x) * std::erfc(x);
  // The asymptotic series; its third term is below 1e-5 here, and the fifth is left out.
  const double inverse = 1 / (2 * x * x);
  const double series =
      1 - inverse * (1 - 3 * inverse * (1 - 5 * inverse * (1 - 7 * inverse * (1 - 9 * inverse))));
  return series / (2 * kHalfRootOfPi * x);
}

double normcdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double normcdfinv(double y) { return -std::sqrt(2.0) * erfcinv(2 * y); }

double rhypot(double x, double y) { return 1 / std::hypot(x, y); }
double norm3d(double x, double y, double z) { return std::hypot(x, y, z); }
double norm4d(double x, double y, double z, double w) {
  return std::hypot(std::hypot(x, y), std::hypot(z, w));
}
double rnorm3d(double x, double y, double z) { return 1 / norm3d(x, y, z); }
double rnorm4d(double x, double y, double z, double w) { return 1 / norm4d(x, y, z, w); }
double norm(int n, const double* x) { return length_of(n, x); }
double rnorm(int n, const double* x) { return 1 / length_of(n, x); }
float normf(int n, const float* x) { return static_cast<float>(length_of(n, x)); }
float rnormf(int n, const float* x) { return static_cast<float>(1 / length_of(n, x)); }

void sincospi(double x, double* sine, double* cosine) {
  const double part = std::fmod(x, 2.0) * M_PI;
  *sine = std::sin(part);
  *cosine = std::cos(part);
}

}  // namespace peal::simt::cuda::special_functions
