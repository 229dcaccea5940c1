#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# wheel_test.sh <install>: makes a wheel, installs it into an environment without this tree, and runs the package's
# tests there. Debian's Python and numpy, whatever else is in PATH; pip asks no network.
set -u
install=$1
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
# shellcheck source=../install/expect.sh
source tests/install/expect.sh
python=/usr/bin/python3

expect "find_package(peal)" "$install" --prefix "$work/installation"
expect "_x86_64.whl" "$python" packaging/wheel.py --root "$work/installation" --python "$PWD/python/peal" \
  --version packaging/version.json --out "$work/wheels"
expect "" "$python" -m venv --system-site-packages "$work/venv"
expect "" "$work/venv/bin/pip" --isolated install --quiet --force-reinstall --no-index --no-deps "$work"/wheels/*.whl
expect "](tasks/start.md)" sh -c 'cat "$1"/lib/python3*/site-packages/peal/doc/llms.txt' sh "$work/venv"
expect "## Install" sh -c 'cat "$1"/lib/python3*/site-packages/peal/doc/tasks/start.md' sh "$work/venv"
expect "licenses/libfmt" sh -c 'find "$1" -path "*dist-info/licenses/*"' sh "$work/venv"
mkdir -p "$work/tests/examples"
cp -L python/tests/*.py docs/python.md "$work/tests"
cp -rL "$work/installation/share/peal/examples/"{python,tutorial} "$work/tests/examples"
cd "$work/tests" || exit 2
rm -rf "$work/installation"
unset PEAL_SOFTNIC_PLACEMENT RUNFILES_DIR PYTHONPATH
export XDG_CACHE_HOME="$work/cache"

"$work/venv/bin/python" -m unittest -v test_package test_interrupts test_reports test_mistakes test_kernels test_torch ||
  fail "the package's tests"
# What libpeal wants and a system may lack comes from the wheel, for the programs too.
for file in lib/libpeal.so.0 bin/peal-run; do
  expect "_native/" sh -c 'ldd "$1" | grep libfmt' sh "$(echo "$work"/venv/lib/python3*/site-packages/peal/_native)/$file"
done
finish
