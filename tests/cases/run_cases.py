"""Gives generated inputs to the real programs and judges what they do.

    run_cases.py --program BIN_DIR --work DIR [--sanitized] CLASS...

reject: exit code 2 and one line on stderr, within a second and 100 MB. accept: exit code 0. either: one of the two.
Class GG is read by `kvasir-run inspect`. The classes MO, HY, SA and TK hold vectors, which test_engine, test_sampler and
test_tokenizer compare.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "gen"))
import ggufkit  # noqa: E402

CASES = {"GG": [f"GG-{i:02}" for i in range(1, 12)]}


def run(command, limit_s):
    """Exit code, stderr, seconds, peak resident bytes."""
    start = time.monotonic()
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, err = p.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        p.kill()
        p.communicate()
        return None, b"", limit_s
    return p.returncode, err, time.monotonic() - start


def peak_bytes(command):
    """The peak resident size of one more run: a child of a child, so that wait4 counts it alone."""
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.execv(command[0], command)
    return os.wait4(pid, 0)[2].ru_maxrss * 1024


def fault(command, expect, sanitized):
    """What is wrong, or None. Sanitizers slow a program and map much memory: they get ten times the time, and memory
    is not judged."""
    limit_s = 10 if sanitized else 1
    code, err, seconds = run(command, limit_s * 5)
    if code is None or seconds > limit_s:
        return f"took more than {limit_s} s"
    if code not in {"reject": (2,), "accept": (0,), "either": (0, 2)}[expect]:
        return f"exit code {code}, {expect} is expected; stderr: {err.decode(errors='replace')}"
    if code == 2 and not (err.startswith(b"kvasir-run: ") and err.count(b"\n") == 1 and len(err) > 30):
        return f"no clear message: {err!r}"
    if not sanitized and peak_bytes(command) > 100e6:
        return f"resident: {peak_bytes(command)} bytes"
    return None


# An architecture that only inspect knows, with what roles its tensors have: a dense layer with fused attention, a layer
# of experts with biases, and a recurrent one.
ROLES = {"token_embd.weight": ("embedding", (32, 64)), "output.weight": ("head", (32, 64)),
         "output_norm.weight": ("norms", (32,)), "rope_freqs.weight": ("other", (32,)),
         "blk.0.attn_qkv.weight": ("attention", (32, 96)), "blk.0.attn_sinks.weight": ("attention", (8,)),
         "blk.0.ffn_up.weight": ("feed forward", (32, 40)), "blk.1.ffn_gate_up_exps.weight": ("experts", (32, 16, 8)),
         "blk.1.ffn_down_exps.weight": ("experts", (8, 32, 8)), "blk.1.ffn_down_exps.bias": ("experts", (32, 8)),
         "blk.1.ffn_gate_inp.weight": ("router", (32, 8)), "blk.1.exp_probs_b.bias": ("router", (8,)),
         "blk.2.attn_qkv.weight": ("delta net", (32, 96)), "blk.2.attn_gate.weight": ("delta net", (32, 32)),
         "blk.2.ssm_a": ("delta net", (8,)), "blk.2.ssm_norm.weight": ("norms", (8,)),
         "blk.2.ffn_up_shexp.weight": ("shared expert", (32, 16))}


def roles_fault(program, path):
    """What `inspect` says wrongly of such a file, or None."""
    g = ggufkit.Gguf()
    g.add("general.architecture", ggufkit.STR, "gpt-oss")
    g.add("gpt-oss.expert_count", ggufkit.U32, 8)
    g.add("gpt-oss.expert_used_count", ggufkit.U32, 2)
    expected, read = {}, 32 * 4  # one row of the embedding
    for name, (role, dims) in ROLES.items():
        g.tensor(name, dims)
        n_bytes = 4 * math.prod(dims)
        expected[role] = expected.get(role, 0) + n_bytes
        read += {"embedding": 0, "experts": n_bytes // 8 * 2}.get(role, n_bytes)
    path.write_bytes(g.build())
    ran = subprocess.run([program, "inspect", "--json", path], capture_output=True)
    if ran.returncode != 0:
        return ran.stderr
    out = json.loads(ran.stdout)
    found = {role: n for role, n in out["bytes_by_role"].items() if n}
    one = (32 * 16 + 8 * 32 + 32) * 4
    if found != expected or out["weight_bytes_per_token"] != read or out["experts"]["min_bytes"] != one:
        return f"{found}, {out['weight_bytes_per_token']}, {out['experts']}; {expected}, {read}, {one} are expected"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, type=Path)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("classes", nargs="+", choices=sorted(CASES))
    args = parser.parse_args()
    program, bad = str(args.program / "kvasir-run"), 0
    for name in args.classes:
        root = args.work / name
        subprocess.run([sys.executable, "-B", HERE / "gen" / "gen_cases.py", root, *CASES[name]], check=True,
                       stdout=subprocess.DEVNULL)
        manifest = json.loads((root / "manifest.json").read_text())
        assert len(manifest) > 90, "the generator made too few inputs"
        n_good = 0
        for entry in manifest:
            path = root / entry["file"] if "file" in entry else root / entry["dir"] / entry["entry"]
            wrong = fault([program, "inspect", str(path)], entry["expect"], args.sanitized)
            n_good += wrong is None
            if wrong:
                print(f"{path.relative_to(root)} ({entry['why']}): {wrong}")
        bad += len(manifest) - n_good
        print(f"{name}: {n_good} of {len(manifest)} inputs")

    # MO-10: a whole file of an architecture that we do not know is called that, not damaged.
    good = args.work / "GG" / "GG-01" / "ok.gguf"
    code, err, _ = run([program, "generate", "-m", str(good), "x"], 10)
    if code != 2 or b"llama" not in err or b"qwen3moe" not in err:
        print(f"an unknown architecture: exit code {code}, {err!r}")
        bad += 1
    wrong = roles_fault(program, args.work / "roles.gguf")
    if wrong:
        print(f"inspect, sizes by role: {wrong}")
        bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
