// SPDX-License-Identifier: Apache-2.0
//
// What mixed.cu has for mixed_main.cpp: nothing of CUDA.
#pragma once

class Product {
 public:
  explicit Product(int n);
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  bool compute(const float* a, const float* b, float* out);

 private:
  struct Buffers;
  int n_;
  Buffers* buffers_;
};
