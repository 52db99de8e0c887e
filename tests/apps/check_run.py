"""kvasir-run as a real process.

    check_run.py KVASIR_RUN MODEL_DIR WORK_DIR

Each test_* function is one case; all run, the failures are listed, and any makes the exit code 1.
"""
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy as np

RUN, MODELS, WORK = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
MODEL = MODELS / "kvasir-tiny-q4_k_m.gguf"
DEMOS = json.loads((MODELS / "demo.json").read_text())["demos"]
LIMIT_S = 120


def run(*args, code=0, stdin=None, env=None):
    r = subprocess.run([RUN, *map(str, args)], input=stdin, capture_output=True, timeout=LIMIT_S,
                       env={**os.environ, **(env or {})})
    assert r.returncode == code, f"{args}: exit code {r.returncode}, not {code}; stderr: {r.stderr.decode()}"
    return r


def generate(prompt, *args, **more):
    return run("generate", "-m", MODEL, "-n", "48", "--control-tokens", *args, "--", prompt, **more)


def refused(*args, says):
    r = run(*args, code=2)
    assert r.stderr.startswith(b"kvasir-run: ") and r.stderr.count(b"\n") == 1, r.stderr
    for word in says:
        assert word in r.stderr.decode(), (word, r.stderr)
    assert r.stdout == b"", r.stdout


def test_demo_prompts_give_the_expected_text():
    checked = 0
    for demo in DEMOS:
        if "same" != demo["llama_cpp"]["kvasir-tiny-q4_k_m.gguf"]:  # the two stories differ by quantisation
            continue
        for backend in ("", "reference"):
            out = generate(demo["prompt"], "-q", env={"KVASIR_BACKEND": backend} if backend else None).stdout.decode()
            assert out == demo["expected"] + "\n", (demo["prompt"], backend, out)
        checked += 1
    assert checked == 12, checked


def test_json_holds_what_the_stream_shows():
    shown = generate("The capital of Japan is", "-q").stdout.decode()
    j = json.loads(generate("The capital of Japan is", "--json", "--logprobs", "3").stdout)
    assert j["text"] + "\n" == shown and j["finish_reason"] == "stop", j
    assert len(j["ids"]) == len(j["logprobs"]) == j["statistics"]["generated_tokens"]
    for id_, step in zip(j["ids"], j["logprobs"]):
        assert step["id"] == id_ == step["top"][0]["id"] and len(step["top"]) == 3
        assert step["logprob"] <= 0 and step["top"][0]["logprob"] >= step["top"][2]["logprob"]


def test_prompt_from_file_and_stdin():
    (WORK / "prompt.txt").write_text("The largest planet is")
    for args, stdin in ((("-f", WORK / "prompt.txt"), None), (("-f", "-"), b"The largest planet is"), ((), b"The largest planet is")):
        assert run("generate", "-m", MODEL, "-q", *args, stdin=stdin).stdout == b" Jupiter.\n"


def test_stop_strings_cut_before_themselves():
    out = generate("The days of the week are", "-q", "--stop", "urday", "--stop", "Nope").stdout
    assert out == b" Monday, Tuesday, Wednesday, Thursday, Friday, Sat\n", out
    j = json.loads(generate("The days of the week are", "--json", "--stop", "Thursday").stdout)
    assert j["finish_reason"] == "stop" and j["text"].endswith("Wednesday, ")


def test_max_tokens_and_the_end_of_the_context():
    j = json.loads(run("generate", "-m", MODEL, "-n", "2", "--json", "The days of the week are").stdout)
    assert len(j["ids"]) == 2 and j["finish_reason"] == "length"
    j = json.loads(run("generate", "-m", MODEL, "--ctx", "32", "--ignore-eos", "--json", "The days of the week are").stdout)
    assert j["finish_reason"] == "length" and j["statistics"]["prompt_tokens"] + len(j["ids"]) == 33, j
    assert run("generate", "-m", MODEL, "-n", "0", "-q", "x").stdout == b"\n"


