// SPDX-License-Identifier: Apache-2.0
#include "run/execute.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace peal::run {

int execute(std::vector<std::string> argv) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  std::vector<char*> pointers;
  for (std::string& text : argv) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  return errno;
}

}  // namespace peal::run
