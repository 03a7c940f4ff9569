#!/usr/bin/env bash
# Tells a likewise service of decisions, and asks what contradicts one, with curl alone.
#
#   ./decide.sh http://127.0.0.1:8800 [TOKEN]
#
# Each decision has a key, so whatever was not answered may be sent again: the service knows it.
set -euo pipefail

url=$1/v1/monitors/default
token=${2:-}

ask() { # ask ROUTE BODY
    curl --silent --show-error --fail-with-body --retry 5 --retry-connrefused \
        --header "authorization: Bearer $token" --header "content-type: application/json" \
        --data "$2" "$url/$1"
    echo
}

ask observe '{"x": [0.50, 0.30], "z": "approved", "key": "loan-1"}'
ask observe '{"x": [0.55, 0.30], "z": "declined", "key": "loan-2"}'
ask check '{"x": [0.52, 0.30], "z": "declined"}'
ask batch '{"x": [[0.9, 0.1], [0.9, 0.12]], "z": ["approved", "approved"], "keys": ["loan-3", "loan-4"]}'
