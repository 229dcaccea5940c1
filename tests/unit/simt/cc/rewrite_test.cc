// SPDX-License-Identifier: Apache-2.0
#include "simt/cc/rewrite.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace peal::cc {
namespace {

std::string rewritten(const std::string& text) { return rewrite(Tokens(text)); }

/// Without blanks: they do not matter.
std::string tight(std::string text) {
  std::erase(text, ' ');
  return text;
}
#define EXPECT_REWRITTEN(from, to) EXPECT_EQ(tight(rewritten(from)), tight(to))

std::string refused(const std::string& text) {
  const std::string whole = "# 1 \"a.cu\"\n" + text;
  try {
    return "rewritten: " + rewritten(whole);
  } catch (const SyntaxError& error) {
    return error.what();
  }
}

TEST(Rewrite, LaunchesAreCallsOfWhatStandsInFrontOfThem) {
  for (const std::string callee :
       {"k", "a::k", "::a::k", "k<int>", "a<int>::k<b<2>>", "k<(3 > 2)>", "p->k[1]", "(k)",
        "(*of(1))", "of(1)", "of<1>(a, b)", "p.t().template k<T, 3>"}) {
    EXPECT_REWRITTEN("else " + callee + "<<<g, b>>>(x);",
                     "else ((void)::peal::simt::cuda::Configured(g , b), " + callee + "(x));");
    EXPECT_REWRITTEN("return " + callee + "<<<g, b>>>(x);",
                     "return ((void)::peal::simt::cuda::Configured(g , b), " + callee + "(x));");
  }
  EXPECT_REWRITTEN("a ? k<<<1, f(2, 3), 4, s>>>() : l<<<n < 3 ? 1 : 2, {1, 2}>>>(y)",
                   "a ? ((void)::peal::simt::cuda::Configured(1 , f ( 2 , 3 ) , 4 , s), k()) : "
                   "((void)::peal::simt::cuda::Configured(n < 3 ? 1 : 2 , { 1 , 2 }), l(y))");
}

TEST(Rewrite, WhatIsNoLaunchStays) {
  for (const std::string text :
       {"a << b >> c;", "o << x < y;", "operator<< <T>(a)", "operator<<<T>(a)", "f<g<h<int>>>(x)",
        "s = \"k<<<1, 2>>>(x)\";", "#pragma once\nint x;"}) {
    EXPECT_REWRITTEN(text, text);
  }
}

TEST(Rewrite, LaunchesThatAreNotUnderstoodAreErrors) {
  EXPECT_EQ(refused("\nk<<<1>>>(x);"),
            "a.cu:2: error: <<<1>>>: give blocks, threads and, if wanted, bytes of shared memory "
            "and a stream");
  EXPECT_NE(refused("k<<<>>>(x);").find("give blocks"), std::string::npos);
  EXPECT_NE(refused("k<<<1, 2, 3, 4, 5>>>(x);").find("give blocks"), std::string::npos);
  EXPECT_EQ(refused("k<<<1, 2>>>;"), "a.cu:1: error: <<< without >>>(...)");
  EXPECT_EQ(refused("k<<<1, [] { l<<<1, 2>>>(x); }()>>>(x);").substr(0, 10), "rewritten:");
  EXPECT_EQ(refused("k<<<1, l<<<1, 2>>>(x)>>>(x);"),
            "a.cu:1: error: <<<...>>> within <<<...>>>: launch it in a statement of its own");
  EXPECT_EQ(refused("; + <<<1, 2>>>(x);"),
            "a.cu:1: error: <<<...>>>: what is launched is not understood; put it in parentheses");
}

TEST(Rewrite, KernelsOfferThemselvesAndStartGrids) {
  const auto kernel = [](const std::string& head, const std::string& name,
                         const std::string& address) {
    return head + "{ ::peal::simt::cuda::enter(\"" + name + "\", " + address +
           ", [=]() mutable { f(); });}";
  };
  const auto offered = [](const std::string& type, const std::string& name) {
    return "&::peal::simt::offered_kernel<static_cast<void (*)(" + type + ")>(&" + name + ")>";
  };
  EXPECT_REWRITTEN("__global__ void k(int a, float* b) { f(); }",
                   kernel(" void k(int a, float* b) ", "k", offered("int a, float * b", "k")));
  EXPECT_REWRITTEN("static void __global__ k() { f(); }",
                   kernel("static void  k() ", "k", offered("", "k")));
  EXPECT_REWRITTEN(
      "__global__ void __attribute__((cold)) k(int a = g(1, 2), A<1, 2> b = {}) { "
      "f(); }",
      kernel(" void __attribute__((cold)) k(int a = g(1, 2), A<1, 2> b = {}) ", "k",
             offered("int a, A < 1 , 2 > b", "k")));
  EXPECT_REWRITTEN("template <class T, int N = 3, class... R> __global__ void k(T* a) { f(); }",
                   kernel("template <class T, int N = 3, class... R>  void k(T* a) ", "k",
                          offered("T * a", "k<T, N, R...>")));
  EXPECT_REWRITTEN(
      "template <> __global__ void k<int>(int* a) { f(); }",
      kernel("template <>  void k<int>(int* a) ", "k", offered("int * a", "k < int >")));
  // What has no name here cannot be offered by it.
  EXPECT_REWRITTEN("template <class> __global__ void k(int a) { f(); }",
                   kernel("template <class>  void k(int a) ", "k", "nullptr"));
  EXPECT_REWRITTEN("__global__ void k(auto a) { f(); }",
                   kernel(" void k(auto a) ", "k", "nullptr"));
  EXPECT_REWRITTEN("extern \"C\" __global__ void k(int a);", "extern \"C\"  void k(int a);");
  EXPECT_EQ(refused("__global__ int x;"),
            "a.cu:1: error: __global__ in front of what is no function");
  EXPECT_EQ(refused("__global__ void k() + 1;"),
            "a.cu:1: error: kernel k: a body or ; is expected behind its parameters");
}

std::string shared(const std::string& declaration, int number) {
  const std::string n = std::to_string(number);
  return "struct peal_shared_" + n + " { " + declaration + "; }; auto& peal_in_" + n +
         " = ::peal::simt::cuda::shared<peal_shared_" + n + ">()";
}

TEST(Rewrite, SharedMemoryIsOfTheBlock) {
  EXPECT_REWRITTEN("f() { __shared__ int x; }",
                   "f() { " + shared(" int x", 4) + "; auto& x = peal_in_4.x; }");
  EXPECT_REWRITTEN("f() { static volatile __shared__ A<int, 3> a[2][N], *b; }",
                   "f() { " + shared(" volatile  A<int, 3> a[2][N], *b", 6) +
                       "; auto& a = peal_in_6.a; auto& b = peal_in_6.b; }");
  EXPECT_EQ(
      rewritten("f() { alignas(16) __shared__ struct { int i; } s; }"),
      "f() { " + shared("alignas(16)  struct { int i; } s", 8) + "; auto& s = peal_in_8.s; }");
  EXPECT_REWRITTEN("f() { extern __shared__ float s[]; }",
                   "f() { float * s = static_cast<float *>(::peal::simt::dynamic_shared()); }");
}

TEST(Rewrite, SharedMemoryThatIsNotUnderstoodIsAnError) {
  EXPECT_EQ(
      refused("namespace a {\nextern \"C\" { extern __shared__ int s[]; } }"),
      "a.cu:2: error: __shared__ outside of functions: declare it in the kernel that uses it");
  EXPECT_NE(refused("f() { __shared__ int x = 3; }").find("no initial values"), std::string::npos);
  EXPECT_NE(refused("f() { __shared__ int (*x)[3]; }").find("not understood"), std::string::npos);
  EXPECT_NE(refused("f() { extern __shared__ int x[][2]; }").find("T name[]"), std::string::npos);
  EXPECT_NE(refused("f() { __shared__ ; }").find("no name"), std::string::npos);
}

TEST(Rewrite, WhatIsForGpusAloneIsAnError) {
  EXPECT_EQ(refused("f() {\n\nasm volatile(\"ld.global.u32 %0, [%1];\" : \"=r\"(x) : \"l\"(p)); }"),
            "a.cu:3: error: inline PTX \"ld.global.u32 %0, [%1];\": a CPU does not know it; put it "
            "behind #ifdef __CUDA_ARCH__, with plain C++ in the #else");
  EXPECT_EQ(refused("f() { asm volatile(\"pause\" ::: \"memory\"); }").substr(0, 10), "rewritten:");
  EXPECT_NE(refused("__cluster_dims__(2) f();").find("clusters"), std::string::npos);
}

TEST(Rewrite, SmallWords) {
  EXPECT_REWRITTEN("__noinline__ int f();", "__attribute__((noinline)) int f();");
  const std::string of_gcc = "__attribute__((__noinline__)) int f();";
  EXPECT_REWRITTEN(of_gcc, of_gcc);
  EXPECT_REWRITTEN("{\n#pragma unroll 4\nfor (;;) {}\n#pragma unroll\n}", "{\n\nfor (;;) {}\n\n}");
}

// Errors and debuggers name lines of the program.
TEST(Rewrite, LinesStayWhereTheyAre) {
  const std::string text =
      "__global__\nvoid k(int a,\n  int b)\n{\n  __shared__ int x[3],\n   y;\n}\nk<<<1,\n 2>>>(3,\n"
      "  4);\n";
  const std::string out = rewritten(text);
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), std::count(text.begin(), text.end(), '\n'));
}

}  // namespace
}  // namespace peal::cc
