#!/usr/bin/env python3
"""Asks llama-quantize for the type of every tensor of many models and writes the answers to policy.json.gz.

usage: make_policy.py FOLDER-OF-LLAMA-QUANTIZE OUTPUT     (Python 3.11, nothing else)

The models are GGUF files of the shapes wanted whose data are holes, so they take no space. Types come from --dry-run; cases
marked "real" are run for real, because a dry run does not find every reason to fail.

policy.json.gz: {"models": {name: {"metadata": {key: value}, "tensors": [[name, shape, type id]…],
"entries": {name: [columns, matrices]}}}, "cases": [{"model", "args", "type", "imatrix": bool, "drop": [entries left out],
"resize": {entry: columns}, "real": bool, "types": one character per tensor in output order, '0' + type id, or "reason": the reference's message}]}
"""
import gzip, json, os, re, struct, subprocess, sys, tempfile

BIN, OUT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
DIR = tempfile.mkdtemp()
ENV = dict(os.environ, LD_LIBRARY_PATH=BIN, GGML_NO_BACKTRACE="1")
F32, F16, BF16 = 0, 1, 30
#        name: (id, elements, bytes)
TYPES = {t[0]: t[1:] for t in [
    ("f32", 0, 1, 4), ("f16", 1, 1, 2), ("q4_0", 2, 32, 18), ("q4_1", 3, 32, 20), ("q5_0", 6, 32, 22), ("q5_1", 7, 32, 24),
    ("q8_0", 8, 32, 34), ("q8_1", 9, 32, 36), ("q2_K", 10, 256, 84), ("q3_K", 11, 256, 110), ("q4_K", 12, 256, 144),
    ("q5_K", 13, 256, 176), ("q6_K", 14, 256, 210), ("q8_K", 15, 256, 292), ("iq2_xxs", 16, 256, 66), ("iq2_xs", 17, 256, 74),
    ("iq3_xxs", 18, 256, 98), ("iq1_s", 19, 256, 50), ("iq4_nl", 20, 32, 18), ("iq3_s", 21, 256, 110), ("iq2_s", 22, 256, 82),
    ("iq4_xs", 23, 256, 136), ("i8", 24, 1, 1), ("i16", 25, 1, 2), ("i32", 26, 1, 4), ("i64", 27, 1, 8), ("f64", 28, 1, 8),
    ("iq1_m", 29, 256, 56), ("bf16", 30, 1, 2), ("tq1_0", 34, 256, 54), ("tq2_0", 35, 256, 66), ("mxfp4", 39, 32, 17),
    ("nvfp4", 40, 64, 36), ("q1_0", 41, 128, 18), ("q2_0", 42, 64, 18)]}
SIZE = {v[0]: v[1:] for v in TYPES.values()}
FILE_TYPES = """F32 F16 Q4_0 Q4_1 Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ2_XXS IQ2_XS
Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M IQ2_S IQ2_M IQ4_XS IQ1_M BF16 TQ1_0 TQ2_0 MXFP4_MOE Q1_0 Q2_0 COPY""".split()


def text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(v):
    if isinstance(v, bool): return struct.pack("<IB", 7, v)
    if isinstance(v, int): return struct.pack("<II", 4, v)
    if isinstance(v, float): return struct.pack("<If", 6, v)
    if isinstance(v, str): return struct.pack("<I", 8) + text(v)
    if isinstance(v[0], str): return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(text, v))
    return struct.pack("<IIQ", 9, 5, len(v)) + struct.pack(f"<{len(v)}i", *v)


