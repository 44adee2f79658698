# shellcheck shell=bash
# Who is where, as the other nodes see it. Sourced by job.sh and by what runs on each node.

# The address of a node in the cluster's network. Some images map a host's own name to 127.0.1.1: Slurm knows better then.
address_of() {
  local address
  address=$(getent ahostsv4 "$1" | awk '$1 !~ /^127\./ { print $1; exit }')
  [ -n "$address" ] || address=$(scontrol show node --oneliner "$1" | sed -nE 's/.* NodeAddr=([0-9.]+) .*/\1/p')
  case $address in
    '' | 127.*)
      echo "error: the name $1 leads to no address in the cluster's network (got '${address}')" >&2
      return 1
      ;;
  esac
  echo "$address"
}

# The interface that has this address, on this node.
interface_of() {
  local interface
  if command -v ip >/dev/null; then
    interface=$(ip -oneline -4 address show to "$1" | awk '{ print $2; exit }')
  else
    interface=$(interface_by_route "$1")
  fi
  [ -n "$interface" ] || { echo "error: no network interface of $(hostname) has the address $1" >&2; return 1; }
  echo "$interface"
}

# Images mostly lack `ip`. By the kernel's table of routes: the interface whose own network the address is in.
interface_by_route() {
  local a b c d address name destination mask
  IFS=. read -r a b c d <<<"$1"
  address=$((a | b << 8 | c << 16 | d << 24))
  while read -r name destination _ _ _ _ _ mask _; do
    [[ $mask =~ ^[0-9A-F]{8}$ ]] && ((16#$mask != 0 && (address & 16#$mask) == 16#$destination)) || continue
    echo "$name"
    return
  done </proc/net/route
}

# A port of this node to listen on, in PORT: the first free one from the job's own place in 20000-29999. That range is below Linux's
# ephemeral ports (32768 and up), which any connection may hold, and above Slurm's own. Two jobs on one node start at the same
# place only if their ids differ by a multiple of 10000; and a job keeps the lock file of its port open until it ends, so that
# another cannot choose the port between our looking and our listening.
reserve_port() {
  local PORT_LOCK port=$((20000 + SLURM_JOB_ID % 10000)) tries
  for ((tries = 0; tries < 100; tries++)); do
    if { exec {PORT_LOCK}>"/tmp/gpucluster-port-$port"; } 2>/dev/null; then
      if flock --nonblock "$PORT_LOCK" && [ -z "$(ss --no-header --listening --tcp --numeric "sport = :$port")" ]; then
        PORT=$port
        return
      fi
      exec {PORT_LOCK}>&-
    fi
    port=$((port == 29999 ? 20000 : port + 1))
  done
  echo "error: no free port on $(hostname) among the 100 before $port" >&2
  return 1
}

# The one that ranks meet at, on the first node.
choose_port() {
  reserve_port || return
  export MASTER_PORT=$PORT
}
