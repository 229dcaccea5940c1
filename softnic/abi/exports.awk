# SPDX-License-Identifier: Apache-2.0
#
# What follows from exports.txt, by -v make=...
#   stubs            a line of C for each name without an implementation (stubs.cc)
#   all              the version script of libpeal_softnic.so, with all names
#   IBVERBS, MLX5    that of a front library: versions of such names, which programs require to exist

/^#/ || NF == 0 { next }

make == "stubs" {
  for (i = 2; i <= NF && $1 ~ /:$/; ++i) print "PEAL_UNSUPPORTED(" substr($1, 1, length($1) - 1) ", " $i ")"
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
}

make == "all" {
  first = /^[A-Z]/ || $1 ~ /:$/ ? 2 : 1  # behind a version, or how its names say no
  if (named != version && NF >= first) {
    print "  global:"
    named = version
  }
  for (i = first; i <= NF; ++i) print "    " $i ";"
}

END { if (make != "stubs") close_version("") }
