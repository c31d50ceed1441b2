#!/usr/bin/env bash
# A Debian package for `apt install ./FILE`, from a bundle that make-bundle.sh made: its checkout and its wheels, while
# mosquitto, caddy and Python come from Debian. It is for the release of Debian and the processor of the bundle.
#
#   systemd/make-deb.sh BUNDLE [FOLDER [KEY]]
#
# KEY, of sign-release, signs the package; a site compares it first: edge-verify FILE && apt install ./FILE.
# Installing it makes nothing but the command edge-setup, which asks for the site, unless /etc/edge/answers has the
# answers. Each later version is tried on a copy of the site before it takes over, as by `edge upgrade`; if it does not
# work, apt tells why and the one from before goes on. Settings are made once, kept by upgrades and by `apt remove`, and
# removed with the data by `apt purge`.
set -euo pipefail

fail() { printf 'make-deb.sh: %s\n' "$*" >&2; exit 1; }

main() {
  [[ $# -ge 1 && $1 != -* ]] || { sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
  local bundle folder=${2:-$PWD} key=${3:-} here scratch version debian arch file
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
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
  file=$(realpath "$folder")/edge_$version~${debian}_$arch.deb
  fill "$scratch/root" "$scratch/bundle"
  describe "$scratch/root" "$version~$debian" "$arch"
  chmod -R go=rX "$scratch/root"
  dpkg-deb --root-owner-group -Zxz -z1 --build "$scratch/root" "$file" >/dev/null
  cp "$scratch/bundle/sbom.cdx.json" "${file%.deb}.cdx.json"
  if [[ -n $key ]]; then "$here/sign-release" "$key" "$file"; fi
  echo "$file, $(du -m "$file" | cut -f1) MB"
}

fill() {
  local root=$1 bundle=$2
  mkdir -p "$root"/{DEBIAN,usr/share/edge,usr/share/doc/edge,usr/sbin}
  cp -r "$bundle/edge" "$root/usr/share/edge/checkout"
  cp -r "$bundle/wheels" "$root/usr/share/edge/wheels"
  cp "$bundle/release" "$root/usr/share/edge/checkout/"
  cp "$bundle/sbom.cdx.json" "$root/usr/share/doc/edge/"
  cat >"$root/usr/sbin/edge-setup" <<'SETUP'
#!/bin/sh
# Completes the installation of the package: asks for the organization and its first administrator. Options: install.sh.
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/usr/share/edge/wheels
unset PIP_INDEX_URL PIP_EXTRA_INDEX_URL
exec /usr/share/edge/checkout/systemd/install.sh "$@"
SETUP
  chmod 755 "$root/usr/sbin/edge-setup"
}

describe() {
  local control=$1/DEBIAN
  cat >"$control/control" <<CONTROL
Package: edge
Version: $2
Architecture: $3
Maintainer: edge <edge@localhost>
Installed-Size: $(du -sk "$1/usr" | cut -f1)
Depends: python3, python3-venv, mosquitto, caddy, openssl, ca-certificates, avahi-daemon
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
if [ -f /var/lib/edge/edge.db ]; then
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
  rm -rf /etc/edge /var/lib/edge /opt/edge
  if id -u edge >/dev/null 2>&1; then userdel edge; fi
fi
POSTRM
  chmod 755 "$control"/{postinst,postrm}
}

main "$@"
