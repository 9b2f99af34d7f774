#!/usr/bin/env python3
"""Measures other tokenizer programs on texts/mixed.txt, for the table "Tokenizing" of the documentation.

    FORGE_GOLDEN=DIR FORGE_WORK=DIR python3 tokenizer/_gen/programs.py [--venv DIR] [--reference DIR] [--processes 3]

FORGE_GOLDEN is the folder with tokenizer/texts/mixed.txt and tokenizer/FAMILY.json, FORGE_WORK the one with vocab/*.tokenizer.json and
vocab/*.gguf. The programs are installed into the venv, which is made if it is not there (without --venv: in a temporary folder).
--reference, or FORGE_REFERENCE, is a folder with libllama.so of llama.cpp 0.5.0; without it that row is left out.

The text is one string per call, special tokens are not parsed. A figure is MB (10^6 bytes) per second of CPU time of the process, which
is told to use one thread: warm is the median of the calls after the first, in brackets the first call, when caches are empty; both are
medians over several processes, each with one program and one vocabulary. "seconds to load" is from the file to a ready tokenizer. Below the table
stand the programs that did not install, did not load within a minute or gave other ids than FAMILY.json.

qwen35 is the tokenizer.json of Qwen3 without its NFC normaliser, with the pattern of Qwen3.5: what the GGUF says.
"""
import argparse, ctypes, hashlib, json, os, shutil, statistics, struct, subprocess, sys, tempfile, time

PACKAGES = {"tokenizers": "0.23.3", "tiktoken": "0.14.0", "kitoken": "0.11.1", "fastokens": "0.3.5", "gigatoken": "0.10.0"}
VOCABS = {"qwen35": "json-qwen3", "llama-bpe": "json-llama3", "gemma3": "json-gemma3"}
PATTERN_QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
                  r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LIMIT = 60  # seconds for one process


class Unsupported(Exception):
    pass


# Each loader takes a file and returns a function from the text (str) to something ids() understands.

def load_hf(path):
    import tokenizers
    t = tokenizers.Tokenizer.from_file(path)
    t.encode_special_tokens = True
    return lambda text: t.encode(text, add_special_tokens=False)


def load_hf_fast(path):
    import tokenizers
    t = tokenizers.Tokenizer.from_file(path)
    t.encode_special_tokens = True
    return lambda text: t.encode_batch_fast([text], add_special_tokens=False)[0]


def load_tiktoken(path):
    import tiktoken
    with open(path, encoding="utf-8") as f:
        d = json.load(f)
    if d["pre_tokenizer"]["type"] != "Sequence":
        raise Unsupported("not a byte-level vocabulary")
    # The byte alphabet: printable bytes stand for themselves, the others for U+0100 and up.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    byte_of = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
    ranks = {bytes(byte_of[c] for c in token): i for token, i in d["model"]["vocab"].items()}
    pattern = d["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    return tiktoken.Encoding("own", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}).encode_ordinary


def load_kitoken(path):
    import kitoken
    t = kitoken.Kitoken.from_tokenizers_file(path)
    return lambda text: t.encode(text, False)


def load_fastokens(path):
    import fastokens
    t = fastokens.Tokenizer.from_file(path)
    return lambda text: t.encode(text, add_special_tokens=False, split_special_tokens=True)


def load_gigatoken(path):
    import gigatoken
    return gigatoken.Tokenizer(path).encode


class ModelParams(ctypes.Structure):
    """struct llama_model_params of llama.cpp 0.5.0."""
    _fields_ = [("devices", ctypes.c_void_p), ("buft_overrides", ctypes.c_void_p), ("n_gpu_layers", ctypes.c_int32),
                ("split_mode", ctypes.c_int32), ("load_mode", ctypes.c_int32), ("lazy_mode", ctypes.c_int32),
                ("main_gpu", ctypes.c_int32), ("tensor_split", ctypes.c_void_p), ("progress", ctypes.c_void_p),
                ("progress_data", ctypes.c_void_p), ("kv_overrides", ctypes.c_void_p), ("vocab_only", ctypes.c_bool),
                ("check_tensors", ctypes.c_bool), ("use_extra_bufts", ctypes.c_bool), ("no_host", ctypes.c_bool),
                ("no_alloc", ctypes.c_bool), ("load_mtp", ctypes.c_bool)]


LOG_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
quiet = LOG_CALLBACK(lambda level, text, data: None)


def load_llama(path):
    lib = ctypes.CDLL(os.path.join(os.environ["FORGE_REFERENCE"], "libllama.so"))
    lib.llama_log_set.argtypes = [LOG_CALLBACK, ctypes.c_void_p]
    lib.llama_log_set(quiet, None)
    lib.llama_model_default_params.restype = ModelParams
    lib.llama_model_load_from_file.argtypes, lib.llama_model_load_from_file.restype = [ctypes.c_char_p, ModelParams], ctypes.c_void_p
    lib.llama_model_get_vocab.argtypes, lib.llama_model_get_vocab.restype = [ctypes.c_void_p], ctypes.c_void_p
    lib.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32), ctypes.c_int32,
                                   ctypes.c_bool, ctypes.c_bool]
    params = lib.llama_model_default_params()
    params.vocab_only = True
    model = lib.llama_model_load_from_file(path.encode(), params)
    if not model:
        raise Unsupported("llama_model_load_from_file failed")
    vocab = lib.llama_model_get_vocab(model)

    def encode(text):
        data = text.encode()
        out = (ctypes.c_int32 * len(data))()
        n = lib.llama_tokenize(vocab, data, len(data), out, len(out), False, False)
        return memoryview(out).cast("B").cast("i")[:n]
    return encode


