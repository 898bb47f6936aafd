#!/usr/bin/env bash
# Kernels ask for memory before they need it: no result depends on it, only speed, so no other test would miss it. gcc 12 has dropped such calls
# before (src/kernels/cpu/generic/ask_ahead.h). Here the instruction is looked for, in each set's functions that stream keys or weights.
# usage: read_ahead_test.sh LIBRARY
set -euo pipefail
library=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Lines "FUNCTION", one for each prefetch instruction in it.
objdump -dC --no-show-raw-insn "$library" | awk '
  /^[0-9a-f]+ <.*>:$/ { name = $0; next }
  /^ *[0-9a-f]+:\tprefetch/ { print name }' >"$work/all"

status=0
# Keys are asked for while they are multiplied: in the functions of a chunk (form 1, f16, whose scales do not ask too), wherever the compiler has put them.
chunk='(attend_chunk|attend_slice|score_[a-z]+|value_[a-z]+)<.*KvFormat\)1'
for pattern in "cpu::avx2::$chunk" "cpu::avx512::$chunk" 'cpu::avx2::(dot_rows|dot_direct)' 'cpu::avx2::.*q8_dot' 'cpu::avx_vnni::.*q8_dot' 'cpu::avx512::.*q8_dot'; do
  grep -qE "$pattern" "$work/all" || { echo "read_ahead_test: no prefetch instruction in $pattern" >&2; status=1; }
done
grep -qE 'cpu::avx2::.*rms_norm' "$work/all" && { echo "read_ahead_test: rms_norm asks for nothing, so this test finds what is not there" >&2; status=1; }
exit $status
