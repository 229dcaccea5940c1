"""The release that this tree becomes. SONAME: programs linked with one release run with any of the same number."""

VERSION = "0.1.0"
SONAME = "libpeal.so.0"
