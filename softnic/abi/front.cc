// SPDX-License-Identifier: Apache-2.0
//
// libibverbs.so.1 and libmlx5.so.1: a soname, version nodes and one dependency.
//
//   libibverbs.so.1 -> libpeal_softnic.so <- libmlx5.so.1
//
// The names live in libpeal_softnic.so. Neither front depends on the other: in a process that has
// loaded rdma-core's libibverbs.so.1 already, a dependency of that name would bind to it, and the
// two libraries would no longer share one device.
