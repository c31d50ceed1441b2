#!/usr/bin/env bash
# Make a Debian package for `apt install ./FILE` from a bundle of make-bundle.sh. It has the installed program with all
# libraries in /usr/lib/edge, so that no pip runs at the site and `dpkg --verify edge` finds changed files. mosquitto,
# Caddy and Python come from Debian. The package is for the Debian release and the processor of the bundle, because
# compiled libraries fit one version of Python only.
#
#   systemd/make-deb.sh BUNDLE [FOLDER [KEY]]
#
# Its version has the time of the commit, so each later commit is an upgrade for apt. KEY, of sign-release, signs the
# package; a site verifies it first: edge-verify FILE && apt install ./FILE.
# It only installs the command edge-setup, which asks for the site, unless /etc/edge/answers has the answers. Each later
# version is tried on a copy of the site first, as by `edge upgrade`. If the trial fails, apt reports why and the previous
# release continues. Settings are created once, kept by upgrades and by `apt remove`, and removed by `apt purge`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() { printf 'make-deb.sh: %s\n' "$*" >&2; exit 1; }

main() {
  [[ $# -ge 1 && $1 != -* ]] || { sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
  local bundle folder=${2:-$PWD} key=${3:-} scratch version debian arch file python
  bundle=$(realpath -e "$1")
  scratch=$(mktemp -d)
  # shellcheck disable=SC2064  # expand now
  trap "rm -rf '$scratch'" EXIT
  mkdir "$scratch/bundle"
  tar --extract --file "$bundle" --directory "$scratch/bundle" --no-same-owner
  (cd "$scratch/bundle" && sha256sum --check --quiet --strict SHA256SUMS) || fail "$bundle is damaged"
  read -r debian arch <"$scratch/bundle/target"
  version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$scratch/bundle/edge/edge/__init__.py")
  [[ -n $version ]] || fail "the version of the checkout in $bundle cannot be read"
  version+=+$(sed -n 's/^made \(....\)-\(..\)-\(..\)T\(..\):\(..\).*/\1\2\3.\4\5/p' "$scratch/bundle/release")~$debian
  case $debian in
    debian12) python=3.11 ;;
    debian13) python=3.13 ;;
    *) fail "$bundle is for $debian, which is not known" ;;
  esac
  file=$(realpath "$folder")/edge_${version}_$arch.deb
  fill "$scratch" "$python" "$arch"
  describe "$scratch/root" "$version" "$arch" "$python"
  chmod -R go=rX "$scratch/root"
  (cd "$scratch/root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums) # for dpkg --verify
  dpkg-deb --root-owner-group -Zxz -z1 --build "$scratch/root" "$file" >/dev/null
  cp "$scratch/bundle/sbom.cdx.json" "${file%.deb}.cdx.json"
  if [[ -n $key ]]; then "$here/sign-release" "$key" "$file"; fi
  echo "$file, $(du -m "$file" | cut -f1) MB"
}

fill() {
  local bundle=$1/bundle root=$1/root python=$2 release=$1/root/usr/lib/edge
  mkdir -p "$root"/{DEBIAN,usr/share/doc/edge,usr/sbin} "$release/bin"
  install_libraries "$1" "$release" "$python" "$3"
  # A virtual environment, as Debian's Python would make it.
  printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' "$python" >"$release/pyvenv.cfg"
  ln -s /usr/bin/python3 "$release/bin/python3"
  ln -s python3 "$release/bin/python"
  ln -s lib "$release/lib64"
  cp -r "$bundle/edge/systemd" "$release/systemd"
  rm -f "$release/systemd/answers"
  cp "$bundle/release" "$release/"
  cp "$bundle/sbom.cdx.json" "$root/usr/share/doc/edge/"
  cat >"$root/usr/sbin/edge-setup" <<'SETUP'
#!/bin/sh
# Completes the installation of the package: asks for the organization and its first administrator. Options: install.sh.
exec /usr/lib/edge/systemd/install.sh "$@"
SETUP
  chmod 755 "$root/usr/sbin/edge-setup"
}

