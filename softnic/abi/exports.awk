# SPDX-License-Identifier: Apache-2.0
#
# What follows from exports.txt, by -v make=...
#   stubs            a line of C for each name without an implementation (stubs.cc)
#   all              the version script of libpeal_softnic.so, with all names
#   IBVERBS, MLX5    that of a front library: versions of such names, which programs require to exist

/^#/ || NF == 0 { next }

make == "stubs" {
  if (/^[A-Z]/) version = $1
  if (NF == 2) print "PEAL_UNSUPPORTED(" $2 ", " $1 ")"
  if (NF == 3) print "PEAL_UNSUPPORTED_OLD(" $2 ", " $1 ", " version ")"
  next
}

function family(version) { return substr(version, 1, index(version, "_1.") - 1) }

function close_version(next_one) {
  if (version == "") return
  last = family(version) != family(next_one)
  if (last && (make == "all" ? version ~ /^IBVERBS_1/ : family(version) == make)) print "  local: *;"
  print "}" (parent == "" ? "" : " " parent) ";"
  parent = last ? "" : version
}

/^[A-Z]/ {
  if (make != "all" && $1 !~ "^" make) next
  close_version($1)
  version = $1
  print version " {"
  next
}

make == "all" && NF < 3 {
  if (named != version) print "  global:"
  named = version
  print "    " $1 ";"
}

END { if (make != "stubs") close_version("") }
