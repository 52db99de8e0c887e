#!/usr/bin/env python3
"""Writes the vocabulary of a byte-level BPE tokenizer.json as a GGUF file without tensors.

    vocab_to_gguf.py tokenizer.json OUT.gguf PRE      PRE: the name for tokenizer.ggml.pre, as qwen2
"""
import json
import struct
import sys

I32, BOOL, STRING, ARRAY = 5, 7, 8, 9
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    return string(key) + struct.pack("<I", kind) + value


def strings(values):
    return struct.pack("<IQ", STRING, len(values)) + b"".join(map(string, values))


def convert(tokenizer, pre):
    vocabulary, added = tokenizer["model"]["vocab"], tokenizer["added_tokens"]
    n_tokens = 1 + max([*vocabulary.values(), *(token["id"] for token in added)])
    texts = [f"[PAD{i}]" for i in range(n_tokens)]
    kinds = [UNUSED] * n_tokens
    for text, i in vocabulary.items():
        texts[i], kinds[i] = text, NORMAL
    for token in added:
        texts[token["id"]] = token["content"]
        kinds[token["id"]] = CONTROL if token["special"] else USER_DEFINED
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    entries = [
        entry("general.architecture", STRING, string("vocabulary")),
        entry("tokenizer.ggml.model", STRING, string("gpt2")),
        entry("tokenizer.ggml.pre", STRING, string(pre)),
        entry("tokenizer.ggml.tokens", ARRAY, strings(texts)),
        entry("tokenizer.ggml.token_type", ARRAY, struct.pack(f"<IQ{n_tokens}i", I32, n_tokens, *kinds)),
        entry("tokenizer.ggml.merges", ARRAY, strings(merges)),
        entry("tokenizer.ggml.add_bos_token", BOOL, b"\0"),
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)
    return head + bytes(-len(head) % 32)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        content = convert(json.load(file), sys.argv[3])
    with open(sys.argv[2], "wb") as file:
        file.write(content)
