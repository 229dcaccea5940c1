#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fake_ssh.sh [OPTIONS] HOST COMMAND: a remote shell to this machine. Like a real one it comes with another environment
# and folder than the caller's, and with a login shell that talks. FAKE_SSH_HOST is the host's name there; the host
# "unreachable" is that.
while [[ ${1:-} == -* ]]; do shift; done
host=$1
shift
if [ "$host" = unreachable ]; then
  echo "fake_ssh: connect to host $host: No route to host" >&2
  exit 255
fi
cd /
echo "Welcome to $host! You have new mail."
exec env -i PATH="$PATH" HOME=/ FAKE_SSH_HOST="$host" FAKE_SSH_PIDS="${FAKE_SSH_PIDS:-}" \
  sh -c '[ -z "$FAKE_SSH_PIDS" ] || echo $$ >"$FAKE_SSH_PIDS"; '"$*"
