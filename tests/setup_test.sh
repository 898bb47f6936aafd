#!/usr/bin/env bash
# tools/setup asks the system what is there and installs exactly the rest: nothing twice, through sudo when not root.
# The package manager is a stand-in that keeps its "installed" list in a file. usage: setup_test.sh SOURCE_DIR
set -euo pipefail
setup=$1/tools/setup
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
installed=$work/installed calls=$work/calls

fail() { echo "setup_test: $*" >&2; exit 1; }
stand_in() { printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1"; chmod +x "$work/bin/$1"; }
# shellcheck disable=SC2016  # the stand-ins expand these
{
  stand_in dpkg-query 'grep -qxF -- "${!#}" "$INSTALLED" && printf installed || exit 1'
  stand_in apt-get 'echo "apt-get $*" >>"$CALLS"
    [[ $1 == install ]] || exit 0
    for word in "${@:2}"; do [[ $word == -* ]] || echo "$word" >>"$INSTALLED"; done'
  stand_in sudo 'echo "sudo $1" >>"$CALLS"; exec "$@"'
  stand_in id '[[ $1 == -u ]] && echo "$FAKE_UID"'
}
run() { PATH=$work/bin:$PATH INSTALLED=$installed CALLS=$calls FAKE_UID=$uid "$setup" "$@" >"$work/out" 2>&1; }
reset() { "$setup" --list | grep -vxF -e libpcre2-dev -e ninja-build >"$installed"; : >"$calls"; }

uid=0
reset
if run --check; then fail "--check passes with two packages missing"; fi
grep -q 'missing: ninja-build libpcre2-dev' "$work/out" || fail "--check says: $(cat "$work/out")"
[[ ! -s $calls ]] || fail "--check called: $(cat "$calls")"

run || fail "as root: $(cat "$work/out")"
grep -q '^apt-get update' "$calls" || fail "no update before the install: $(cat "$calls")"
grep -qE '^apt-get install .* ninja-build libpcre2-dev$' "$calls" || fail "installed something else: $(cat "$calls")"
if grep -q '^sudo' "$calls"; then fail "root needs no sudo"; fi

: >"$calls"
run || fail "a second run: $(cat "$work/out")"
[[ ! -s $calls ]] || fail "a second run called: $(cat "$calls")"

uid=1000
reset
run || fail "not as root: $(cat "$work/out")"
[[ $(grep -c '^sudo' "$calls") == 2 ]] || fail "not root: update and install go through sudo, but: $(cat "$calls")"

status=0
run --nonsense || status=$?
[[ $status == 2 ]] || fail "an unknown option gives exit status $status, expected 2"
echo "setup_test: ok"
