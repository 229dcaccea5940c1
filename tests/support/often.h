// SPDX-License-Identifier: Apache-2.0
//
// What most tests include, of GoogleTest and the standard library: precompiled (tests/test.bzl).
// Tests include what they use all the same; no header of this tree belongs here, or an edit of it
// would compile every test again.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
