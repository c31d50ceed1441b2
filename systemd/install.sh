#!/usr/bin/env bash
# Install edge on Debian 12 or later, or upgrade an installed edge. It is safe to run it again.
#
#   sudo systemd/install.sh                    asks for the organization and its first administrator
#   sudo systemd/install.sh --answers FILE     asks nothing; see systemd/answers.example
#   sudo systemd/install.sh --check            checks the requirements and changes nothing
#   sudo systemd/install.sh --offline FILE     installs without internet, from a file of systemd/make-bundle.sh
#   sudo systemd/install.sh --publisher KEY    accepts only bundles of this publisher, now and later
#   sudo systemd/install.sh --http             no HTTPS, only for an isolated network
#   sudo systemd/install.sh --restore FILE --identity KEYFILE    replaces the box that wrote the disaster file
#   sudo systemd/install.sh --uninstall        removes the program, keeps settings, database and backups
#   sudo systemd/install.sh --uninstall --purge    also removes settings, database and backups
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(dirname "$here")
program=/opt/edge
settings=/etc/edge
home=/var/lib/edge data=/var/lib/edge # data: data_dir of the settings, see find_data
units=/etc/systemd/system
mosquitto=/etc/mosquitto
disks=(/mnt /media /srv)
apt=(apt-get)
# Characters of a password at least
least=12

main() {
  local answers='' uninstall='' purge='' https=yes upgraded='' check='' bundle='' scratch='' first='' disaster='' identity='' restored='' publisher=''
  while [[ $# -gt 0 ]]; do
    case $1 in
      --answers) answers=$(realpath -e "${2:?--answers needs a file}"); shift ;;
      --check) check=yes ;;
      --offline) bundle=$(realpath -e "${2:?--offline needs a file}"); shift ;;
      --publisher) publisher=$(realpath -e "${2:?--publisher needs a file}"); shift ;;
      --restore) disaster=$(realpath -e "${2:?--restore needs a file}"); shift ;;
      --identity) identity=$(realpath -e "${2:?--identity needs the file with the private key}"); shift ;;
      --http) https='' ;;
      --uninstall) uninstall=yes ;;
      --purge) purge=yes ;;
      *) sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
    esac
    shift
  done
  [[ $EUID -eq 0 ]] || fail "run it as root: sudo $0"
  cd / # import and run nothing from the caller's folder
  find_data "$settings/edge.toml"
  if [[ -n $uninstall ]]; then
    uninstall "$purge"
    return
  fi
  require_data
  if [[ -n $disaster ]]; then require_fresh; fi
  [[ -f $checkout/pyproject.toml || -f $checkout/pyvenv.cfg ]] || fail "run it from a checkout: pyproject.toml is not in $checkout"
  read_answers "$answers"
  recall_choices
  check_machine "$check"
  if [[ -n $bundle ]]; then open_bundle; fi
  [[ -z $check ]] || return 0
  ask
  install_packages
  build_program
  if [[ -n $disaster ]]; then open_disaster_file; fi
  make_user
  if [[ -n $disaster ]]; then put_settings_back; installation take-names "$restored/settings"; fi
  write_settings
  install_program
  if [[ -n $disaster ]]; then put_data_back; fi
  make_site
  say "Broker"
  installation broker
  if [[ -n $https ]]; then serve_https; fi
  rm -f "$settings/unfinished"
  start_service
  first_backup
  /usr/local/sbin/edge-mdns on
  sync # after a power cut, files that are not on the disk yet are empty: the authority, its key, the settings of the broker
  installation summary ${restored:+"$restored/settings"}
}

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }
# In a session of its own: a program of the service's user could type commands into root's terminal.
as_edge() { setsid --wait setpriv --reuid=edge --regid=edge --clear-groups --no-new-privs "$@"; }

# The folder of the database: data_dir of the settings, which may be on another disk.
find_data() {
  if [[ -f $1 ]]; then data=$(installation data-folder "$1") || exit 1; fi
}

