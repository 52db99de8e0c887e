"""Runs synth and tps on tiny models: the files load, the figures are there and sane, regressions are told by exit code 1.

    check_bench.py BIN_DIR WORK_DIR
"""
import json
import subprocess
import sys
from pathlib import Path

programs, work = Path(sys.argv[1]), Path(sys.argv[2])


def run(program, *args, code=0):
    r = subprocess.run([programs / program, *map(str, args)], capture_output=True, text=True, timeout=300)
    assert r.returncode == code, f"{program} {args} ended with {r.returncode}, not {code}: {r.stderr}"
    return r


for shape in ("q35-tiny:4", "q3-tiny:2"):
    for mix in ("q4_k_m", "q8_0"):
        model = work / f"{shape.replace(':', '-')}-{mix}.gguf"
        run("synth", shape, "-o", model, "--mix", mix)
        options = [model, "-t", "1,2", "-p", "24", "-b", "1,3", "-n", "3", "-r", "2"]
        report = json.loads(run("tps", *options, "--json").stdout)
        assert len(report["results"]) == 4, report
        hashes = {}
        for m in report["results"]:
            assert m["decode_tok_s"]["min"] > 0 and m["prefill_tok_s"]["min"] > 0 and m["read_bytes_s"]["min"] > 1e8, m
            assert 0 < m["bytes_per_step"] < model.stat().st_size, m
            hashes.setdefault(m["sequences"], set()).add(m["logits_hash"])
        assert all(len(h) == 1 for h in hashes.values()), f"logits depend on the thread count: {hashes}"

        baseline = work / "baseline.json"
        baseline.write_text(json.dumps(report))
        run("tps", *options, "--baseline", baseline, "--max-regression", "1")
        for m in report["results"]:
            m["prefill_tok_s"]["median"] *= 1000
        baseline.write_text(json.dumps(report))
        assert "REGRESSION" in run("tps", *options, "--baseline", baseline, code=1).stderr
        model.unlink()

(work / "not.gguf").write_text("<html>")
run("tps", work / "not.gguf", code=2)
assert "q3-30b" in run("synth", "q4-1t:3", "-o", work / "x.gguf", code=2).stderr
assert "1 to 48" in run("synth", "q3-30b:49", "-o", work / "x.gguf", code=2).stderr
print("synth and tps: 4 tiny models, 16 settings")