PROGRAMS = {
    "llama.cpp 0.5.0, `llama_tokenize`": (load_llama, None),
    "tokenizers, `encode`": (load_hf, "tokenizers"),
    "tokenizers, `encode_batch_fast`": (load_hf_fast, "tokenizers"),
    "tiktoken, same vocabulary": (load_tiktoken, "tiktoken"),
    "kitoken": (load_kitoken, "kitoken"),
    "fastokens": (load_fastokens, "fastokens"),
    "gigatoken": (load_gigatoken, "gigatoken"),
}


def ids(result):
    result = getattr(result, "ids", result)
    return [int(i) for i in result]


def measure(program, path, text_path):
    """Runs in a process of its own in the venv; prints one JSON object."""
    with open(text_path, "rb") as f:
        data = f.read()
    text = data.decode()
    start = time.process_time()
    try:
        encode = PROGRAMS[program][0](path)
    except Unsupported as e:
        print(json.dumps({"unsupported": str(e)}))
        return
    load = time.process_time() - start
    speeds, begin = [], time.monotonic()
    while len(speeds) < 3 or len(speeds) < 20 and time.monotonic() - begin < 1.5:
        start = time.process_time()
        result = encode(text)
        speeds.append(len(data) / 1e6 / (time.process_time() - start))
    got = ids(result)
    print(json.dumps({"load": load, "cold": speeds[0], "warm": statistics.median(speeds[1:]), "n": len(got),
                      "sha256": hashlib.sha256(struct.pack(f"<{len(got)}I", *got)).hexdigest()}))


def install(venv):
    """Makes the venv if need be, and returns its Python and the packages that would not install."""
    python = os.path.join(venv, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    missing = {}
    for name, version in PACKAGES.items():
        try:
            p = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{name}=={version}"],
                               capture_output=True, text=True, timeout=LIMIT)
            if p.returncode:
                missing[name] = (p.stderr.strip() or "pip failed").splitlines()[-1]
        except subprocess.TimeoutExpired:
            missing[name] = f"not installed within {LIMIT} s"
    return python, missing


def vocab_files(folder, temp):
    """Returns {vocabulary: (tokenizer.json, GGUF)} as the programs shall read them."""
    files = {}
    for name, source in VOCABS.items():
        path, gguf = os.path.join(folder, source + ".tokenizer.json"), os.path.join(folder, name + ".gguf")
        if name == "qwen35":
            with open(path, encoding="utf-8") as f:
                d = json.load(f)
            d["normalizer"] = None
            d["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = PATTERN_QWEN35
            d["added_tokens"] = d["added_tokens"][:3]
            path = os.path.join(temp, name + ".json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(d, f, ensure_ascii=False)
        if name == "gemma3":
            # The file ends where the weights would begin; libllama wants the file to be as long as its tensor list says.
            gguf = shutil.copy(gguf, temp)
            os.truncate(gguf, 1 << 30)
        files[name] = path, gguf
    return files


def run(python, program, path, text, processes):
    """Returns the medians over the processes, or a sentence why there are none."""
    env = os.environ | {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    results = []
    for _ in range(processes):
        try:
            p = subprocess.run([python, __file__, "--measure", program, path, text], env=env, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return f"took more than {LIMIT} s"
        if p.returncode:
            return (p.stderr.strip() or f"exit code {p.returncode}").splitlines()[-1]
        results.append(json.loads(p.stdout))
        if "unsupported" in results[-1]:
            return results[-1]["unsupported"]
    medians = {k: statistics.median(r[k] for r in results) for k in ("load", "cold", "warm")}
    return results[-1] | medians


def table(args, temp):
    golden, work = os.path.join(os.environ["FORGE_GOLDEN"], "tokenizer"), os.path.join(os.environ["FORGE_WORK"], "vocab")
    text = os.path.join(golden, "texts", "mixed.txt")
    python, missing = install(args.venv or os.path.join(temp, "venv"))
    files = vocab_files(work, temp)
    notes = [f"{name} {PACKAGES[name]}: {why}" for name, why in missing.items()]
    print("| program | " + " | ".join(VOCABS) + " | seconds to load |\n|---|" + "---:|" * (len(VOCABS) + 1))
    for program, (load, package) in PROGRAMS.items():
        if package in missing or load is load_llama and "FORGE_REFERENCE" not in os.environ:
            continue
        cells, loads = [], []
        for vocab, (tokenizer_json, gguf) in files.items():
            r = run(python, program, gguf if load is load_llama else tokenizer_json, text, args.processes)
            if isinstance(r, str):
                notes.append(f"{program}, {vocab}: {r}")
                r = None
            cells.append(f"{r['warm']:.3g} ({r['cold']:.3g})" if r else "–")
            loads.append(f"{r['load']:.1f}" if r else "–")
            with open(os.path.join(golden, vocab + ".json"), encoding="utf-8") as f:
                want = json.load(f)["mixed"]
            if r and r["sha256"] != want["sha256"]:
                notes.append(f"{program}, {vocab}: other ids ({r['n']} for {want['n']})")
        name = program.replace(package, f"{package} {PACKAGES[package]}", 1) if package else program
        print(f"| {name} | " + " | ".join(cells) + " | " + " / ".join(loads) + " |", flush=True)
    print("\n" + "\n".join(notes))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", help="folder of the virtual environment")
    parser.add_argument("--reference", help="folder with libllama.so")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(*args.measure)
        return
    if args.reference:
        os.environ["FORGE_REFERENCE"] = args.reference
    with tempfile.TemporaryDirectory() as temp:
        table(args, temp)


if __name__ == "__main__":
    main()