# Never start an empty site where one was: its disk may not be mounted, or the settings that name it may be lost. Then
# the only database of this computer is the site's.
require_data() {
  [[ ! -f $settings/unfinished && -z $disaster ]] || return 0
  if [[ ! -f $settings/edge.toml ]]; then
    [[ -f $settings/signing.key || -L $program/venv || -s $home/broker/passwd ]] || return 0
    local found
    mapfile -t found < <({ find "$home" -maxdepth 1 -name edge.db; find "${disks[@]}" -maxdepth 4 -name edge.db; } 2>/dev/null || true)
    if [[ ${#found[@]} = 1 ]]; then
      data=${found[0]%/*}
      echo "NOTE: the settings $settings/edge.toml are lost. They are written again for the database in $data" >&2
      return
    fi
    fail "this computer had a site, whose settings $settings/edge.toml are lost, and it has ${#found[@]} databases: ${found[*]} \
Nothing was changed: put the settings back, or mount the disk of the site, rename the other databases, and run $0 again. \
For a new site: $0 --uninstall --purge"
  fi
  [[ ! -f $data/edge.db ]] || return 0
  fail "this computer has the settings of a site, but its database is not in $data, and nothing was changed: mount its disk, \
fix data_dir in $settings/edge.toml, or put a backup back: edge restore. For a new site: $0 --uninstall --purge"
}

# A disaster file never replaces an existing site.
require_fresh() {
  [[ -n $identity ]] || fail "--restore needs the owner's private key: --identity KEYFILE"
  [[ ! -f $data/edge.db && ! -f $settings/edge.toml ]] ||
    fail "this computer already has a site, which was not changed. To delete it: $0 --uninstall --purge"
}

# A step in tested Python, once it is installed: edge/operations/root/installation.py of this checkout or package.
installation() {
  local code
  for code in "$checkout" "$checkout"/lib/python3*/site-packages; do [[ ! -d $code/edge/operations/root ]] || break; done
  python3 -I -S -B -c 'import sys; sys.path.append(sys.argv.pop(1))
from edge.operations.root.installation import main; main()' "$code" "$here" "$@"
}

# Check for all conflicts before changing anything.
check_machine() {
  local ports="http=${http_port:-8080} mqtt=${mqtt_port:-1883}" output offline=$bundle
  if [[ -f $settings/edge.toml ]]; then # already installed: its ports are its own
    ports=''
  elif [[ -n $https ]]; then
    ports+=" https=$https_port redirect=$redirect_port mqtts=$mqtts_port"
  fi
  if [[ -f $checkout/pyvenv.cfg ]]; then offline=yes; fi # dpkg has installed what the package needs
  if output=$("$here/check-machine" ${offline:+--offline} --ports "$ports"); then
    if [[ -n $1 ]]; then printf '%s\n' "$output"; else grep '^NOTE' <<<"$output" || true; fi
    return
  fi
  if [[ -n $1 ]]; then printf '%s\n' "$output"; else grep '^STOP' <<<"$output" >&2; fi
  fail "nothing was changed"
}

# Verify every file of the bundle, and that it was made for this release. pip and apt then use the bundle only.
open_bundle() {
  say "Bundle"
  scratch=$(mktemp -d)
  # shellcheck disable=SC2064  # expand now
  trap "rm -rf '$scratch'" EXIT
  unpack_bundle
  cmp -s "$scratch/requirements.txt" "$here/requirements.txt" ||
    fail "$bundle was made for another release than this checkout, and nothing was changed: use the edge folder that is in it"
  local wheel target
  for wheel in "$scratch"/wheels/*; do
    grep -qF "sha256:$(sha256sum "$wheel" | cut -d' ' -f1)" "$here/requirements.txt" ||
      fail "${wheel##*/} in $bundle is not the file this release was made with, and nothing was changed: get it again from the publisher"
  done
  target=debian$(sed -n 's/^VERSION_ID="\{0,1\}\([0-9]*\).*/\1/p' /etc/os-release)
  [[ $(cat "$scratch/target") = "$target $(dpkg --print-architecture)" ]] ||
    fail "$bundle is for $(cat "$scratch/target"), this is $target $(dpkg --print-architecture), and nothing was changed: make-bundle.sh makes one for it"
  export PIP_NO_INDEX=1 PIP_FIND_LINKS=$scratch/wheels
  unset PIP_INDEX_URL PIP_EXTRA_INDEX_URL
  chmod 755 "$scratch"
  echo "deb [trusted=yes] file:$scratch/packages ./" >"$scratch/sources.list"
  mkdir "$scratch/lists"
  apt=(apt-get -o "Dir::Etc::SourceList=$scratch/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$scratch/lists")
  if [[ -f $scratch/release ]]; then cp "$scratch/release" "$scratch/edge/"; fi
  checkout=$scratch/edge here=$scratch/edge/systemd # the verified copy, not the folder of this script
  echo "whole, $(find "$scratch/wheels" "$scratch/packages" -type f | wc -l) files"
}

# Let edge-verify unpack it, which accepts only files with a checksum that the publisher signed. A bare Debian gets the
# tools for it from the bundle. Without them only the checksums are compared, with a warning, unless a publisher is known.
unpack_bundle() {
  local known=${publisher:-$settings/publisher.pub} tool
  for tool in python3 openssl; do
    command -v "$tool" >/dev/null && continue
    [[ ! -f $known ]] || fail "$tool, which verifies the signature of $bundle, is not installed, and nothing was changed: apt-get install $tool"
    echo "WARNING: the publisher of the bundle is not verified because $tool is not installed yet" >&2
    compare_checksums
    return
  done
  "$here/edge-verify" --first --unsigned ${publisher:+--publisher "$publisher"} --unpack "$scratch" "$bundle" || fail "nothing was changed"
  if [[ ! -f $known && -f $scratch/publisher.pub ]]; then publisher=$scratch/publisher.pub; fi
}

compare_checksums() {
  [[ $(tar --list --verbose --file "$bundle" 2>/dev/null | grep -cv '^[-d]') = 0 ]] ||
    fail "$bundle holds links, which no bundle has, and nothing was changed: get it again from the publisher"
  tar --extract --file "$bundle" --directory "$scratch" --no-same-owner 2>/dev/null ||
    fail "$bundle cannot be unpacked, and nothing was changed: copy it here again"
  (cd "$scratch" && sha256sum --check --quiet --strict SHA256SUMS >/dev/null 2>&1) ||
    fail "$bundle is damaged, and nothing was changed: copy it here again, and compare its checksum with the one that make-bundle.sh printed"
  [[ -z $(cd "$scratch" && find . -type f ! -path ./SHA256SUMS ! -path ./SHA256SUMS.minisig | sort | comm -23 - <(sed 's/^[0-9a-f]*  //' SHA256SUMS | sort)) ]] ||
    fail "$bundle holds files without a checksum, and nothing was changed: get it again from the publisher"
}

# Read known names only; nothing in the file is executed.
read_answers() {
  named='' organization='' email='' password='' http_port='' mqtt_port='' https_name='' network_name=''
  https_port=443 redirect_port=80 mqtts_port=8883
  [[ -n $1 ]] || return 0
  if [[ -f $1 ]]; then chmod 0600 "$1"; fi # contains a password
  local line value
  while IFS= read -r line || [[ -n $line ]]; do
    value=${line#*=}
    if [[ $line =~ ^[A-Z]+_(PORT|NAME)= ]]; then named+=" ${line%%=*}"; fi
    case $line in
      ORGANIZATION=*) organization=$value ;;
      EMAIL=*) email=$value ;;
      PASSWORD=*) password=$value ;;
      HTTP_PORT=*) http_port=$value ;;
      MQTT_PORT=*) mqtt_port=$value ;;
      HTTPS_PORT=*) https_port=$value ;;
      REDIRECT_PORT=*) redirect_port=$value ;;
      MQTTS_PORT=*) mqtts_port=$value ;;
      HTTPS_NAME=*) https_name=$value ;;
      NETWORK_NAME=*)
        network_name=$(name_of "$value")
        is_name "$network_name" || fail "$1: NETWORK_NAME: $value is not a name: letters a to z, digits, hyphens"
        ;;
      '' | '#'*) ;;
      *) fail "$1: not an answer: ${line%%=*}" ;;
    esac
  done <"$1"
  if [[ -n $password && ! -f $data/edge.db ]]; then
    value=$(password_fault "$password")
    [[ -z $value ]] || fail "$1: PASSWORD: $value, and nothing was changed"
  fi
}

