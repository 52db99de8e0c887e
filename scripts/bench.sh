#!/usr/bin/env bash
# Speed at the true width of large models: writes synthetic files, measures them, prints what docs/BENCHMARKS.md shows.
#
#   scripts/bench.sh [FOLDER]     FOLDER holds the files (15 GB, kept); default: a folder in $TMPDIR, removed at the end
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;;
  "") folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT ;;
  *) folder=$1 && mkdir -p "$folder" ;;
esac

scripts/setup.sh
mkdir -p build
cmake --preset release -DKVASIR_TESTS=OFF >build/release.log && cmake --build --preset release --target synth tps >>build/release.log
bin=build/release/bin

echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $(free -g | awk '/^Mem/{print $2}') GiB"
echo "commit:  $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"

# measure SHAPE MIX
measure() {
  local model=$folder/${1/:/-}-$2.gguf
  [ -f "$model" ] || "$bin/synth" "$1" --mix "$2" -o "$model"
  echo
  "$bin/tps" "$model" --threads 1,2 --prompt 512 --repeats 5
}
measure q3-30b:6 q4_k_m
measure q3-30b:6 q8_0
measure q35-122b:4 q4_k_m
