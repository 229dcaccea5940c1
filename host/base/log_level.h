// SPDX-License-Identifier: Apache-2.0
//
// How much peal says: a setting (config.h) and a property of each message (log.h).
#pragma once

namespace peal {

/// Importance of a message, most important first. At kWarn, the default, a healthy run is silent.
enum class LogLevel { kError, kWarn, kInfo, kDebug };

}  // namespace peal