# Settings that were lost are written again with the ports and names that mosquitto and Caddy still have.
recall_choices() {
  local name value
  [[ ! -f $settings/edge.toml && -f $mosquitto/conf.d/edge.conf ]] || return 0
  value=$(sed -n 's/^listener \([0-9]*\).*/\1/p' "$mosquitto/conf.d/edge.conf")
  mqtt_port=${mqtt_port:-${value%%$'\n'*}}
  [[ -f $settings/https.conf ]] || { https=''; return; }
  while IFS='=' read -r name value; do
    case $name in
      PORT) https_port=$value ;;
      REDIRECT_PORT) redirect_port=$value ;;
      MQTT_PORT) mqtts_port=$value ;;
      NAMES) https_name=${value%% *} ;;
      PLAIN_PORT) http_port=$value ;;
    esac
  done <"$settings/https.conf"
}

# Prints why `edge init` would refuse a password, see edge/people/passwords.py. Nothing if it would not.
password_fault() {
  if [[ ${#1} -lt $least ]]; then echo "it has fewer than $least characters"; return; fi
  local list bare=${1,,} LC_ALL=C # bytes, as the list has ASCII only
  while [[ $bare = [[:digit:][:punct:]\ ]* ]]; do bare=${bare#?}; done
  while [[ $bare = *[[:digit:][:punct:]\ ] ]]; do bare=${bare%?}; done
  for list in "$checkout"{,/lib/python3*/site-packages}/edge/people/common-passwords.txt; do
    [[ -f $list ]] || continue
    # Not as arguments, which every user of the computer can see.
    if printf '%s\n' "${1,,}" "$bare" | grep -qxF -f - "$list"; then
      echo "it is one of the most used ones, perhaps with digits added"
      return
    fi
  done
}

# Ask everything first: the rest takes some minutes and needs nobody.
ask() {
  [[ -t 0 && -z $disaster && -z $organization && ! -f $data/edge.db ]] || return 0
  echo "Five answers, then everything is installed, which takes a few minutes."
  if [[ ! -f $settings/edge.toml || -f $settings/unfinished ]]; then ask_name; fi
  local again='' fault=''
  while [[ -z $organization ]]; do read -rp "Name of the organization: " organization; done
  while [[ $email != ?*@?* ]]; do read -rp "Email address of its first administrator: " email; done
  while [[ -z $password ]]; do
    read -rsp "Password (at least $least characters): " password; echo
    fault=$(password_fault "$password")
    if [[ -z $fault ]]; then
      read -rsp "The same password again: " again; echo
      [[ $password = "$again" ]] || fault="the two differ"
    fi
    if [[ -n $fault ]]; then echo "Choose another one: $fault"; password=''; fi
  done
}

ask_name() {
  local proposal
  proposal=$(proposed_name)
  while [[ -z $network_name ]]; do
    read -rp "Name of this box in its network, which no other box there has [$proposal]: " network_name
    network_name=$(name_of "${network_name:-$proposal}")
    is_name "$network_name" || { echo "Not a name: letters a to z, digits, hyphens"; network_name=''; }
  done
}

install_packages() {
  say "Packages of Debian"
  local package needed=(python3 mosquitto ca-certificates avahi-daemon) missing=()
  if [[ ! -f $checkout/pyvenv.cfg ]]; then needed+=(python3-venv); fi
  if [[ -n $https ]]; then needed+=(caddy openssl); fi
  for package in "${needed[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  if [[ ${#missing[@]} -gt 0 ]]; then
    echo "installing ${missing[*]}, about a minute"
    "${apt[@]}" update -qq || fail "cannot download Debian's package lists, and nothing was changed. Check the network, or use --offline FILE"
    DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  fi
  echo "ok"
}

# Decrypt and verify the whole file before using any of it. The program that does it goes again if the file is not used.
open_disaster_file() {
  say "Disaster file"
  restored=$(mktemp -d)
  # shellcheck disable=SC2064  # expand now
  trap "rm -rf '$restored' '$scratch'" EXIT
  "$first/bin/edge" disaster-unpack "$disaster" "$restored" --identity "$identity" >/dev/null ||
    give_up "nothing of it was used"
  find_data "$restored/settings/edge.toml"
  [[ -d $data || $data = "$home" ]] ||
    give_up "the old box had its data in $data, which this computer does not have. Only packages of Debian were installed: mount a disk there, make the folder, and run this again"
  [[ ! -f $data/edge.db ]] ||
    give_up "$data already has a database, which was not changed: use it without --restore, or move it away first"
  echo "whole, with $(find "$restored" -type f | wc -l) files"
}

give_up() {
  [[ $first -ef $program/venv ]] || rm -rf "${first:?}"
  rmdir --ignore-fail-on-non-empty "$program/releases" "$program" 2>/dev/null || true
  fail "$1"
}

# Restores the authority as well: devices that trust the old box trust this one.
put_settings_back() {
  install -d -o root -g edge -m 0750 "$settings"
  local file
  for file in "$restored"/settings/*; do
    case ${file##*/} in
      names) ;;
      *.crt | *.pub) install -m 0644 "$file" "$settings" ;;
      *) install -m 0600 "$file" "$settings" ;; # write_settings gives the service access to its files
    esac
  done
}

