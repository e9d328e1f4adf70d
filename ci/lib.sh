# Shared by the scripts in this folder, which source it first; it moves to the package's root.
# shellcheck shell=bash
set -euo pipefail
# --help prints the comment at the head of a script.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/ s/^# \{0,1\}//p' "$0" && exit 0 ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() { echo "${0##*/}: $*" >&2; exit 1; }

# Debian packages that building, testing and the demonstration need.
packages=(opensm libopensm-dev infiniband-diags ibutils ibsim-utils libibumad-dev libibmad-dev
  clang libclang-dev gcc libc6-dev pkg-config util-linux dpkg-dev valgrind)

# Installs what is missing; uses no network if nothing is.
install_missing() {
  command -v cargo >/dev/null || die "cargo not found: install Rust, see https://rustup.rs"
  local need have
  need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  have=$(rustc --version | cut -d' ' -f2)
  [ "$(printf '%s\n' "$need" "$have" | sort -V | head -1)" = "$need" ] ||
    die "Rust $have is too old, $need is needed (rustup update)"
  local missing=() p
  { command -v dpkg-query && command -v apt-get; } >/dev/null ||
    die "apt not found: install Debian's ${packages[*]} or their equivalents, then use cargo"
  for p in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  apt_install "${missing[@]}"
}

# apt_install PACKAGE...: installs them, after what another script installs at the moment.
apt_install() {
  echo "installing $*"
  local sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  {
    flock "$installing"
    "${sudo[@]}" apt-get update -q
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
  } {installing}>"${TMPDIR:-/tmp}/dfdn-apt.$(id -u)"
}

# The profile of Cargo.toml with which scripts build, and where that comes to lie. ci/test takes what its tests have built.
profile=${DFDN_PROFILE:-release}
built=${CARGO_TARGET_DIR:-$PWD/target}/$profile

# Slow tests; only ci/test --all runs them.
# shellcheck disable=SC2034 # the scripts that source this use it
slow_tests=(sa_load:: valgrind:: falsified:: documentation::scripts documentation::times unroutable::one_adapter handover:: command::path_sls)

# folder_in_memory: makes a folder in memory with room for the tests' files, from which programs may run, and prints it.
folder_in_memory() {
  local folder
  [ "$(df --output=avail -m -t tmpfs /dev/shm 2>/dev/null | tail -1)" -ge 2000 ] 2>/dev/null || return 1
  folder=$(mktemp -d /dev/shm/dfdn.XXXXXX 2>/dev/null) || return 1
  if install -m 755 /bin/true "$folder/runs" 2>/dev/null && "$folder/runs" 2>/dev/null; then
    rm "$folder/runs" && echo "$folder"
  else
    rm -rf "$folder" && false
  fi
}

# unoptimized_plugin [ARGUMENT...]: builds the plugin alone, in half the time of the profile "quick": its fabrics are small.
unoptimized_plugin() {
  CARGO_PROFILE_QUICK_OPT_LEVEL=0 \
    cargo build --lib --no-default-features --features plugin --profile quick --locked "$@"
}

# integration_tests: builds the program of the integration tests, and prints its path.
integration_tests() {
  cargo test --profile quick --locked --test all --no-run --message-format=json |
    sed -nE '/"kind":\["test"\]/ s/.*"executable":"([^"]+)".*/\1/p'
}

