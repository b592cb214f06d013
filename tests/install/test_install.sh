#!/usr/bin/env bash
# test_install.sh BUILD: installs the build under a temporary DESTDIR, then builds and runs programs against it, through
# pkg-config and through the CMake package, and runs the installed programs from another folder.
set -euo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "install: $*" >&2
  exit 1
}

DESTDIR=$work/root cmake --install "$build" --prefix /opt/moemark > "$work/log" || { cat "$work/log"; fail "cmake --install"; }
root=$work/root/opt/moemark
cd "$work" # nothing may be found through the current folder

echo "== pkg-config"
pc=$(dirname "$(find "$root" -name moemark.pc)")
[ -n "$pc" ] || fail "no moemark.pc"
for word in Wall Werror fsanitize; do
  ! PKG_CONFIG_PATH=$pc pkg-config --cflags --libs moemark | grep -q -- "-$word" || fail "the build's own flag -$word leaks out"
done
# shellcheck disable=SC2046 # flags are words on purpose
"${CC:-cc}" -std=c11 -Wall -Werror "$here/consumer/consumer.c" -o by_pkg_config $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs moemark)
./by_pkg_config || fail "the program built through pkg-config fails"

echo "== CMake package"
mkdir project
cp "$here"/consumer/consumer.* project/
cp "$here/consumer/project.cmake" project/CMakeLists.txt
cmake -S project -B project/build -G Ninja -DCMAKE_PREFIX_PATH="$root" > log || { cat log; fail "find_package(moemark)"; }
cmake --build project/build > log || { cat log; fail "building against the package"; }
project/build/consumer_c || fail "the C program built through the package fails"
project/build/consumer_cpp || fail "the C++ program built through the package fails"

echo "== programs"
"$root/bin/moemark" list studies > studies || fail "moemark list studies"
for study in "$here"/../../experiments/*/study.yaml; do
  name=$(basename "$(dirname "$study")")
  grep -q "$name" studies || { cat studies; fail "moemark list studies does not know $name"; }
done
grep -qF "$root/" studies || { cat studies; fail "the installed program does not use the installed data"; }
for study in "$root"/share/moemark/experiments/*/study.yaml; do
  "$root/bin/moemark" check "$study" > log 2>&1 || { cat log; fail "moemark check $study"; }
done
"$root/bin/moemark-trainer" --keys > keys && grep -q '^ranks ' keys || fail "moemark-trainer --keys"
"$root/bin/moemark-golden" --help > help && grep -q golden help || fail "moemark-golden --help"
echo "install: passed"
