"""Makes the F16 GGUF file of a nano model:  make_f16.py FOLDER OUT.gguf

FOLDER holds config.json, tokenizer*.json and model.safetensors or model.safetensors.xz (the weights do not compress
well, but the repository stays small). The conversion itself is models/kvasir-tiny/making/to_gguf.py.
"""
import lzma
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../models/kvasir-tiny/making"))
import to_gguf


def main(folder, out):
    with tempfile.TemporaryDirectory() as work:
        for name in os.listdir(folder):
            if name.endswith(".json"):
                shutil.copy(os.path.join(folder, name), work)
        plain = os.path.join(folder, "model.safetensors")
        if os.path.exists(plain):
            os.symlink(os.path.abspath(plain), os.path.join(work, "model.safetensors"))
        else:
            with lzma.open(plain + ".xz") as packed, open(os.path.join(work, "model.safetensors"), "wb") as f:
                shutil.copyfileobj(packed, f)
        to_gguf.convert(work, os.path.abspath(out), "f16")


main(*sys.argv[1:3])