# host_tests: the modules of tests that start a simulator, one per line.
host_tests() {
  grep -l 'Ibsim::start' tests/*.rs | sed -E 's|tests/(.*)\.rs|\1::|'
  echo host::
}

# measured_fabrics: the fabrics of ci/measures as arguments of "dfdn generate", one per line.
measured_fabrics() { grep -vE '^(#|$)' ci/fabrics.list; }

# Shared by the scripts that run OpenSM over ibsim. "work" is a folder that is removed at their end.
pids=() simulated=() console=''
stop() {
  [ ${#pids[@]} = 0 ] || { kill -9 "${pids[@]}" && wait "${pids[@]}"; } 2>/dev/null || true
  pids=()
  [ -z "$console" ] || exec {console}>&-
  console=''
}
workplace() {
  work=$(mktemp -d)
  trap 'stop; rm -rf "$work"' EXIT
  umad2sim=$(find /usr/lib -name libumad2sim.so -print -quit)
  cargo build --profile "$profile" --locked
  # shellcheck disable=SC2034 # the scripts that source this use it
  dfdn=$built/dfdn
}

# within SECONDS TEXT FILE: waits for a log line.
within() {
  local i
  for ((i = 0; i < $1 * 10; i++)); do
    ! grep -qE -- "$2" "$3" 2>/dev/null || return 0
    sleep 0.1
  done
  return 1
}

# simulate FABRIC FOLDER: starts ibsim; "${simulated[@]}" before a command attaches it to the subnet at the first
# adapter, with FOLDER as OpenSM's folder. "stop" ends it.
simulate() {
  local fabric=$1 d=$2 socket host
  socket=dfdn-$$-$(basename "$d")
  host=$(sed -nE '/^(Hca|Ca)/ { s/^[^"]*"([^"]*)".*/\1/; p; q }' "$fabric")
  mkdir -p "$d"
  mkfifo "$d/console"
  exec {console}<>"$d/console"
  IBSIM_SOCKNAME=$socket ibsim -s -N 65536 -S 8192 -P 262144 "$fabric" <&"$console" >"$d/ibsim.log" 2>&1 &
  pids+=("$!")
  within 300 'simulator ready' "$d/ibsim.log" || die "ibsim does not start: $(tail -3 "$d/ibsim.log")"
  # shellcheck disable=SC2034 # the scripts that source this use it
  simulated=(env -C "$d" "IBSIM_SOCKNAME=$socket" "SIM_HOST=$host" "LD_PRELOAD=$umad2sim"
    "OSM_TMP_DIR=$d" "OSM_CACHE_DIR=$d")
}

# engine_used LOG: the engine whose tables OpenSM configured last.
engine_used() { sed -nE 's/.*: ([A-Za-z0-9_-]+) tables configured on all.*/\1/p' "$1" | tail -1; }

# configure ENGINE FABRIC FOLDER: writes FOLDER/conf for OpenSM. torus-2QoS refuses where it has no file of its own.
configure() {
  printf '%s\n' "routing_engine $1,no_fallback" 'event_plugin_name dfdn' 'force_log_flush TRUE' >"$3/conf"
  [ "$1" = torus-2QoS ] || return 0
  "$dfdn" export torus-2qos "$2" -o "$3/torus" >/dev/null 2>&1 || true
  echo "torus_config $3/torus/torus-2QoS.conf" >>"$3/conf"
}

# stock ENGINE FABRIC FOLDER: makes the dumps of one engine; if it fails, prints the reason.
# "limit": its seconds; "stock_options": further lines of its configuration. The plugin is loaded too, as it writes the
# SLs that the engine assigns (psl).
# shellcheck disable=SC2154 # the scripts that source this set both
stock() {
  local engine=$1 d=$3 used
  simulate "$2" "$d"
  configure "$engine" "$2" "$d"
  printf '%s\n' ${stock_options[@]+"${stock_options[@]}"} >>"$d/conf"
  "${simulated[@]}" "LD_LIBRARY_PATH=$built" \
    /usr/sbin/opensm -F "$d/conf" -f "$d/log" -D 0x47 >"$d/out" 2>&1 &
  pids+=("$!")
  within "$limit" 'dfdn: (DF06|DF07|ERR DF27)|No routing engine able' "$d/log" || true
  stop
  used=$(engine_used "$d/log")
  if [ "$used" = "$engine" ] && grep -qE 'dfdn: (DF06|DF07)' "$d/log"; then return 0; fi
  if grep -q 'No routing engine able' "$d/log"; then echo refused; else echo "not finished in $limit s"; fi
  return 1
}

# between FROM TO LOG: seconds from the first line with FROM to the first with TO after it, across midnight.
between() {
  awk -v from="$1" -v to="$2" '{ split($3, t, ":"); now = (t[1] * 60 + t[2]) * 60 + t[3] + $4 / 1e6 }
    start == "" && $0 ~ from { start = now }
    start != "" && end == "" && $0 ~ to { end = now < start ? now + 86400 : now }
    END { if (end != "") printf "%.3f", end - start }' "$3"
}

# window LOG: seconds from the first 'building routing' to the first 'tables configured'.
window() { between 'building routing' 'tables configured' "$1"; }

# value FILE KEY: from flat JSON.
value() { sed -nE "/^ *\"$2\":/ { s/^[^:]*: *([^,]*),?$/\1/; p; q }" "$1"; }