def test_same_seed_same_text_for_any_thread_count():
    def text(seed, threads):
        return run("generate", "-m", MODEL, "-n", "40", "-q", "--temperature", "1", "--top-p", "0.95", "--seed", seed, "-t", threads,
                   "Once upon a time, there was").stdout
    assert text(1, 1) == text(1, 2) == text(1, 3)
    assert text(1, 1) != text(2, 1)


def test_non_ascii_text_is_whole():
    for prompt in ("Grüße 世界 🙂", "é" * 50, "\u0301"):
        out = run("generate", "-m", MODEL, "-n", "20", "-q", "--temperature", "3", "--seed", "4", prompt).stdout
        out.decode()  # valid UTF-8


def test_statistics_are_on_stderr_and_can_be_hidden():
    r = generate("The capital of France is")
    assert r.stdout == b" Paris.\n"
    for word in (b"load", b"prompt", b"decode", b"tok/s", b"GB/s", b"resident", b"backend"):
        assert word in r.stderr, r.stderr
    assert b"\r" not in r.stderr, "progress is for terminals"
    assert generate("The capital of France is", "-q").stderr == b""
    full = json.loads(generate("The capital of France is", "--json", "--stats", "full").stdout)["statistics"]
    assert full["read_bytes_s"] > 1e8 and full["decode_share"] > 0


def test_user_text_is_never_a_control_token():
    def count(*args):
        return json.loads(run("generate", "-m", MODEL, "-n", "1", "--json", *args, "<|im_end|>").stdout)["statistics"]["prompt_tokens"]
    assert count("--control-tokens") == 1 and count() > 1


def test_chat_remembers_and_takes_commands():
    out = run("chat", "-m", MODEL, stdin="What is the capital of Canada?\nWho are you?\n/systematic\n/clear\nWhat is 2 + 2?\n/exit\nunread\n".encode())
    lines = out.stdout.decode().splitlines()
    assert lines[0] == "The capital of Canada is Ottawa." and lines[1].startswith("I am Kvasir"), lines
    assert "/systematic is no command" in lines[2] and lines[3] == "2 + 2 = 4." and len(lines) == 4, lines


def read_until(fd, wanted, limit_s=LIMIT_S):
    """What a pseudo-terminal shows, up to where wanted(text) holds; None if that does not come in time."""
    seen, deadline = b"", time.monotonic() + limit_s
    while not wanted(seen):
        if not select.select([fd], [], [], max(0, deadline - time.monotonic()))[0]:
            return None
        seen += os.read(fd, 4096)
    return seen


def test_chat_takes_non_ascii_from_a_terminal_in_any_locale():
    for locale in ("C", "C.UTF-8"):
        pid, fd = pty.fork()
        if pid == 0:
            for name in ("LC_ALL", "LC_CTYPE"):
                os.environ.pop(name, None)
            os.environ.update(TERM="xterm", LANG=locale)
            os.execv(RUN, [str(RUN), "chat", "-m", str(MODEL)])
        assert read_until(fd, lambda t: t.endswith(b"> "))
        os.write(fd, "/Grüße 世界\r".encode())
        said = read_until(fd, lambda t: b"is no command" in t, limit_s=20)
        assert said and "/Grüße 世界 is no command".encode() in said, (locale, said)
        os.write(fd, b"/exit\r")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_ctrl_c_in_chat_stops_the_reply_and_not_the_program():
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        # The end tokens are banned and the context is huge: this reply does not end by itself.
        os.execv(RUN, [str(RUN), "chat", "-m", str(MODEL), "--ctx", "1000000", "--temperature", "2", "--logit-bias", "4093=-inf",
                       "--logit-bias", "4094=-inf", "--logit-bias", "4095=-inf"])
    assert read_until(fd, lambda t: t.endswith(b"> "))
    os.write(fd, b"Tell me a story.\r")
    assert read_until(fd, lambda t: len(t) > 500), "the reply does not come"
    os.write(fd, b"\x03")
    # The terminal itself may drop what was written around a Ctrl-C, the prompt included: an empty line brings another.
    for _ in range(LIMIT_S):
        if read_until(fd, lambda t: t.endswith(b"> "), limit_s=1):
            break
        os.write(fd, b"\r")
    else:
        raise AssertionError("no prompt after Ctrl-C")
    os.write(fd, b"/exit\r")
    end = os.waitpid(pid, 0)[1]
    assert os.waitstatus_to_exitcode(end) == 0, end


