#!/usr/bin/env bash
# Installs the Debian packages of tests/packages.txt that are missing, and says so. Sourced by quickstart.sh and
# tests/run.sh. Elsewhere than on Debian 12 it names what is missing and stops.
set -euo pipefail

moemark_missing_packages() {
  local list=$1 name
  grep -v '^#' "$list" | while read -r name; do
    [ -n "$name" ] || continue
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || echo "$name"
  done
}

moemark_install_packages() {
  local list=$1 missing
  if ! command -v dpkg-query > /dev/null; then
    echo "moemark: this is not a Debian system; please install the equivalents of:" >&2
    grep -v '^#' "$list" | tr '\n' ' ' >&2
    echo >&2
    command -v cmake > /dev/null && command -v mpirun > /dev/null && return 0
    return 2
  fi
  missing=$(moemark_missing_packages "$list" | tr '\n' ' ')
  [ -n "${missing// /}" ] || return 0
  echo "moemark: installing Debian packages: $missing"
  local sudo=""
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo > /dev/null; then
      echo "moemark: error: not root and no sudo; run as root: apt-get install -y $missing" >&2
      return 2
    fi
    sudo=sudo
  fi
  # shellcheck disable=SC2086 # the list is words on purpose
  if ! { $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing > /dev/null; }; then
    echo "moemark: error: apt-get could not install: $missing" >&2
    return 2
  fi
}
