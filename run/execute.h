// SPDX-License-Identifier: Apache-2.0
//
// The last step of a forked child.
#pragma once

#include <string>
#include <vector>

namespace peal::run {

/// Runs `argv` in place of this process, with no signal blocked or ignored that a launcher blocks
/// or ignores. Answers errno when it cannot.
int execute(std::vector<std::string> argv);

}  // namespace peal::run
