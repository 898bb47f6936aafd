#!/usr/bin/env bash
# The program contains no machine-learning framework, and the checker that says so can fail: programs that link, contain or
# name a planted one are each found. usage: self_sufficiency_test.sh SOURCE_DIR PROGRAM COMPILER
set -euo pipefail
checker=$1/tools/check_self_sufficiency program=$2 compiler=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { echo "self_sufficiency_test: $*" >&2; exit 1; }

# expect_found WHAT PATTERN PROGRAM: exit status 1, and the message names the planted thing.
expect_found() {
  local status=0
  "$checker" "$3" >out 2>&1 || status=$?
  [[ $status == 1 ]] || { cat out >&2; fail "$1: exit status $status, expected 1"; }
  grep -qE "$2" out || { cat out >&2; fail "$1: the message lacks $2"; }
}

echo 'extern "C" int fake_call() { return 1; }' >fake.cpp
"$compiler" -shared -fPIC fake.cpp -o libggml_fake.so
echo 'extern "C" int fake_call(); int main() { return fake_call() - 1; }' >linked.cpp
"$compiler" linked.cpp -L. -lggml_fake -Wl,-rpath,"$work" -o linked
expect_found "a linked library" 'needs: libggml_fake\.so' ./linked
expect_found "a linked library" 'resolves to: .*libggml_fake\.so' ./linked

echo 'extern "C" int ggml_init(int x) { return x; } int main() { return ggml_init(0); }' >contained.cpp
"$compiler" contained.cpp -o contained
expect_found "a contained library" 'holds the symbol: ggml_init' ./contained

echo 'namespace torch { namespace jit { int load() { return 0; } } } int main() { return torch::jit::load(); }' >namespaced.cpp
"$compiler" namespaced.cpp -o namespaced
expect_found "a contained namespace" 'holds the symbol: _ZN5torch' ./namespaced

printf '#include <dlfcn.h>\nint main() { return dlopen("libonnxruntime.so.1", RTLD_NOW) == nullptr; }\n' >loaded.cpp
"$compiler" loaded.cpp -ldl -o loaded
expect_found "a loaded library" 'names the library: libonnxruntime\.so' ./loaded

echo 'namespace plumb { namespace llama { const char* key() { return "llama.block_count tokenizer.ggml.model"; } } } int main() { return plumb::llama::key()[0] - 108; }' >clean.cpp
"$compiler" clean.cpp -o clean
"$checker" ./clean || fail "a program that only says the words llama and ggml is refused"

"$checker" "$program"
