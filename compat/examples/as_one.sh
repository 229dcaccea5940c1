#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# as_one.sh PROGRAM.cu...: prints them as one program, each in a namespace of its own: most of a compilation is peal's
# headers. It is the program whose name it is started by, alone or with _asan behind it.
set -eu
printf '#include <%s>\n' cmath math.h mpi.h string_view
echo "#include \"$(dirname "$1")/program.cuh\""
echo "#define main run"
for program in "$@"; do
  printf 'namespace of_%s {\n#include "%s"\n}\n' "$(basename "$program" .cu)" "$program"
  sed -n 's/^#define \([A-Z]*\) .*/#undef \1/p' "$program"
done
echo "#undef main"
echo "static int call(int (*program)(), int, char**) { return program(); }"
echo "static int call(int (*program)(int, char**), int count, char** words) { return program(count, words); }"
echo "int main(int count, char** words) {"
echo "  const std::string_view path = words[0], name = path.substr(path.rfind('/') + 1);"
for program in "$@"; do
  name=$(basename "$program" .cu)
  echo "  if (name == \"$name\" || name == \"${name}_asan\") return call(of_$name::run, count, words);"
done
echo "  return 2;"
echo "}"