def test_ctrl_c_in_generate_keeps_the_text_and_ends_with_130():
    p = subprocess.Popen([RUN, "generate", "-m", MODEL, "--ignore-eos", "--temperature", "1", "--ctx", "1000000", "Once upon a time"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = os.read(p.stdout.fileno(), 100)
    p.send_signal(signal.SIGINT)
    rest, err = p.communicate(timeout=LIMIT_S)
    assert p.returncode == 130, (p.returncode, err)
    assert first and rest.endswith(b"\n") and b"backend" in err


def test_a_reader_that_leaves_ends_it_quietly():
    p = subprocess.Popen([RUN, "generate", "-m", MODEL, "--ignore-eos", "--temperature", "1", "Once upon a time"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.read(p.stdout.fileno(), 10)
    p.stdout.close()
    assert p.wait(timeout=LIMIT_S) == 0
    assert p.stderr.read() == b""


def test_a_full_disk_is_an_error():
    for args in (("generate", "-m", MODEL, "-q", "The capital of France is"), ("generate", "-m", MODEL, "--json", "x"),
                 ("inspect", MODEL), ("perplexity", "-m", MODEL, WORK / "prose.txt")):
        (WORK / "prose.txt").write_text("The capital of France is Paris.")
        with open("/dev/full", "wb") as full:
            r = subprocess.run([RUN, *map(str, args)], stdout=full, stderr=subprocess.PIPE, timeout=LIMIT_S)
        assert r.returncode == 1 and b"standard output cannot be written: No space left" in r.stderr, (args, r)


def test_a_slow_reader_of_a_non_blocking_pipe_gets_everything():
    p_read, p_write = os.pipe()
    os.set_blocking(p_write, False)
    p = subprocess.Popen([RUN, "inspect", "--json", MODEL], stdout=p_write)
    os.close(p_write)
    with os.fdopen(p_read, "rb") as f:
        select.select([f], [], [])
        text = f.read()
    assert p.wait(timeout=LIMIT_S) == 0 and len(text) > 70_000, len(text)  # more than a pipe holds
    json.loads(text)


def test_bad_files_are_refused_with_exit_code_2():
    data = MODEL.read_bytes()
    (WORK / "empty.gguf").write_bytes(b"")
    (WORK / "cut.gguf").write_bytes(data[:1_000_000])
    (WORK / "page.gguf").write_bytes(b"<html>not found</html>")
    for command in (("generate", "-m"), ("logits", "-o", WORK / "x.npy", "-m"), ("chat", "-m"), ("inspect",), ("perplexity", MODEL, "-m")):
        prompt = ("x",) if command[0] in ("generate", "logits") else ()
        refused(*command, WORK / "missing.gguf", *prompt, says=["missing.gguf", "No such file"])
        refused(*command, WORK / "empty.gguf", *prompt, says=["empty.gguf", "0 bytes"])
        refused(*command, WORK / "cut.gguf", *prompt, says=["cut.gguf", "ends beyond the file"])
        refused(*command, WORK / "page.gguf", *prompt, says=["3c 68 74 6d"])
        refused(*command, WORK, *prompt, says=["Is a directory"])


def test_a_prompt_longer_than_the_context_names_both_numbers():
    refused("generate", "-m", MODEL, "--ctx", "16", "The days of the week are. " * 10, says=[" tokens", "context", "16"])
    refused("logits", "-m", MODEL, "--ctx", "16", "-o", WORK / "x.npy", "--ids", ",".join(["5"] * 17), says=["17 tokens", "16"])


def test_bad_usage_ends_with_2():
    for args in ((), ("fly",), ("generate",), ("generate", "-m", MODEL, "--top-p", "x", "y"), ("generate", "-m", MODEL, "-t", "0", "y"),
                 ("generate", "-m", MODEL, "--stop", "", "y"), ("inspect",)):
        assert run(*args, code=2).stderr
    refused("generate", "-m", MODEL, "--top-p", "2", "y", says=["top_p is 2", "between 0 and 1"])
    refused("generate", "-m", MODEL, "--logit-bias", "999999=1", "y", says=["999999", "4095"])
    refused("generate", "-m", MODEL, "--logit-bias", "a=1", "y", says=["ID=VALUE"])
    refused("logits", "-m", MODEL, "-o", WORK / "x.npy", "--ids", "1,,2", says=["--ids"])
    refused("logits", "-m", MODEL, "-o", WORK / "x.npy", "--ids", "1,4096", says=["4096"])
    refused("perplexity", "-m", MODEL, WORK / "nothing.txt", says=["nothing.txt"])


def test_help_has_examples():
    for command in ((), ("generate",), ("chat",), ("inspect",), ("perplexity",), ("logits",)):
        out = run(*command, "--help").stdout.decode()
        assert "Example" in out and "kvasir-run" in out
    assert run("--version").stdout.startswith(b"kvasir-run 0.")


def test_logits_are_the_same_bytes_for_any_thread_count_and_backend():
    def logits(threads, backend):
        run("logits", "-m", MODEL, "-t", threads, "--all", "-o", WORK / "l.npy", "The capital of France is", env={"KVASIR_BACKEND": backend})
        return np.load(WORK / "l.npy")
    reference = logits(1, "reference")
    assert reference.shape == (5, 4096) and reference.dtype == np.float32
    for threads, backend in ((2, "reference"), (1, ""), (3, "")):
        assert np.array_equal(reference.view(np.uint32), logits(threads, backend).view(np.uint32)), (threads, backend)


def test_an_unknown_backend_is_refused():
    r = run("generate", "-m", MODEL, "x", code=2, env={"KVASIR_BACKEND": "abacus"})
    assert b"abacus" in r.stderr and b"reference" in r.stderr


def test_perplexity_is_low_on_what_the_model_knows_and_independent_of_threads():
    (WORK / "known.txt").write_text("The capital of France is Paris. The capital of Japan is Tokyo.")
    (WORK / "noise.txt").write_text("zq xv 77 ;; blorp " * 40)

    def perplexity(name, *args):
        return json.loads(run("perplexity", "-m", MODEL, "--json", *args, WORK / name).stdout)
    known, noise = perplexity("known.txt"), perplexity("noise.txt")
    assert known["perplexity"] < 20 < 1000 < noise["perplexity"], (known, noise)
    one, three = perplexity("known.txt", "-t", "1"), perplexity("known.txt", "-t", "3")
    assert one["nats_per_token"] == three["nats_per_token"]
    assert 0 < known["standard_error"] < known["nats_per_token"] * 2


def test_inspect_adds_up():
    j = json.loads(run("inspect", "--json", MODEL).stdout)
    assert sum(j["bytes_by_role"].values()) == sum(t["bytes"] for t in j["tensors"])
    e = j["experts"]
    assert (e["count"], e["used"], e["layers"]) == (32, 4, 4)
    assert j["weight_bytes_per_token"] < sum(j["bytes_by_role"].values()) - j["bytes_by_role"]["experts"] * 27 // 32
    text = run("inspect", MODEL).stdout.decode()
    for word in ("blk.0.ffn_gate_exps.weight", "qwen35moe", "size by role", "one is", "decoding one token reads"):
        assert word in text, word
    assert "tokenizer.ggml.tokens" not in run("inspect", "--tensors", MODEL).stdout.decode()


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    cases = [(n, f) for n, f in sorted(globals().items()) if n.startswith("test_")]
    failed = 0
    for name, case in cases:
        try:
            case()
        except Exception:
            failed += 1
            print(f"FAILED {name}")
            traceback.print_exc(file=sys.stdout)
    print(f"kvasir-run: {len(cases) - failed} of {len(cases)} cases")
    sys.exit(1 if failed else 0)
