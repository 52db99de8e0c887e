#!/usr/bin/env bash
# Installs the Debian packages that kvasir is built and tested with. Does nothing where they are present.
#
#   scripts/setup.sh           what building and running needs
#   scripts/setup.sh --tests   that, and what scripts/test.sh needs besides
set -euo pipefail

build=(g++ cmake ninja-build pkg-config libcli11-dev libexpected-dev libfmt-dev nlohmann-json3-dev libutf8proc-dev
       libedit-dev libboost-dev libssl-dev libxxhash-dev)
tests=(catch2 clang clang-format libclang-rt-14-dev libpcre2-dev python3 python3-numpy npm g++-aarch64-linux-gnu libc6-dev-arm64-cross
       qemu-user git)

usage="usage: scripts/setup.sh [--tests]"
wanted=("${build[@]}")
case "${1:-}" in
  "") ;;
  --tests) wanted+=("${tests[@]}") ;;
  -h | --help) echo "$usage"; exit 0 ;;
  *) echo "$usage" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is no Debian system; install by hand what corresponds to: ${wanted[*]}" >&2
  exit 1
fi

# A package counts as present if it is installed, or if the command that it is wanted for came from somewhere else.
present() {
  case "$1" in
    npm | git | cmake | clang | clang-format) command -v "$1" >/dev/null && return 0 ;;
  esac
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
for package in "${wanted[@]}"; do present "$package" || missing+=("$package"); done
if [ ${#missing[@]} = 0 ]; then
  echo "setup: all ${#wanted[@]} packages are there"
  exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "setup: run as root, or install sudo; missing: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=580 "$@"; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "setup: apt-get failed (its last lines are above)" >&2
  exit 1
fi
