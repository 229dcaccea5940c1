// SPDX-License-Identifier: Apache-2.0
//
// peal_softnic_engine DIRECTORY: the process that runs the NICs of one fabric on a GPU. Started by
// the first PE that needs it, serves all PEs of the fabric, ends when the last has gone.
//
//   detach from the PE that started it -> one process a fabric (lock) -> DIRECTORY/engine -> serve
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "softnic/gpu/server.h"

namespace {

constexpr std::chrono::seconds kPatience{30};  // for the first PE
constexpr std::chrono::seconds kHandOver{5};   // for a predecessor that is leaving

/// True when this process is the only engine of the fabric, for as long as it lives.
bool become_the_engine(int directory) {
  const auto deadline = std::chrono::steady_clock::now() + kHandOver;
  while (flock(directory, LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// No terminal, no pipe of a launcher and no descriptor of the PE is kept open from here.
void detach() {
  setsid();
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  close_range(3, ~0u, 0);
  // PEs name GPUs by identity, so the engine must see all of them, numbered as they are.
  unsetenv("CUDA_VISIBLE_DEVICES");
  // A kernel that is loaded at its first launch would wait for the one that runs.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY   (started by the software NIC)\n", argv[0]);
    return 2;
  }
  const pid_t child = fork();
  if (child != 0) _exit(child < 0 ? 1 : 0);
  detach();
  const std::string directory = argv[1];
  const int lock = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0 || !become_the_engine(lock)) return 0;
  const std::string path = directory + "/engine";
  unlink(path.c_str());
  try {
    peal::softnic::gpu::Server server(path, peal::softnic::gpu::make_engine_runner);
    server.run(kPatience);
  } catch (const std::exception&) {
    unlink(path.c_str());
    return 1;
  }
  unlink(path.c_str());
  // The last one takes the folders away; others find them in use.
  rmdir(directory.c_str());
  rmdir(directory.substr(0, directory.rfind('/')).c_str());
  return 0;
}
