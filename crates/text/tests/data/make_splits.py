#!/usr/bin/env python3
"""Writes splits.json: how Hugging Face's pre-tokenizers cut texts, for the rows of the table in src/tokenizer/pre.rs
that no whole tokenizer of ../shared/fixtures checks.  A case is a text and the lengths of its pieces in bytes.

Needs: pip install tokenizers==0.23.3
"""
import json
import os

from tokenizers import Regex, pre_tokenizers as p

HERE = os.path.dirname(os.path.abspath(__file__))
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def split(pattern):
    return p.Split(Regex(pattern), "isolated")


def level(use_regex):
    return p.ByteLevel(add_prefix_space=False, use_regex=use_regex)


CJK = split("[一-龥ࠀ-一가-퟿]+")
ROWS = {
    "gpt-2": level(True),
    "starcoder": p.Sequence([p.Digits(individual_digits=True), level(True)]),
    "falcon": p.Sequence([p.Punctuation("contiguous"), level(True), p.Digits(individual_digits=False), split("[0-9][0-9][0-9]")]),
    "qwen35": p.Sequence([split(QWEN35), level(False)]),
    "deepseek-coder": p.Sequence([split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), CJK, p.Digits(individual_digits=True), level(False)]),
}
TEXTS = [
    "Hello  world, it's 12345.67 o'clock; they'LL  go\n\n  now\t\t x ",
    "   leading, trailing   ",
    "a\r\nb\r\n\r\n  c \n d",
    "price: $42+7=49 <=> ^~|` [x]{y} \\ /* - */ #tag @me",
    "x² + ½ − ¼ = ٣٤٥ and ⅷ, Ⅻ, 1e10, 0xFF, 1000000",
    "naïve café, ÜBER, straße — “quoted” ‘single’ … ¿qué?",
    "Быстрая лиса; γλώσσα, ΐ Ω K ώ; ქართული; հայերեն",
    "敏捷的棕色狐狸，跳过了懒狗。こんにちは、カタカナ 안녕하세요 12月25日",
    "ไทย ภาษา हिन्दी क्षत्रिय عربي مُشَكَّل עִבְרִית",
    "emoji 🦊👍🏽👨‍👩‍👧 e\u0301 o\u0308x \u0301",
    "\u00a0nbsp\u3000ideographic\u2003em\u200bzero\ufeffbom",
    "fn main() { println!(\"{}\", 42); } // 3.14",
    "\u0000\u0001\u007f\u0085\u2028 x",
    "\U00010400\U00010428 ＡＢｃ！？～ 　。",
]


def lengths(row, text):
    return [len(piece) for piece, _ in row.pre_tokenize_str(text)]


def main():
    doc = {name: [[text, lengths(row, text)] for text in TEXTS] for name, row in ROWS.items()}
    for name, cases in doc.items():
        for text, pieces in cases:
            assert sum(pieces) == len(text.encode()), (name, text)
    with open(os.path.join(HERE, "splits.json"), "w", encoding="utf-8") as f:
        rows = (f" {json.dumps(name)}: [\n  " + ",\n  ".join(map(json.dumps, cases)) + "\n ]" for name, cases in doc.items())
        f.write("{\n" + ",\n".join(rows) + "\n}\n")


main()
