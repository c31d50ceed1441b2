#!/usr/bin/env bash
# One file with which edge is installed without internet, for `install.sh --offline FILE`: this checkout, the wheels and
# the Debian packages it needs, and a checksum of each. Needs a Debian with a network, and nothing of the target.
# KEY, which sign-release makes, signs the list of checksums; sites that know KEY.pub accept nothing else.
#
#   systemd/make-bundle.sh [--debian 12|13] [--arch amd64|arm64] [--output FILE] [--key KEY]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(dirname "$here")
packages=(python3 python3-venv mosquitto caddy openssl ca-certificates avahi-daemon)

main() {
  local debian=12 arch=amd64 output='' key='' suite python scratch
  while [[ $# -gt 0 ]]; do
    case $1 in
      --debian) debian=${2:?} ;;
      --arch) arch=${2:?} ;;
      --output) output=$(realpath -m "${2:?}") ;;
      --key) key=$(realpath -e "${2:?}") ;;
      *) sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
    esac
    shift 2
  done
  case $debian in
    12) suite=bookworm python=3.11 ;;
    13) suite=trixie python=3.13 ;;
    *) fail "--debian is 12 or 13" ;;
  esac
  [[ $arch = amd64 || $arch = arm64 ]] || fail "--arch is amd64 or arm64"
  output=${output:-$PWD/edge-debian$debian-$arch.tar}
  scratch=$(mktemp -d)
  # shellcheck disable=SC2064  # expand now
  trap "rm -rf '$scratch'" EXIT
  mkdir "$scratch/bundle"
  get_wheels "$scratch/bundle/wheels" "$python" "$arch"
  get_packages "$scratch" "$suite" "$arch"
  copy_checkout "$scratch/bundle/edge"
  cp "$here/requirements.txt" "$scratch/bundle/"
  echo "debian$debian $arch" >"$scratch/bundle/target"
  describe_release >"$scratch/bundle/release"
  "$here/make-sbom" "$scratch/bundle" >"$scratch/sbom.cdx.json"
  cp "$scratch/sbom.cdx.json" "$scratch/bundle/"
  seal "$scratch/bundle" "$output" "$key"
  cp "$scratch/sbom.cdx.json" "${output%.tar}.cdx.json"
}

say() { printf '== %s\n' "$*"; }
fail() { printf 'make-bundle.sh: %s\n' "$*" >&2; exit 1; }

# Download everything in requirements.txt, checked by its hashes, including build tools. Environment markers are removed,
# because pip would evaluate them for the Python that runs this. One platform tag for each glibc up to Debian 12's.
get_wheels() {
  local folder=$1 python=$2 machine=x86_64 minor platforms=()
  say "Wheels for Python $python"
  if [[ $3 = arm64 ]]; then machine=aarch64; fi
  for minor in $(seq 17 36); do platforms+=(--platform "manylinux_2_${minor}_$machine"); done
  mkdir "$folder"
  sed "/ ; sys_platform == 'win32'/,/[^\\]\$/d; s/ ; [^\\]*//" "$here/requirements.txt" >"$folder/requirements.txt"
  python3 -m pip --disable-pip-version-check -qqq download --no-deps --require-hashes --only-binary :all: \
    --implementation cp --python-version "$python" --abi "cp${python/./}" --abi abi3 --abi none \
    "${platforms[@]}" --platform "manylinux2014_$machine" --requirement "$folder/requirements.txt" --dest "$folder"
  rm "$folder/requirements.txt"
}

# Download the packages with all dependencies, down to libc, to suit a target in any state. apt works in an empty root
# folder for this.
get_packages() {
  local scratch=$1 suite=$2 arch=$3 root=$1/apt folder=$1/bundle/packages options
  say "Packages of Debian, $suite"
  mkdir -p "$root"/{lists/partial,archives/partial} "$folder"
  : >"$root/status"
  mirror "$suite" >"$root/sources.list"
  options=(-o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" -o "Dir::State=$root" -o "Dir::State::status=$root/status"
    -o "Dir::State::Lists=$root/lists" -o "Dir::Cache=$root" -o "Dir::Etc::SourceList=$root/sources.list"
    -o Dir::Etc::SourceParts=- -o APT::Install-Recommends=false -o APT::Sandbox::User=root -o Debug::NoLocking=1)
  apt-get "${options[@]}" -qq update
  apt-get "${options[@]}" -qq --yes --download-only install "${packages[@]}" >/dev/null
  cp "$root"/archives/*.deb "$folder/"
  index "$folder"
}

mirror() {
  local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  printf 'deb [signed-by=%s] http://deb.debian.org/debian %s main\n' "$keyring" "$1" "$keyring" "$1-updates"
  printf 'deb [signed-by=%s] http://deb.debian.org/debian-security %s-security main\n' "$keyring" "$1"
}

# Write the index that makes a folder an apt source.
index() {
  local file
  for file in "$1"/*.deb; do
    dpkg-deb --field "$file"
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "${file##*/}" "$(stat -c %s "$file")" "$(sha256sum "$file" | cut -d' ' -f1)"
  done >"$1/Packages"
}

# Only committed files.
copy_checkout() {
  mkdir "$1"
  git -C "$checkout" archive HEAD | tar --extract --directory "$1"
}

# Version and commit time, by which edge-verify orders releases.
describe_release() {
  echo "version $(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$checkout/edge/__init__.py")"
  TZ=UTC git -C "$checkout" log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format='made %cd%ncommit %H'
}

seal() {
  local sums=$2.sums
  if [[ -n $3 ]]; then cp "$3.pub" "$1/publisher.pub"; fi
  (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$sums"
  mv "$sums" "$1/SHA256SUMS"
  if [[ -n $3 ]]; then "$here/sign-release" "$3" "$1/SHA256SUMS"; fi
  tar --create --file "$2" --directory "$1" --owner 0 --group 0 --sort name .
  say "$2, $(du -m "$2" | cut -f1) MB, $([[ -n $3 ]] && echo signed || echo 'not signed: sites that know a publisher refuse it')"
  sha256sum "$2"
}

main "$@"
