#!/usr/bin/env bash
# The commit in --version follows the checkout: a new commit and an edit show at the next build, and an unchanged answer
# leaves the header untouched, so that nothing is recompiled. usage: git_commit_test.sh SOURCE_DIR CMAKE
set -euo pipefail
source_dir=$1 cmake=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
header=$work/commit.h

fail() { echo "git_commit_test: $*" >&2; exit 1; }
git_here() { git -C repo -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false "$@"; }
write() { "$cmake" -DSOURCE_DIR="$work/repo" -DOUTPUT="$header" -P "$source_dir/cmake/WriteGitCommit.cmake"; }
expect() { grep -qF "PLUMB_GIT_COMMIT \"$1\"" "$header" || fail "$2: expected $1, header says: $(cat "$header")"; }

mkdir repo
export GIT_CEILING_DIRECTORIES=$work  # a temporary folder inside some checkout must not be taken for a part of it
write
expect unknown "outside a checkout"

git init -q repo
echo one >repo/file
git_here add file
git_here commit -q -m one
write
first=$(git_here rev-parse --short=12 HEAD)
expect "$first" "after a commit"

touch -d '2001-01-01' "$header"
write
[[ $(stat -c %Y "$header") == $(date -d '2001-01-01' +%s) ]] || fail "the header is rewritten though nothing changed"

echo two >repo/file
write
expect "$first-dirty" "after an edit"

git_here commit -q -a -m two
write
expect "$(git_here rev-parse --short=12 HEAD)" "after a second commit"
echo "git_commit_test: ok"
