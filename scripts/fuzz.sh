#!/usr/bin/env bash
# Fuzzes the parsers of foreign bytes (GGUF, tokenizer) with clang's libFuzzer and sanitizers.
#
#   scripts/fuzz.sh [SECONDS]    for each target; 60 by default. Corpora stay in build/fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
seconds=${1:-60}

mkdir -p build
if ! { cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_gguf fuzz_tokenizer -j "$(nproc)"; } >build/fuzz.log 2>&1; then
  tail -n 40 build/fuzz.log
  echo "fuzz: the build failed; the whole log is build/fuzz.log" >&2
  exit 1
fi

corpus=build/fuzz/corpus
mkdir -p $corpus/gguf $corpus/tokenizer $corpus/cases
# Seeds: the hostile files of the cases that are small, the tiny models, and the tokenizer's golden strings.
/usr/bin/python3 -B tests/cases/gen/gen_cases.py $corpus/cases GG-01 GG-03 GG-04 GG-06 GG-08 >/dev/null
find $corpus/cases tests/data/tinymoe -name '*.gguf' -size -120k -exec cp -n {} $corpus/gguf/ \;
/usr/bin/python3 - $corpus/tokenizer <<'PY'
import json, sys
from pathlib import Path
out = Path(sys.argv[1])
for i, line in enumerate(Path("tests/data/tokenizers/golden-llama3.jsonl").read_text().strip().split("\n")):
    entry = json.loads(line)
    text = bytes.fromhex(entry["hex"]) if "hex" in entry else entry.get("text", "").encode()
    if 0 < len(text) < 4000:
        (out / f"golden-{i}").write_bytes(bytes([i % 8, i % 6]) + text)
PY

# fuzz TARGET MAX_BYTES: one run; a finding is left in build/fuzz and its path printed.
status=0
fuzz() {
  local log=build/fuzz/$1.log
  echo "fuzz: $1 for ${seconds}s"
  if ! build/fuzz/bin/fuzz_"$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len="$2" \
    -artifact_prefix=build/fuzz/"$1"- -print_final_stats=1 $corpus/"$1" >"$log" 2>&1; then
    tail -n 40 "$log"
    status=1
  fi
  grep -E 'number_of_executed_units|new_units_added' "$log" || true
}
fuzz gguf 200000
fuzz tokenizer 4096
exit $status
