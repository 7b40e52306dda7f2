# What launch scripts share: arguments are checked, servers are waited for.
check_env_vars() {
  local name missing=()
  for name in "$@"; do
    if [[ -z "${!name:-}" ]]; then missing+=("$name"); fi
  done
  if (( ${#missing[@]} )); then
    echo "missing environment: ${missing[*]}" >&2
    exit 1
  fi
}

wait_for_server_ready() {
  local port=$1 pid=$2
  until python3 -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$port/health', timeout=2)" 2>/dev/null; do
    if ! kill -0 "$pid" 2>/dev/null; then
      echo "the server died before it was ready" >&2
      exit 1
    fi
    sleep 0.2
  done
}
