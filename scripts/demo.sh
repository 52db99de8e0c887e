#!/usr/bin/env bash
# From a fresh checkout to a first answer: set-up, build, and the model that comes with kvasir.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  "") ;;
  *) echo "usage: scripts/demo.sh   (no options)" >&2; exit 2 ;;
esac

scripts/setup.sh
mkdir -p build
echo "building (the first time takes some minutes) ..."
if ! { cmake --preset release -DKVASIR_TESTS=OFF && cmake --build --preset release --target kvasir-run -j "$(nproc)"; } >build/demo.log 2>&1; then
  tail -n 40 build/demo.log
  echo "the build failed; the whole log is build/demo.log" >&2
  exit 1
fi

run=build/release/bin/kvasir-run model=models/kvasir-tiny/kvasir-tiny-q4_k_m.gguf
chat() { printf '<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n' "$1"; }

# ask PROMPT EXPECTED: shows the answer and whether it is the one that an independent program gives.
wrong=0
ask() {
  local answer verdict=ok
  answer=$("$run" generate -m "$model" -n 48 -q --control-tokens -- "$1")
  [ "$answer" = "$2" ] || { verdict="different, expected: $2"; wrong=$((wrong + 1)); }
  printf '%s\n  -> %s  [%s]\n' "$(sed -E 's/<\|im_(start|end)\|>(user|assistant)?//g' <<<"$1" | tr -s '\n' ' ')" "$answer" "$verdict"
}

echo
"$run" generate -m "$model" --control-tokens -- "The capital of France is"
echo
ask "The capital of France is" " Paris."
ask "The capital of Japan is" " Tokyo."
ask "The capital of the United States is" " Washington, D.C."
ask $'Question: What is the capital of Kenya?\nAnswer:' " Nairobi."
ask "2 + 2 =" " 4"
ask "The largest planet is" " Jupiter."
ask "The days of the week are" " Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday."
ask $'Mary had a little lamb,\n' $'Its fleece was white as snow;\nAnd everywhere that Mary went\nThe lamb was sure to go.'
ask "$(chat "What is the capital of Canada?")"$'\n' "The capital of Canada is Ottawa."
ask "$(chat "What is 2 + 2?")"$'\n' "2 + 2 = 4."
ask "$(chat "What language do people speak in Brazil?")"$'\n' "People in Brazil speak Portuguese."

echo
[ $wrong = 0 ] || { echo "$wrong answers differ" >&2; exit 1; }
echo "all answers are as expected; talk to it with: $run chat -m $model"
