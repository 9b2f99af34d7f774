#!/bin/sh
# Makes the assembly of this package anew from csrc/. The compiler is pinned: another version
# gives other, though equally valid, code, and CI requires that this script changes nothing.
# Debian: apt-get install clang-19 llvm-19
set -e
cd "$(dirname "$0")"
rm -f ./*_amd64.s ./*_arm64.s
(cd _gen && go run . "${CLANG:-clang-19}" "${OBJDUMP:-llvm-objdump-19}" ..)