# Written as the service, which owns the folder.
put_data_back() {
  local file name
  for file in "$restored"/data/*; do
    name=${file##*/}
    as_edge tee "$data/$name" <"$file" >/dev/null
    as_edge chmod 0600 "$data/$name"
  done
  /usr/local/bin/edge restore --yes "$data/database.db.gz"
  as_edge rm -f "$data/database.db.gz"
}

make_user() {
  if ! id -u edge >/dev/null 2>&1; then
    local uid='' group=(--user-group)
    if [[ -d $home ]]; then uid=$(stat -c %u "$home"); fi # a lost account gets its number back, which owns the data
    if [[ -n $uid ]] && getent passwd "$uid" >/dev/null; then uid=''; fi
    if getent group edge >/dev/null; then group=(--gid edge); fi
    useradd --system ${uid:+--uid "$uid"} "${group[@]}" --home-dir "$home" --no-create-home --shell /usr/sbin/nologin edge
  fi
  [[ ! -L $home ]] || fail "$home is a link; put a folder there, or mount a disk at that place"
  install -d -o edge -g edge -m 0750 "$home"
  # The service owns this folder, so root creates nothing in it: a link could redirect it.
  as_edge mkdir -p -m 0750 "$home/broker"
  if [[ -d $data && -n $disaster ]]; then chown edge:edge "$data" && chmod 0750 "$data"; fi
}

