#!/usr/bin/env bash
# Type-checks the GPU backend for macOS on a Linux machine: nothing is linked, nothing is run.
#
# Needs a nightly toolchain, and the sources of the standard library that go with it, which Debian's archive has. Says what is
# missing, and passes, where one of them cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

TARGET=aarch64-apple-darwin
WORK=$PWD/target/macos
SOURCES=1.97.1

skip() { echo "SKIPPED: $*; the Metal side of the GPU backend was not type-checked"; exit 0; }

if rustup target list --installed 2>/dev/null | grep -qx "$TARGET"; then
  exec cargo check -p minfer-wgpu --target "$TARGET"
fi

nightly=$(rustc +nightly --print sysroot 2>/dev/null) || skip "there is no nightly toolchain"
mkdir -p "$WORK"
if [ ! -d "$WORK/toolchain/lib/rustlib/src/rust/library" ]; then
  # Hard links where that can be done: the toolchain is large, and a compiler finds its sources beside itself.
  rm -rf "$WORK/toolchain"
  cp -al "$nightly" "$WORK/toolchain" 2>/dev/null || cp -a "$nightly" "$WORK/toolchain"
  mkdir -p "$WORK/lists/partial" "$WORK/cache/archives/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie-backports main" > "$WORK/list"
  apt=(-qq -o Dir::Etc::sourcelist="$WORK/list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$WORK/lists" -o Dir::Cache="$WORK/cache")
  (cd "$WORK" && apt-get "${apt[@]}" update && apt-get "${apt[@]}" download rust-src) >/dev/null 2>&1 \
    || skip "the sources of the standard library could not be fetched"
  dpkg -x "$WORK"/rust-src_*.deb "$WORK/sources"
  [ -d "$WORK/sources/usr/src/rustc-$SOURCES" ] || skip "Debian has other sources than those of Rust $SOURCES"
  mkdir -p "$WORK/toolchain/lib/rustlib/src"
  ln -sfn "$WORK/sources/usr/src/rustc-$SOURCES" "$WORK/toolchain/lib/rustlib/src/rust"
fi

unset RUSTC_WRAPPER
RUSTC="$WORK/toolchain/bin/rustc" RUSTUP_TOOLCHAIN='' "$WORK/toolchain/bin/cargo" check -Zbuild-std=std \
  --target "$TARGET" --target-dir "$WORK/build" -p minfer-wgpu
