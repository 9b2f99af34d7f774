#!/usr/bin/env python3
"""Writes testdata/hf.json: what Hugging Face's library makes of short texts with the tokenizers of variants_test.go.

    go test ./tokenizer -run TestVariants -variants DIR
    pip install tokenizers==0.23.3
    python3 tokenizer/_gen/hf.py DIR > tokenizer/testdata/hf.json
"""
import json, os, random, sys
from tokenizers import Tokenizer, __version__, normalizers

PARTS = ["a", "b", "T", "s", "S", "the", "ing", "hello", " ", "  ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u3000", "\u2028", "\u200b", "\u200d", "'", "'S", "'ll",
         "/", "//", "_", "-", ".", "!?", "1", "12", "4567", "²", "Ⅷ", "é", "e\u0301", "\u0301", "ß", "Ä", "Ж", "中", "日本", "한", "\u1112\u1161\u11ab", "\u1112\u1161", "नम",
         "😀", "\ufe0f", "\ufffd", "▁", "▁▁", "\x00", "ǅ", "𝔘", "\u1c8a", "\u0897", "<mask>", "<|user|>", "</x>", "<br>", "<td>", "<h7>", "</", "<|im_end|>",
         "<bos>", "<unused0>", "<0x41>", "x", "½", "Ⓐ"]
rnd = random.Random(20)
texts = ["", "The cat sat.", "the</x> the</x>x <mask> a", " <br>  <br>\n\n\n the-the_the", "x\u200dthe½the", "e\u0301 \u1112\u1161\u11ab a\u0327\u0323\u0301 \u212b \u0958"]
texts += ["".join(rnd.choice(PARTS) for _ in range(rnd.choice([2, 4, 8, 16]))) for _ in range(40)]

out = {"library": "tokenizers " + __version__, "tokenizers": {}}
for name in sorted(os.listdir(sys.argv[1])):
    t = Tokenizer.from_file(os.path.join(sys.argv[1], name))
    cases = []
    for text in texts:
        c = {"text": text}
        t.encode_special_tokens = True
        c["ids"] = t.encode(text, add_special_tokens=False).ids
        t.encode_special_tokens = False
        c["parsed"] = t.encode(text, add_special_tokens=True).ids
        c["decoded"] = t.decode(c["parsed"], skip_special_tokens=True)
        cases.append(c)
    out["tokenizers"][name.removesuffix(".json")] = cases
nfc = normalizers.NFC()
marks = ["\u0301", "\u0323", "\u0327", "\u0345", "\u05b0", "\u0334", "\u093c", "\u3099", "\u0897", "\U0001d165"]
bases = ["a", "e", "é", "\u212b", "\u0958", "\u1112", "\u1161", "\u11ab", "\uac00", "\uac01", "\u30ab", "\u1100", "\u0f71", "\u0f72", "\u2adc", "\U000105d2", "\U00016d67", "中", " "]
words = ["".join(rnd.choice(bases + marks) for _ in range(rnd.randint(1, 7))) for _ in range(400)]
out["nfc"] = {w: nfc.normalize_str(w) for w in words}
json.dump(out, sys.stdout, ensure_ascii=True, separators=(",", ":"))
