#!/usr/bin/env bash
# Type-checks the GPU backend for macOS on a Linux machine: nothing is linked, nothing is run.
#
# Needs a nightly toolchain, and the sources of the standard library that go with it, which Debian's archive has. Whatever
# of that cannot be had, it says so and passes; what our own code gets wrong fails.
set -euo pipefail
cd "$(dirname "$0")/.."

TARGET=aarch64-apple-darwin
WORK=$PWD/target/macos
SOURCES=1.97.1
TOOLS=$WORK/toolchain

skip() { echo "SKIPPED: $*; the Metal side of the GPU backend was not type-checked"; exit 0; }

if rustup target list --installed 2>/dev/null | grep -qx "$TARGET"; then
  cargo fetch --target "$TARGET" || skip "the crates for $TARGET could not be fetched"
  cargo check -p minfer-wgpu --target "$TARGET"
  echo "the GPU backend was type-checked for $TARGET"
  exit 0
fi

# Hard links where that can be done: the toolchain is large, and a compiler finds its sources beside itself.
copy_toolchain() { rm -rf "$TOOLS"; cp -al "$1" "$TOOLS" 2>/dev/null || { rm -rf "$TOOLS"; cp -a "$1" "$TOOLS"; }; }

# From wherever this machine has its Debian packages.
fetch_sources() {
  local archive
  archive=$(apt-get indextargets --format '$(REPO_URI)' | grep '/debian/\?$' | head -n 1) && [ -n "$archive" ] || return 1
  mkdir -p lists/partial cache/archives/partial
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive trixie-backports main" > list
  local apt=(-qq -o Dir::Etc::sourcelist="$WORK/list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$WORK/lists" -o Dir::Cache="$WORK/cache")
  rm -f rust-src_*.deb
  timeout 120 apt-get "${apt[@]}" update && timeout 300 apt-get "${apt[@]}" download rust-src && dpkg -x rust-src_*.deb sources
}

on_nightly() { env -u RUSTC_WRAPPER RUSTUP_TOOLCHAIN='' RUSTC="$TOOLS/bin/rustc" "$TOOLS/bin/cargo" "$@"; }

nightly=$(rustc +nightly --print sysroot 2>/dev/null) || skip "there is no nightly toolchain"
if [ ! -d "$TOOLS/lib/rustlib/src/rust/library" ]; then
  mkdir -p "$WORK"
  copy_toolchain "$nightly" || skip "the nightly toolchain could not be copied"
  (cd "$WORK" && fetch_sources) >"$WORK/fetch.log" 2>&1 || skip "the sources of the standard library could not be fetched (target/macos/fetch.log)"
  [ -d "$WORK/sources/usr/src/rustc-$SOURCES" ] || skip "Debian has other sources than those of Rust $SOURCES"
  mkdir -p "$TOOLS/lib/rustlib/src"
  ln -sfn "$WORK/sources/usr/src/rustc-$SOURCES" "$TOOLS/lib/rustlib/src/rust"
fi

on_nightly fetch --target "$TARGET" || skip "the crates for $TARGET could not be fetched"

check=(check -Zbuild-std=std --target "$TARGET" --target-dir "$WORK/build")
# The standard library alone first: if these sources and this compiler do not agree, that is nobody's type error.
mkdir -p "$WORK/empty/src"
printf '[package]\nname = "empty"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n' > "$WORK/empty/Cargo.toml"
: > "$WORK/empty/src/lib.rs"
on_nightly "${check[@]}" --manifest-path "$WORK/empty/Cargo.toml" || skip "this nightly does not build those sources"

on_nightly "${check[@]}" -p minfer-wgpu
echo "the GPU backend was type-checked for $TARGET"