# The first release is built before the user and the settings exist: a failed build leaves nothing behind. A broken
# release, as after a Debian upgrade to another Python, is replaced in the same way.
build_program() {
  if [[ $checkout -ef $program/venv ]]; then # the program of this box repairs the rest, and is not installed once more
    "$program/venv/bin/edge" --version >/dev/null 2>&1 ||
      fail "the program of this box does not start, and nothing was changed: run install.sh of the bundle or checkout it came from"
    first=$(realpath "$program/venv")
    return
  fi
  if [[ -f $data/edge.db && -f $units/edge.service ]] && "$program/venv/bin/edge" --version >/dev/null 2>&1; then return; fi
  say "Program"
  echo "installing edge and its libraries, about a minute"
  first=$("$here/edge-upgrade" --build "$checkout")
  echo "$first"
}

# Upgrade a running installation with a trial and a rollback.
install_program() {
  if [[ -n $first ]]; then
    "$here/edge-upgrade" --use "$first"
    if [[ -f $data/edge.db ]]; then run_service restart; fi # migrates the database of an earlier release
  else
    say "Program"
    # Running this script as root already means that the administrator trusts its folder.
    "$here/edge-upgrade" --unsigned "$checkout"
    upgraded=yes
  fi
}

write_settings() {
  install -d -o root -g edge -m 0750 "$settings"
  if [[ -n $publisher && ! $publisher -ef $settings/publisher.pub ]]; then
    install -o root -g root -m 0644 "$publisher" "$settings/publisher.pub"
  fi
  local secret url
  for secret in mqtt.password signing.key; do
    [[ -s $settings/$secret ]] || (umask 077 && head -c 48 /dev/urandom | base64 -w 0 >"$settings/$secret")
  done
  if [[ -f $settings/edge.toml && ! -f $settings/unfinished ]]; then
    # Keep the existing choice.
    [[ -f $settings/https.conf ]] || https=''
    if [[ -n ${named:-} ]]; then
      echo "NOTE: not used, because this box is installed already:$named. To change them: sudo edge-mdns name NAME;" \
        "sudo edge-https on --port PORT --name NAME; http.listen and mqtt.broker in $settings/edge.toml" >&2
    fi
  else
    touch "$settings/unfinished" # until HTTPS is set up: repeated after an interruption, with the choices of that run
    choose_name
    url=$(installation public-url "${https_name:-$network_name.local}" "${http_port:-8080}" ${https:+"$https_port"})
    if [[ -f $settings/https.conf ]]; then systemctl stop caddy.service; fi # it has the port of the service until serve_https
    sed -e "s|^data_dir = .*|data_dir = \"$data\"|" -e "s|@PUBLIC_URL@|$url|" -e "s/@HTTP_PORT@/${http_port:-8080}/" -e "s/@MQTT_PORT@/${mqtt_port:-1883}/" \
      -e "s/@CLIENT_ID@/$(od -An -N8 -tx1 /dev/urandom | tr -d ' ')/" "$here/edge.toml" >"$settings/edge.toml"
  fi
  chown root:edge "$settings"/{edge.toml,mqtt.password,signing.key}
  chmod 0640 "$settings"/{edge.toml,mqtt.password,signing.key}
}

