/* SPDX-License-Identifier: Apache-2.0
 *
 * A C program that makes every call of peal/c_storage.h. Prints ok on PE 0. Hazard: a call that
 * leaves the other PEs waiting, an error without its reason.
 */
#include "peal/c_storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int failures = 0;

#define EXPECT(condition)                                                          \
  do {                                                                             \
    if (!(condition)) {                                                            \
      printf("c_storage: line %d: %s (%s)\n", __LINE__, #condition, peal_error()); \
      ++failures;                                                                  \
    }                                                                              \
  } while (0)
#define WORKS(call) EXPECT((call) == 0)
#define REFUSED(call, reason) EXPECT((call) == -1 && strstr(peal_error(), reason) != NULL)

enum { kBytes = 10000, kPath = 512 };

static char folder[kPath - 64];

static const char* in_folder(const char* name, int pe) {
  static char path[kPath];
  snprintf(path, sizeof path, "%s/%s%d", folder, name, pe);
  return path;
}
static void fill(char* data, int seed) {
  for (int i = 0; i < kBytes; ++i) data[i] = (char)(i * 7 + i / 251 + seed);
}
/** The bytes that fill() puts `from` on. */
static int holds(const char* data, int seed, int from, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    const int at = from + i;
    if (data[i] != (char)(at * 7 + at / 251 + seed)) return 0;
  }
  return 1;
}

static void alone(char* data) {
  const int me = peal_my_pe();
  fill(data, me);
  WORKS(peal_save(in_folder("mine", me), data, kBytes));
  memset(data, 0, kBytes);
  WORKS(peal_load(in_folder("mine", me), 1000, data + 3, 5000));
  EXPECT(data[2] == 0 && data[5003] == 0 && holds(data + 3, me, 1000, 5000));
  EXPECT(strstr(peal_describe_storage(), "by POSIX") != NULL);

  REFUSED(peal_load(in_folder("mine", me), kBytes - 1, data, 2), "10000 bytes");
  REFUSED(peal_load(in_folder("none", me), 0, data, 1), "No such file");
  REFUSED(peal_load(NULL, 0, data, 1), "peal_load: the path is NULL");
  REFUSED(peal_save(NULL, data, 1), "peal_save: the path is NULL");
  REFUSED(peal_save(in_folder("mine", me), folder, 10), "register_window");
}

static void on_stream(char* data) {
  const int me = peal_my_pe();
  const peal_stream_t stream = peal_stream_create();
  fill(data, 20 + me);
  WORKS(peal_save_on_stream(in_folder("streamed", me), data, kBytes / 2, stream));
  WORKS(peal_load_on_stream(in_folder("streamed", me), 10, data + kBytes / 2, 1000, stream));
  WORKS(peal_stream_synchronize(stream));
  WORKS(peal_check());
  EXPECT(holds(data + kBytes / 2, 20 + me, 10, 1000));
  REFUSED(peal_load_on_stream(NULL, 0, data, 1, stream), "peal_load_on_stream: the path is NULL");
  REFUSED(peal_save_on_stream(in_folder("mine", me), folder, 10, stream), "register_window");
  REFUSED(peal_save_on_stream(in_folder("mine", me), data, 10, NULL), "stream null");
  WORKS(peal_stream_destroy(stream));
}

static void together(char* data) {
  const int me = peal_my_pe();
  const int n = peal_n_pes();
  peal_file_part_t part = {99, 99};
  WORKS(peal_barrier());
  WORKS(peal_load_shard(in_folder("mine", 0), data, kBytes, 100, &part));
  EXPECT(holds(data, 0, (int)part.offset, (int)part.bytes));
  EXPECT((part.offset == 0) == (me == 0) && (part.offset + part.bytes == kBytes) == (me == n - 1));
  WORKS(peal_load_shard(in_folder("mine", 0), data, kBytes, 100, NULL));
  REFUSED(peal_load_shard(in_folder("mine", 0), data, 10, 100, NULL), "give more memory");
  REFUSED(peal_load_shard(NULL, data, 10, 100, NULL), "NULL");

  fill(data, 50 + me);
  WORKS(peal_save_checkpoint(in_folder("step", 0), data, kBytes));
  memset(data, 0, kBytes);
  WORKS(peal_load_checkpoint(in_folder("step", 0), data, kBytes));
  EXPECT(holds(data, 50 + me, 0, kBytes));
  REFUSED(peal_load_checkpoint(in_folder("step", 0), data, 10), "10 are asked");
  REFUSED(peal_load_checkpoint(in_folder("none", 0), data, kBytes), "No such file");
  /* On one PE alone: all hear of it. */
  EXPECT(peal_save_checkpoint(me == 0 ? NULL : in_folder("step", 0), data, kBytes) == -1);
  EXPECT(peal_load_checkpoint(me == 0 ? NULL : in_folder("step", 0), data, kBytes) == -1);
}

int main(void) {
  char* data;
  EXPECT(peal_describe_storage() == NULL && strstr(peal_error(), "peal_init") != NULL);
  REFUSED(peal_load("file", 0, NULL, 0), "peal_init");
  if (peal_init() != 0) {
    fprintf(stderr, "%s\n", peal_error());
    return 1;
  }
  snprintf(folder, sizeof folder, "%s/c_storage", getenv("TEST_TMPDIR"));
  mkdir(folder, 0700);
  data = peal_malloc(kBytes);
  EXPECT(data != NULL);
  alone(data);
  on_stream(data);
  together(data);
  WORKS(peal_barrier());
  if (failures == 0 && peal_my_pe() == 0) printf("ok\n");
  WORKS(peal_finalize());
  return failures != 0;
}
