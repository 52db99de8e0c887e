#!/usr/bin/env bash
# Everything that can be tested, from a fresh checkout: set-up, builds, all tests.
#
#   scripts/test.sh            release, sanitizers, arm64 under qemu, fuzzing (60 s a target)
#   scripts/test.sh --quick    the release build's tests only
#
# KVASIR_FUZZ_SECONDS sets the time for each fuzz target.
set -euo pipefail
cd "$(dirname "$0")/.."

quick=0
case "${1:-}" in
  "") ;;
  --quick) quick=1 ;;
  -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "usage: scripts/test.sh [--quick]" >&2; exit 2 ;;
esac

scripts/setup.sh --tests
jobs=$(nproc)
passed=0 failed=0 skipped=0

step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

# build PRESET: configures and builds a preset, quietly unless it fails.
build() {
  step "build $1"
  local log=build/$1.log
  mkdir -p build
  if ! { cmake --preset "$1" && cmake --build --preset "$1" -j "$jobs"; } >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "build of preset $1 failed; the whole log is $log"
    exit 1
  fi
}

# run_tests PRESET [ctest options]: adds ctest's counts to ours; goes on after failures so that all are seen.
run_tests() {
  step "tests $1"
  local log=build/$1-tests.log preset=$1
  shift
  ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --no-tests=error "$@" 2>&1 | tee "$log" |
    grep -vE '^ *(Start +[0-9]|[0-9]+/[0-9]+ Test .* Passed )' || true
  local line of bad
  line=$(grep -E 'tests passed, [0-9]+ tests failed out of [0-9]+' "$log") || { echo "ctest did not finish"; exit 1; }
  of=${line##* } bad=$(sed -E 's/.* ([0-9]+) tests failed.*/\1/' <<<"$line")
  passed=$((passed + of - bad)) failed=$((failed + bad))
  skipped=$((skipped + $(grep -cE '\*\*\*Skipped' "$log" || true)))
}

step "format"
git ls-files '*.cpp' '*.h' | xargs clang-format --dry-run -Werror

build release
run_tests release
if [ $quick = 0 ]; then
  build asan
  run_tests asan
  build arm64
  run_tests arm64
  step "fuzzing"
  if scripts/fuzz.sh "${KVASIR_FUZZ_SECONDS:-60}"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
fi

step "done"
passed=$((passed - skipped))
if [ $skipped = 0 ]; then echo "$passed passed, $failed failed"; else echo "$passed passed, $failed failed, $skipped skipped"; fi
[ $failed = 0 ]
