#!/usr/bin/env bash
# Code for a newer instruction set stays where the table can leave it alone: in libplumb_kernels.a only functions of the namespaces
# avx2, avx_vnni, avx512 and amx hold VEX instructions, and those of avx2 none of AVX-512's registers. One inline function compiled inside the target pragma and shared with the rest of the program
# would end it with an illegal instruction on an older machine. A planted one is found. usage: instruction_set_test.sh LIBRARY COMPILER
set -euo pipefail
library=$1 compiler=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "instruction_set_test: $*" >&2; exit 1; }

# Lines "COUNT FUNCTION" for every function with VEX instructions.
vex_functions() {
  objdump -dC --no-show-raw-insn "$1" | awk '
    /^[0-9a-f]+ <.*>:$/ { name = $0; sub(/^[0-9a-f]+ /, "", name); next }
    /^ *[0-9a-f]+:\tv[a-z]/ { count[name]++ }
    END { for (name in count) print count[name], name }'
}

vex_functions "$library" >"$work/all"
[[ $(grep -c 'cpu::avx2::' "$work/all") -ge 10 ]] || fail "no AVX2 kernels in $library: nothing was checked"
if grep -vE 'cpu::(avx2|avx_vnni|avx512|amx)::' "$work/all"; then fail "these functions hold VEX instructions outside of their namespaces"; fi
if objdump -dC --no-show-raw-insn "$library" | awk '/^[0-9a-f]+ <.*>:$/ { name = $0 } /%zmm/ && name !~ /cpu::(avx512|amx)::/ { print name }' | sort -u | grep .; then
  fail "these functions hold AVX-512 instructions"
fi

cat >"$work/planted.cpp" <<'END'
#pragma GCC target("avx2")
inline __attribute__((noinline)) float shared(const float* x) { float s = 0; for (int i = 0; i < 8; ++i) s += x[i]; return s; }
namespace avx2 { float attention(const float* x) { return shared(x); } }
END
"$compiler" -O2 -c "$work/planted.cpp" -o "$work/planted.o"
vex_functions "$work/planted.o" >"$work/planted"
grep -v 'avx2' "$work/planted" | grep -q 'shared' || fail "a planted function was not found"