# Keep a host name that is already set in avahi. Two boxes must not share one name.
choose_name() {
  network_name=$(name_of "${network_name:-$(proposed_name)}")
  "$here/edge-mdns" name "$network_name"
}

proposed_name() {
  local name=''
  if [[ -f /etc/avahi/avahi-daemon.conf ]]; then name=$(sed -n 's/^host-name=//p' /etc/avahi/avahi-daemon.conf); fi
  echo "${name:-edge-$(head -c 4 /etc/machine-id)}"
}

# Names in a network have no case.
name_of() { local name=${1,,}; echo "${name%.local}"; }
is_name() { local LC_ALL=C; [[ $1 =~ ^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$ ]]; }

make_site() {
  say "Site"
  local organizations
  if [[ -f $data/edge.db ]] && { ! organizations=$(/usr/local/bin/edge org list) || [[ -n $(tail -n +2 <<<"$organizations") ]]; }; then
    echo "the database in $data is kept"
    return
  fi
  # Not asked at the start if an interrupted installation left an empty database.
  if [[ -z $organization ]]; then read -rp "Name of the organization: " organization; fi
  if [[ -z $email ]]; then read -rp "Email address of its first administrator: " email; fi
  systemctl stop edge.service 2>/dev/null || true # runs if an earlier installation was interrupted before this step
  if [[ -n $password ]]; then
    /usr/local/bin/edge init --org "$organization" --email "$email" <<<"$password"
  else
    /usr/local/bin/edge init --org "$organization" --email "$email"
  fi
}

