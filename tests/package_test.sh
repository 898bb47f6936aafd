#!/usr/bin/env bash
# A stranger's program finds the installed package, links one target, and generates text.
# usage: package_test.sh SOURCE_DIR BUILD_DIR CMAKE COMPILER BUILD_TYPE
set -euo pipefail
source_dir=$1 build_dir=$2 cmake=$3 compiler=$4 build_type=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "package_test: $*" >&2; exit 1; }

"$cmake" --install "$build_dir" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log" >&2; fail "install failed"; }
# What the engine is made of stays private: the public headers are all in include/plumb.
[[ $(ls "$work/prefix/include") == plumb ]] || fail "unexpected headers: $(ls "$work/prefix/include")"
if grep -rlF -e "$source_dir" -e "$build_dir" "$work/prefix"/lib*/cmake; then fail "the package names the tree it was built from"; fi

"$cmake" -S "$source_dir/examples/hello" -B "$work/hello" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE="$build_type" >"$work/configure.log" 2>&1 || { cat "$work/configure.log" >&2; fail "configure failed"; }
"$cmake" --build "$work/hello" >"$work/build.log" 2>&1 || { cat "$work/build.log" >&2; fail "build failed"; }

"$work/hello/hello" "$source_dir/models/story" "Once upon a time" >"$work/text"
grep -qE '^\[[1-9][0-9]* tokens, ended by (length|stop_token)\]$' "$work/text" || fail "the example wrote: $(cat "$work/text")"
[[ $(wc -w <"$work/text") -ge 10 ]] || fail "the example wrote: $(cat "$work/text")"
cat "$work/text"

# A wrong path is an error that names the file, not a crash.
status=0
"$work/hello/hello" "$work/no-such-model" "Once" >"$work/text" 2>"$work/error" || status=$?
[[ $status == 1 ]] || fail "a missing model gives exit status $status, expected 1"
grep -qF no-such-model "$work/error" || fail "the error does not name the model: $(cat "$work/error")"
