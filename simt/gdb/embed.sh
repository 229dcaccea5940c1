#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cat objects.py lanes.py commands.py | embed.sh > gdb_script.S: the script as text that gdb finds in a program: a byte 4
# (Python, inline), a name in the first line, the text, a zero byte. A module of its own, so that no name of it meets
# those of the user's scripts. R: programs are linked with --gc-sections.
set -eu
cat <<'END'
    .section .debug_gdb_scripts, "aMSR", @progbits, 1
    .globl peal_gdb_script
peal_gdb_script:
    .byte 4
    .ascii "gdb.inlined-script.peal\n"
END
{
  echo "import types, gdb"
  echo "gdb.peal = types.ModuleType('peal')"
  echo "exec(r'''"
  cat
  echo "''', gdb.peal.__dict__)"
} | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/    .ascii "/' -e 's/$/\\n"/'
cat <<'END'
    .byte 0
    .section .note.GNU-stack, "", @progbits
END