def write(path, metadata, tensors):
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for k, v in metadata.items(): head += text(k) + value(v)
    offset = 0
    for name, shape, typ in tensors:
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape) + struct.pack("<IQ", typ, offset)
        n = 1
        for d in shape: n *= d
        elements, size = SIZE[typ]
        offset += (n // elements * size + 31) // 32 * 32
    head += bytes(-len(head) % 32)
    with open(path, "wb") as f:
        f.write(head)
        f.truncate(len(head) + offset)


def write_imatrix(path, entries):
    """Counts of 0: every weight is 1."""
    tensors = []
    for name, (columns, matrices) in sorted(entries.items()):
        tensors += [(name + ".in_sum2", [columns, matrices], F32), (name + ".counts", [1, matrices], F32)]
    write(path, {"general.type": "imatrix", "imatrix.datasets": ["text"], "imatrix.chunk_count": 1, "imatrix.chunk_size": 512}, tensors)


def quantize(args):
    p = subprocess.run([BIN + "/llama-quantize", *args], cwd=DIR, env=ENV, capture_output=True, text=True, errors="replace")
    return p.returncode, p.stdout + p.stderr


LINE = re.compile(r"^\[ *\d+/ *\d+\] (.+?) +- \[[^\]]*\], type = +(\S+), .*?(?:\((\w+)\))?$", re.M)


def reason(code, out):
    m = re.search(r"failed to quantize: (.*)", out)
    return m.group(1) if m else "aborts" if code < 0 else out.strip().split("\n")[-1]


# Models.
MODELS, CASES = {}, []
ENDS = [("token_embd.weight", [256, 64]), ("output_norm.weight", [256]), ("output.weight", [256, 64])]


def attention(n, d=256, kv=64):
    p = f"blk.{n}."
    return [(p + "attn_norm.weight", [d]), (p + "attn_q.weight", [d, d]), (p + "attn_k.weight", [d, kv]), (p + "attn_v.weight", [d, kv]),
            (p + "attn_output.weight", [d, d])]


def mlp(n, d=256, f=512):
    p = f"blk.{n}."
    return [(p + "ffn_norm.weight", [d]), (p + "ffn_gate.weight", [d, f]), (p + "ffn_up.weight", [d, f]), (p + "ffn_down.weight", [f, d])]


def experts(n, e, d=256, f=256):
    p = f"blk.{n}."
    return [(p + "ffn_gate_inp.weight", [d, e]), (p + "ffn_gate_exps.weight", [d, f, e]), (p + "ffn_up_exps.weight", [d, f, e]),
            (p + "ffn_down_exps.weight", [f, d, e]), (p + "ffn_down_shexp.weight", [f, d])]


def dense(layers): return ENDS + [t for n in range(layers) for t in attention(n) + mlp(n)]
def moe(layers, e): return ENDS + [t for n in range(layers) for t in attention(n) + experts(n, e)]


def model(name, arch, layers, tensors, heads=4, kv=2, **more):
    meta = {"general.architecture": arch}
    keys = dict(block_count=layers, context_length=128, embedding_length=256, feed_forward_length=512, vocab_size=64)
    keys["attention.layer_norm_rms_epsilon"] = 1e-5
    if heads is not None: keys["attention.head_count"] = heads
    if kv is not None: keys["attention.head_count_kv"] = kv
    keys.update(more)
    for k, v in keys.items(): meta[f"{arch}.{k}"] = v
    meta |= {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": [f"t{i}" for i in range(64)],
             "tokenizer.ggml.token_type": [1] * 64, "tokenizer.ggml.merges": ["t 0"]}
    tensors = [(t[0], t[1], TYPES[t[2]][0] if len(t) > 2 else F32) for t in tensors]
    # whatever else the loader of the architecture asks for
    for _ in range(60):
        write(f"{DIR}/{name}.gguf", meta, tensors)
        code, out = quantize(["--dry-run", f"{name}.gguf", "COPY"])
        if code == 0: break
        m = re.search(r"key not found in model: (\S+)", out)
        if not m or m.group(1) in meta: sys.exit(f"{name}: {out[-500:]}")
        meta[m.group(1)] = [1] * 4 if "sections" in m.group(1) else 1e-5 if re.search("epsilon|scale|freq|base", m.group(1).split(".", 1)[1]) else 1
    entries = {n: [s[0], s[2] if len(s) > 2 else 1] for n, s, _ in tensors if len(s) > 1 and "token_embd" not in n}
    MODELS[name] = {"metadata": {k: v for k, v in meta.items() if not k.startswith("tokenizer")}, "tensors": tensors, "entries": entries}


def case(name, typ, args=(), imatrix=False, drop=(), resize={}, real=False):
    m = MODELS[name]
    flags = list(args)
    if imatrix:
        entries = {n: s for n, s in m["entries"].items() if n not in drop} | {n: [c, 1] for n, c in resize.items()}
        write_imatrix(f"{DIR}/imatrix.gguf", entries)
        flags = ["--imatrix", "imatrix.gguf", *flags]
    c = {"model": name, "args": list(args), "type": typ, "imatrix": imatrix, "drop": list(drop), "resize": resize, "real": real}
    if real:
        code, out = quantize([*flags, f"{name}.gguf", "out.gguf", typ])
        if code != 0:
            CASES.append(c | {"reason": reason(code, out)})
            return
    code, out = quantize(["--dry-run", *flags, f"{name}.gguf", typ])
    if code != 0:
        CASES.append(c | {"reason": reason(code, out)})
        return
    lines = LINE.findall(out)
    CASES.append(c | {"types": "".join(chr(48 + TYPES[new or old][0]) for _, old, new in lines)})


def every_type(name, pure=False):
    for typ in FILE_TYPES:
        for imatrix in (False, True):
            case(name, typ, imatrix=imatrix)
        if pure: case(name, typ, ["--pure"], imatrix=True)


# The four synthetic models of the whole-file golden set.
odd = [("blk.0.odd160.weight", [160, 48]), ("blk.1.odd96.weight", [96, 48]), ("blk.2.odd160.weight", [160, 48])]
model("dense", "llama", 4, dense(4) + odd)
model("tied", "llama", 4, [t for t in dense(4) + odd if t[0] != "output.weight"])
shared = lambda n: [(f"blk.{n}.ffn_gate_shexp.weight", [256, 64]), (f"blk.{n}.ffn_up_shexp.weight", [256, 64]), (f"blk.{n}.ffn_down_shexp.weight", [64, 256])]
model("moe", "llama", 2, ENDS + [t for n in range(2) for t in attention(n) + experts(n, 8)[:4] + shared(n)], expert_count=8, expert_used_count=2)
hybrid = list(ENDS)
for n in range(5):
    p = f"blk.{n}."
    if n < 3:
        hybrid += [(p + "attn_norm.weight", [256]), (p + "attn_qkv.weight", [256, 512]), (p + "attn_gate.weight", [256, 256]),
                   (p + "ssm_beta.weight", [256, 4]), (p + "ssm_alpha.weight", [256, 4]), (p + "ssm_conv1d.weight", [4, 512]),
                   (p + "ssm_norm.weight", [64]), (p + "ssm_out.weight", [256, 256])]
    else:
        hybrid += attention(n)
    hybrid += mlp(n)
hybrid += [("blk.4.nextn.eh_proj.weight", [512, 256]), ("blk.4.nextn.enorm.weight", [256]), ("blk.4.nextn.hnorm.weight", [256])]
model("hybrid", "qwen35", 5, hybrid, **{"attention.key_length": 64, "attention.value_length": 64, "rope.dimension_count": 16, "ssm.conv_kernel": 4,
      "ssm.state_size": 64, "ssm.group_count": 2, "ssm.time_step_rank": 4, "ssm.inner_size": 256, "full_attention_interval": 4, "nextn_predict_layers": 1})
for name in ("dense", "tied", "moe", "hybrid"): every_type(name, pure=True)

# Depth, head ratio, architecture, experts.
tied = lambda layers: [t for t in dense(layers) if t[0] != "output.weight"]
model("llama28", "llama", 28, dense(28), 8, 8); every_type("llama28")
model("llama64", "llama", 64, dense(64), 8, 2); every_type("llama64")
model("llama80-gqa8", "llama", 80, dense(80), 8, 1); every_type("llama80-gqa8")
model("llama80-gqa1", "llama", 80, dense(80), 8, 8); every_type("llama80-gqa1")
model("no-kv-key", "llama", 17, dense(17), 8, None); every_type("no-kv-key")
model("qwen2-80", "qwen2", 80, tied(80), 8, 2); every_type("qwen2-80")
model("deci-80", "deci", 80, dense(80)[:100], [8] * 80, [0] + [2] * 79); every_type("deci-80")
model("olmo-80", "olmo", 80, dense(80)[:100], 8, 8)
model("jais2-68", "jais2", 68, dense(68)[:100], 8, 8)
model("llama-embed-80", "llama-embed", 80, dense(80)[:100], 8, 2)
model("qwen3-80", "qwen3", 80, dense(80)[:100], 8, 2)
for name in ("olmo-80", "jais2-68", "llama-embed-80", "qwen3-80"):
    for typ in ("Q4_K_S", "Q2_K", "Q3_K_M", "IQ3_M"): case(name, typ)
model("head-arrays", "llama", 9, dense(9), [8] + [4] * 8, [2] + [4] * 8); every_type("head-arrays")
falcon = lambda n: ENDS + [t for i in range(n) for t in [(f"blk.{i}.attn_qkv.weight", [256, 320]), (f"blk.{i}.attn_output.weight", [256, 256]),
                                                        (f"blk.{i}.ffn_up.weight", [256, 512]), (f"blk.{i}.ffn_down.weight", [512, 256])]]
model("falcon32", "falcon", 32, falcon(32), 8, 1); every_type("falcon32")
model("falcon60-odd", "falcon", 60, [(n, [160, 4] if n == "output.weight" else s) for n, s in falcon(60)], 8, 8); every_type("falcon60-odd")
for e in (2, 4, 8, 128):
    model(f"moe{e}", "llama", 24, moe(24, e), 8, 2 if e != 8 else 8, expert_count=e, expert_used_count=2); every_type(f"moe{e}")
model("moe-qwen3", "qwen3moe", 20, [t for t in moe(20, 16) if t[0] != "output.weight"], 8, 1, expert_count=16, expert_used_count=2); every_type("moe-qwen3")
model("falcon-moe", "falcon", 8, falcon(8) + [("blk.3.attn_k.weight", [256, 64])], 8, 8, expert_count=8, expert_used_count=2); every_type("falcon-moe")
kda = [(f"blk.{n}.attn_kv_b.weight", [256, 64, 4]) for n in range(8)]
model("bailingmoe3", "bailingmoe3", 8, moe(8, 4) + kda, 8, 8, expert_count=4, expert_used_count=2, **{"kda_gate_lower_bound": -5.0, "kda.gate_lower_bound": -5.0,
      "attention.kda_gate_lower_bound": -5.0, "kda_lower_bound": -5.0, "kda.lower_bound": -5.0})
every_type("bailingmoe3")
model("deepseek2", "deepseek2", 10, moe(10, 4) + [(f"blk.{n}.attn_kv_b.weight", [256, 128]) for n in range(10)], 8, 8, expert_count=4, expert_used_count=2,
      leading_dense_block_count=1); every_type("deepseek2")
model("gemma3n", "gemma3n", 9, [t for t in dense(9) if t[0] != "output.weight"] + [("per_layer_token_embd.weight", [512, 64]), ("per_layer_model_proj.weight", [256, 512])], 8, 2)
every_type("gemma3n", pure=True)
model("per-layer-head", "llama", 9, dense(9) + [("per_layer_token_embd.weight", [160, 64])], 8, 2); every_type("per-layer-head", pure=True)
model("mamba", "mamba", 12, ENDS + [t for n in range(12) for t in [(f"blk.{n}.ssm_in.weight", [256, 512]), (f"blk.{n}.ssm_x.weight", [256, 48]), (f"blk.{n}.ssm_a", [16, 256])]], None, None)
every_type("mamba")
model("gpt2", "gpt2", 12, ENDS + [("position_embd.weight", [256, 128])] + [t for n in range(12) for t in [(f"blk.{n}.attn_qkv.weight", [256, 768]), (f"blk.{n}.attn_qkv.bias", [768]),
      (f"blk.{n}.attn_output.weight", [256, 256]), (f"blk.{n}.ffn_up.weight", [256, 512]), (f"blk.{n}.ffn_down.weight", [512, 256])]], 8, None)
every_type("gpt2")
model("clip", "clip", 3, [("v.position_embd.weight", [256, 64]), ("v.patch_embd.weight", [14, 14, 3, 256]), ("mm.0.weight", [256, 256])] +
      [(f"v.blk.{n}.{w}.weight", [256, 256]) for n in range(9) for w in ("attn_q", "attn_k", "attn_v", "attn_out", "ffn_up", "ffn_down")], 8, 8)
every_type("clip")

# Names.
NAMES = """position_embd token_types blk.0.position_embd x_position_embd token_embd_norm a_norm.weight blk.0.ffn_gate_inp blk.0.ffn_gate_inp_shexp
blk.0.altup_x blk.0.laurel_l per_layer_model_proj blk.0.ssm_conv1d blk.0.ssm_conv1d_q blk.0.shortconv.conv blk.0.shortconv.in blk.0.indexer.k_proj
blk.0.indexer.q_proj blk.0.indexer.proj blk.0.indexer.attn_k blk.0.time_mix_first blk.0.time_mix_w0 blk.0.time_mix_w1 blk.0.time_mix_w2 blk.0.time_mix_v0
blk.0.time_mix_v1 blk.0.time_mix_v2 blk.0.time_mix_a0 blk.0.time_mix_a1 blk.0.time_mix_a2 blk.0.time_mix_g1 blk.0.time_mix_g2 blk.0.time_mix_g3
blk.0.time_mix_decay_w1 blk.0.time_mix_decay_w2 blk.0.time_mix_lerp_fused blk.0.time_mix_lerp_w blk.0.attn_rel_b v.position_embd v.patch_embd mm.a.code_embd
a.rvq.codebook v.blk.0.rel_pos sam.net_1 sam.neck.1 sam.pos_embd sam.x v.patch_merger blk.0.ffn_gate_tid2eid blk.0.ffn_norm_exps cls output.weight
blk.0.attn_v blk.0.attn_v.weight.ffn_up x.attn_qkv blk.0.attn_kv_b blk.0.attn_k_b blk.0.attn_v_b blk.0.cross_attn_v blk.0.ffn_upper blk.0.my_ffn_down
blk.0.ffn_gate_up_exps blk.0.attn_output_2 attn_k token_embd.weight blk.00.attn_v rope_freqs blk.0.attn_q_norm""".split()
model("names", "llama", 2, ENDS + [(n + ".weight", [256, 16]) for n in NAMES] + [("blk.0.x.bias", [256, 4]), ("weight", [256, 4]), ("blk.0.WEIGHT", [256, 4]), ("blk.1.odd", [7, 3])], 8, 2)
every_type("names", pure=True)

# Widths: every type on every width, then every file type.
WIDTHS = [16, 32, 48, 64, 80, 96, 128, 144, 160, 192, 224, 256, 320, 384, 512, 576]
model("widths", "llama", 2, ENDS + [(f"blk.0.w{w}.weight", [w, 4]) for w in WIDTHS] + [("blk.0.stack.weight", [160, 4, 2])], 8, 2)
every_type("widths")
for w in WIDTHS:
    model(f"width{w}", "llama", 2, [("blk.0.w.weight", [w, 4]), ("output.weight", [w, 4]), ("token_embd.weight", [w, 4])], 8, 2)
    for t in TYPES: case(f"width{w}", "Q8_0", ["--tensor-type", "w.weight=" + t])
    for t in FILE_TYPES: case(f"width{w}", t)

# Flags.
model("plain", "llama", 8, dense(8), 8, 2)
for typ in ("Q4_K_M", "Q8_0", "F16", "MXFP4_MOE", "IQ2_XS", "COPY"):
    for name in ("plain", "tied"):
        for args in (["--leave-output-tensor"], ["--output-tensor-type", "q8_0"], ["--output-tensor-type", "q8_0", "--pure"], ["--token-embedding-type", "bf16"],
                     ["--token-embedding-type", "q4_0", "--output-tensor-type", "q5_0"], ["--output-tensor-type", "q5_0", "--tensor-type", "token_embd=q4_1"],
                     ["--output-tensor-type", "q6_K", "--leave-output-tensor"], ["--tensor-type", "attn_v=q6_k"], ["--tensor-type", "ffn_(up|gate)=q5_0", "--tensor-type", "blk\\.[0-3]\\.ffn=q4_1", "--pure"],
                     ["--tensor-type", "^output\\.weight$=q4_0"], ["--tensor-type", "blk\\.(?!0|1)\\d+\\.ffn_down=iq4_xs"], ["--tensor-type", "ATTN_Q\\S*=q5_1"],
                     ["--prune-layers", "1"], ["--prune-layers", "0,3,2"], ["--prune-layers", "3", "--tensor-type", "blk\\.2\\.=q8_0"],
                     ["--override-kv", "llama.block_count=int:4"], ["--override-kv", "llama.attention.head_count_kv=int:1"], ["--override-kv", "llama.attention.head_count_kv=float:1"]):
            case(name, typ, args, imatrix=True)
model("moe-plain", "llama", 8, moe(8, 4), 8, 2, expert_count=4, expert_used_count=1)
for typ in ("Q4_K_M", "Q2_K", "IQ3_M", "IQ2_M", "IQ4_XS"):
    for n in (1, 2, 8): case("moe-plain", typ, ["--override-kv", f"llama.expert_count=int:{n}"])
    for key in ("attention.head_count_kv", "attention.head_count", "block_count"):
        for name in ("moe-plain", "no-kv-key", "head-arrays"):
            if (name, key) == ("head-arrays", "block_count"): continue  # the loader wants arrays of that length
            for n in (2, 8): case(name, typ, ["--override-kv", f"llama.{key}=int:{n}"])
for args in (["--prune-layers", "0,1"], ["--prune-layers", "23"], ["--prune-layers", "5,9,1"]):
    for typ in ("Q4_K_M", "IQ3_XS", "IQ2_M"):
        for name in ("moe4", "moe8", "llama28"): case(name, typ, args)

# Layers that do not exist, in a model with experts.
for i, bad in enumerate(["blk.9.ffn_up.weight", "blk.9.ffn_gate.weight", "blk.9.ffn_down.weight", "ffn_down.weight", "blk.-1.ffn_up.weight", "blk.99999999999999999999.ffn_up.weight",
                         "x.blk.1.ffn_up.weight", "blk. 1.ffn_down.weight"]):
    model(f"bad-layer{i}", "llama", 2, moe(2, 8) + [(bad, [256, 4])], 8, 2, expert_count=8, expert_used_count=2)
    for typ in ("Q4_K_M", "IQ2_S", "MXFP4_MOE", "Q8_0", "F16"): case(f"bad-layer{i}", typ)
    case(f"bad-layer{i}", "Q4_K_M", ["--pure"])

# Real runs: sources, importance, requantizing.
small = [("token_embd.weight", [256, 2]), ("output.weight", [256, 2]), ("blk.0.attn_q.weight", [256, 2]), ("blk.1.attn_v.weight", [256, 2]), ("blk.1.ffn_down.weight", [512, 2])]
model("small", "llama", 2, small)
for typ in FILE_TYPES:
    for pure in ([], ["--pure"]):
        case("small", typ, pure, real=True)
        case("small", typ, pure, imatrix=True, real=True)
        case("small", typ, pure, imatrix=True, drop=["output.weight"], real=True)
        case("small", typ, pure, imatrix=True, drop=["blk.0.attn_q.weight"], real=True)
        case("small", typ, pure, imatrix=True, resize={"blk.0.attn_q.weight": 128}, real=True)
        case("small", typ, pure, imatrix=True, resize={"token_embd.weight": 128}, real=True)
        case("small", typ, pure, imatrix=True, resize={"output.weight": 128}, real=True)
for t in TYPES:
    for imatrix in (False, True):
        case("small", "Q8_0", ["--tensor-type", "attn_q=" + t], imatrix, real=True)
        case("small", "Q8_0", ["--output-tensor-type", t], imatrix, drop=["output.weight"], real=True)
        case("small", "Q8_0", ["--token-embedding-type", t], imatrix, real=True)
    model("from-" + t, "llama", 2, [(n, s, t if "attn_q" in n else "f32") for n, s in small])
    for typ in ("Q4_K_M", "F16", "F32", "COPY", "Q8_0"):
        for flag in ([], ["--allow-requantize"]): case("from-" + t, typ, flag, real=True)
    case("from-" + t, "Q8_0", ["--tensor-type", "attn_q=" + t], real=True)
    case("from-" + t, "Q8_0", ["--tensor-type", "attn_q=" + t], True, drop=["blk.0.attn_q.weight"], real=True)
    model("kept-" + t, "llama", 2, small + [("blk.0.x.bias", [256, 2], t), ("blk.0.y_norm.weight", [256, 2], t), ("blk.0.z.weight", [256], t)])
    for typ in ("Q4_K_M", "COPY", "F16"): case("kept-" + t, typ, real=True)
model("four", "llama", 2, small + [("blk.0.x.weight", [256, 2, 2, 2])])
model("four1", "llama", 2, small + [("blk.0.x.weight", [256, 1, 1, 2])])
model("three", "llama", 2, small + [("blk.0.x.weight", [256, 1, 2]), ("blk.0.y.weight", [256, 1, 1]), ("blk.0.z.weight", [1, 256])])
for typ in ("Q8_0", "F16", "F32", "Q4_K_M"):
    for name in ("four", "four1", "three"):
        case(name, typ, real=True)
        case(name, typ, imatrix=True, real=True)

with gzip.GzipFile(OUT, "wb", 9, mtime=0) as f:
    f.write(json.dumps({"models": MODELS, "cases": CASES}, separators=(",", ":")).encode())
print(len(MODELS), "models,", len(CASES), "cases,", os.path.getsize(OUT), "bytes")
