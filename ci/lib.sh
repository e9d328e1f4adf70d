# Shared by the scripts in this folder, which source it first; it moves to the package's root.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() { echo "${0##*/}: $*" >&2; exit 1; }

# Debian packages that building, testing and the demonstration need.
packages=(opensm libopensm-dev infiniband-diags ibutils ibsim-utils libibumad-dev libibmad-dev
  clang libclang-dev gcc libc6-dev pkg-config util-linux)

# Installs what is missing; asks no network where nothing is.
install_missing() {
  command -v cargo >/dev/null || die "there is no cargo: install Rust, see https://rustup.rs"
  local need have
  need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  have=$(rustc --version | cut -d' ' -f2)
  [ "$(printf '%s\n' "$need" "$have" | sort -V | head -1)" = "$need" ] ||
    die "Rust $have is too old, $need is needed (rustup update)"
  local missing=() p
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    die "there is no apt here: install what Debian calls ${packages[*]}, then use cargo"
  for p in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "installing ${missing[*]}"
  local sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -q
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}
