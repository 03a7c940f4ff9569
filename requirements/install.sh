#!/bin/sh
# Install packages into the environment .venv or another: sh requirements/install.sh ENVIRONMENT ARGUMENTS
#
# The arguments are those of `pip install`. uv does in seconds what takes pip minutes; where uv
# cannot be had, pip does the same. pip finds builds of torch where PIP_FIND_LINKS says, so uv looks
# there too.
set -eu
environment=$1
shift
uv=.venv/bin/uv
if [ -x "$uv" ]; then
    export UV_FIND_LINKS="${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}"
    exec "$uv" pip install --quiet --python "$environment/bin/python" "$@"
fi
exec "$environment/bin/python" -m pip --disable-pip-version-check --no-input install -qq --no-compile "$@"