serve_https() {
  say "HTTPS"
  if [[ -f $settings/https.conf ]]; then
    /usr/local/sbin/edge-https on --as-before
  else
    /usr/local/sbin/edge-https on --port "$https_port" --redirect-port "$redirect_port" --mqtt-port "$mqtts_port" \
      ${https_name:+--name "$https_name"}
  fi
}

start_service() {
  say "Service"
  local timers=(edge-backup.timer edge-drill.timer edge-doctor.timer)
  systemctl enable --quiet edge.service edge-{upgrade,probation}.service edge-accounts.path "${timers[@]}"
  systemctl restart edge-accounts.path "${timers[@]}"
  run_service "$([[ -n $upgraded ]] && echo start || echo restart)"
  systemctl is-active edge.service
}

# The first one now, so that no day is without and the doctor has nothing to report.
first_backup() {
  [[ -z $(compgen -G "$data/backups/*.gz") ]] || return 0
  say "Backup"
  /usr/local/bin/edge backup || echo "WARNING: the first backup failed: sudo edge doctor" >&2
}

run_service() {
  systemctl "$1" edge.service || {
    journalctl -u edge.service -n 20 --no-pager >&2
    fail "the service did not start. Fix the error above, then run this again"
  }
}

uninstall() {
  say "Removing edge"
  local name had_database=''
  [[ ! -f $data/edge.db ]] || had_database=yes
  # The choice of HTTPS and the address on labels are settings, and settings are kept.
  for name in https.conf edge.toml; do [[ ! -f $settings/$name ]] || cp -p "$settings/$name" "$settings/$name.kept"; done
  [[ ! -x /usr/local/sbin/edge-https ]] || /usr/local/sbin/edge-https off >/dev/null || true
  for name in https.conf edge.toml; do [[ ! -f $settings/$name.kept ]] || mv -T "$settings/$name.kept" "$settings/$name"; done
  [[ ! -x /usr/local/sbin/edge-mdns ]] || /usr/local/sbin/edge-mdns off
  systemctl disable --quiet --now edge.service edge-{upgrade,probation}.service edge-{backup,drill,doctor,https}.timer edge-accounts.path 2>/dev/null || true
  for name in "$here"/edge*.{service,timer,path}; do rm -f "${units:?}/${name##*/}"; done
  rm -f "$units/mosquitto.service.d/edge.conf" /etc/mosquitto/conf.d/edge.conf /etc/mosquitto/conf.d/{edge-tls,edge_share,zz-edge-upstream-*}.conf \
    /etc/mosquitto/edge.{passwd,acl,restart,clear} /usr/local/bin/edge /usr/local/sbin/edge-{disaster,https,mdns,upgrade,verify}
  rmdir --ignore-fail-on-non-empty "$units/mosquitto.service.d" 2>/dev/null || true
  if [[ -f $data/sync-secret ]]; then
    echo "this box was a site of a hub: remove the site on the hub's page Sync, or its key stays valid"
  fi
  rm -rf "${program:?}"
  systemctl daemon-reload
  systemctl reset-failed 'edge*' 2>/dev/null || true
  systemctl try-restart mosquitto.service || true
  if [[ -n $1 ]]; then
    # On another disk, only what belongs to the service: the disk may have other files.
    if [[ -d $data && $data != "$home" ]]; then find "$data" -xdev -depth -user edge -delete 2>/dev/null || true; fi
    rm -rf "${home:?}" "${settings:?}"
    userdel edge 2>/dev/null || true
    if [[ -e $data/edge.db ]]; then
      echo "removed the program and its settings; the database in $data could not be removed"
    elif [[ -z $had_database ]]; then
      echo "removed the program and its settings; no database was in $data, so one on a disk that is not mounted is kept"
    else
      echo "removed the program, its settings, the database and its backups"
    fi
  else
    echo "removed the program; kept $settings and $data (remove them with --uninstall --purge)"
  fi
  echo "mosquitto itself is still installed: apt-get remove mosquitto"
}

main "$@"
