#!/bin/bash
# The guest's end of the line to the tests: reads "<token> <seconds> <script in base64>", runs the script, and answers
# "<token> <exit code> =<output in base64> =<errors in base64>".
port=/dev/virtio-ports/berth.agent
dir=/run/berth-agent
mkdir -p "$dir"
exec 3<>"$port"
while :; do
    # Without a listener a read ends at once.
    read -r token seconds script <&3 || { sleep 0.2; continue; }
    base64 -d <<<"$script" >"$dir/script"
    timeout -k 5 "$seconds" bash "$dir/script" >"$dir/out" 2>"$dir/err" </dev/null 3>&-
    printf '%s %d =%s =%s\n' "$token" $? "$(base64 -w0 "$dir/out")" "$(base64 -w0 "$dir/err")" >&3
done