# Install the wheels of the bundle for the Python of its Debian, which need not be the Python that runs this. Libraries
# must have the hashes in requirements.txt.
install_libraries() {
  local scratch=$1 release=$2 python=$3 target=$2/lib/python$3/site-packages machine=x86_64 minor name own options platforms=()
  if [[ $4 = arm64 ]]; then machine=aarch64; fi
  for minor in $(seq 17 36); do platforms+=(--platform "manylinux_2_${minor}_$machine"); done
  options=(--disable-pip-version-check -qqq install --no-deps --no-index --no-compile --target "$target" --only-binary :all:
    --implementation cp --python-version "$python" --abi "cp${python/./}" --abi abi3 --abi none
    "${platforms[@]}" --platform "manylinux2014_$machine" --platform any)
  export PIP_NO_INDEX=1 PIP_FIND_LINKS=$scratch/bundle/wheels
  unset PIP_INDEX_URL PIP_EXTRA_INDEX_URL
  python3 -m pip --disable-pip-version-check -qqq wheel --no-deps --wheel-dir "$scratch/own" "$scratch/bundle/edge"
  sed "/ ; sys_platform == 'win32'/,/[^\\]\$/d; s/ ; [^\\]*//" "$scratch/bundle/edge/systemd/requirements.txt" >"$scratch/requirements.txt"
  own=$(echo "$scratch"/own/edge-*.whl)
  echo "$own --hash=sha256:$(sha256sum "$own" | cut -d' ' -f1)" >>"$scratch/requirements.txt"
  python3 -m pip "${options[@]}" --require-hashes --requirement "$scratch/requirements.txt"
  mv "$target/bin/litestream" "$release/bin/"
  # Programs find the Python beside them, wherever the folder is. One that is started through a link keeps its release.
  for name in edge segno; do
    {
      cat <<'START'
#!/bin/sh
'''exec' "$(dirname "$(realpath "$0")")/python3" "$0" "$@"
' '''
START
      tail -n +2 "$target/bin/$name"
    } >"$release/bin/$name"
    chmod 755 "$release/bin/$name"
  done
  rm -rf "${target:?}"/{bin,{hatchling,pathspec,pluggy,trove_classifiers}{,-*.dist-info},polib{.py,-*.dist-info}} # only used to build
}

describe() {
  local control=$1/DEBIAN
  cat >"$control/control" <<CONTROL
Package: edge
Version: $2
Architecture: $3
Maintainer: edge <edge@localhost>
Installed-Size: $(du -sk "$1/usr" | cut -f1)
Depends: python3 (>= $4), python3 (<< ${4%.*}.$((${4#*.} + 1))~), mosquitto, caddy, openssl, ca-certificates, avahi-daemon
Section: net
Priority: optional
Description: asset and location tracking for a warehouse
 Scans of RFID readers, BLE gateways and handhelds become positions and history, with
 a web application and an API, on a box in the building that needs no internet.
CONTROL
  cat >"$control/postinst" <<'POSTINST'
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
data=$(LC_ALL=C sed -nE "s/^[^a-z#]*data_dir[[:space:]]*=[[:space:]]*[\"']([^\"']+)[\"'].*/\\1/p" /etc/edge/edge.toml 2>/dev/null || true)
if [ -f "${data:-/var/lib/edge}/edge.db" ]; then
  edge-setup --answers /dev/null
elif [ -f /etc/edge/answers ]; then
  edge-setup --answers /etc/edge/answers
  rm -f /etc/edge/answers # contains the first administrator's password
else
  echo "edge: now make the site: sudo edge-setup"
fi
POSTINST
  # All of it in postrm, because dpkg runs no prerm for a package that was never configured.
  cat >"$control/postrm" <<'POSTRM'
#!/bin/sh
set -e
case $1 in remove | purge) ;; *) exit 0 ;; esac
installed=/opt/edge/venv/systemd/install.sh
if [ -x $installed ]; then $installed --uninstall; fi
if [ "$1" = purge ]; then
  data=$(LC_ALL=C sed -nE "s/^[^a-z#]*data_dir[[:space:]]*=[[:space:]]*[\"']([^\"']+)[\"'].*/\\1/p" /etc/edge/edge.toml 2>/dev/null || true)
  # On another disk, only what belongs to the service: the disk may have other files.
  if [ -d "$data" ] && id -u edge >/dev/null 2>&1; then find "$data" -xdev -depth -user edge -delete || true; fi
  rm -rf /etc/edge /var/lib/edge /opt/edge
  if id -u edge >/dev/null 2>&1; then userdel edge; fi
fi
POSTRM
  chmod 755 "$control"/{postinst,postrm}
}

main "$@"
