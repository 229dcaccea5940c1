// SPDX-License-Identifier: Apache-2.0
//
// What a kernel's parameters are, for whoever fills them in at run time: the host's tables
// (kernel_table.h), and those in code that NVRTC makes (nvrtc_table.h). Compiles under both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/context.h"
#include "device/team.h"

namespace peal::table {

enum class ParameterKind : uint32_t {
  kOther,  // any other trivially copyable type
  kVoid,
  kBool,
  kSigned,
  kUnsigned,  // addresses, too
  kReal,
  kContext,  // peal::Context
  kTeam,
};
enum class Passing : uint32_t { kValue, kPointer, kConstPointer };

/// What one argument is. Of a pointer, `kind`, `bytes` and `alignment` tell of what it points at.
struct Parameter {
  ParameterKind kind;
  Passing passing;
  uint32_t bytes;
  uint32_t alignment;
  const char* type;  // a text with "T = " and the type's name in it
};

template <class T>
constexpr const char* type_text() {
  return __PRETTY_FUNCTION__;
}

template <class T>
constexpr ParameterKind kind_of() {
  if constexpr (std::is_void_v<T>) {
    return ParameterKind::kVoid;
  } else if constexpr (std::is_enum_v<T>) {
    return kind_of<std::underlying_type_t<T>>();
  } else if constexpr (std::is_same_v<T, bool>) {
    return ParameterKind::kBool;
  } else if constexpr (std::is_integral_v<T>) {
    return std::is_signed_v<T> ? ParameterKind::kSigned : ParameterKind::kUnsigned;
  } else if constexpr (std::is_pointer_v<T>) {
    return ParameterKind::kUnsigned;
  } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    return ParameterKind::kReal;
  } else if constexpr (std::is_same_v<T, Context>) {
    return ParameterKind::kContext;
  } else {
    return std::is_same_v<T, Team> ? ParameterKind::kTeam : ParameterKind::kOther;
  }
}

template <class T>
constexpr Parameter parameter_of() {
  static_assert(!std::is_reference_v<T>, "a kernel takes its parameters by value");
  static_assert(std::is_trivially_copyable_v<T>, "a kernel's parameters are copied as bytes");
  Parameter made{kind_of<T>(), Passing::kValue, sizeof(T), alignof(T), type_text<T>()};
  if constexpr (std::is_pointer_v<T>) {
    using Pointed = std::remove_pointer_t<T>;
    made.passing = std::is_const_v<Pointed> ? Passing::kConstPointer : Passing::kPointer;
    made.kind = kind_of<std::remove_cv_t<Pointed>>();
    made.bytes = made.alignment = 1;
    if constexpr (std::is_object_v<Pointed>) {
      made.bytes = sizeof(Pointed);
      made.alignment = alignof(Pointed);
    }
  }
  return made;
}

}  // namespace peal::table
