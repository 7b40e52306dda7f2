#!/usr/bin/env bash
# A launch script of the shape people have: it knows nothing of Ridgeline. It starts a server in the background, waits
# for it, runs a load generator, writes what came of it, and stops the server.
set -euo pipefail

source "$(dirname "$0")/launch_lib.sh"
check_env_vars MODEL TP CONC PORT RESULT_DIR RESULT_FILENAME

if [[ "${DP_ATTENTION:-false}" == "true" ]]; then
  PARALLEL_ARGS=(--tp "$TP" --dp-attn)
else
  PARALLEL_ARGS=(--tp "$TP")
fi

SERVER_LOG="$RESULT_DIR/server.log"
cd "$RESULT_DIR"

python3 -m ridgeline.cli.main emulate \
  --model "$MODEL" \
  --served-model-name "$MODEL" \
  --gpu h200 \
  --precision "$PRECISION" \
  "${PARALLEL_ARGS[@]}" \
  --max-num-seqs $((2 * CONC)) \
  --port "$PORT" \
  --speed "${ENGINE_SPEED:-1}" > "$SERVER_LOG" 2>&1 &
SERVER_PID=$!
trap 'kill "$SERVER_PID" 2>/dev/null || true; wait "$SERVER_PID" 2>/dev/null || true' EXIT INT TERM

wait_for_server_ready "$PORT" "$SERVER_PID"

aiperf profile --model "$MODEL" --url "http://127.0.0.1:$PORT" --concurrency "$CONC" --artifact-dir "$RESULT_DIR"

printf '{"conc": %s, "tp": %s, "exit": %s}\n' "$CONC" "$TP" "$?" > "$RESULT_DIR/$RESULT_FILENAME.json"
echo "finished"
