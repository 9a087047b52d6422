# Sourced by the other scripts: where this checkout keeps its sockets, and the few settings that the shell itself needs.
# The rule for the socket and for REDIS_URL is config.py's; tests/source/test_house.py compares the two.

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
REDIS_FLOOR=7.0.15 # older ones have known holes in their Lua; the security archives of Debian 12 and Ubuntu 24.04 keep this one
UNIX_PATH_LIMIT=100 # sockaddr_un holds 107 bytes; redis and supervisord add a temporary suffix

die() {
    printf '%s: %s\n' "$(basename -- "$0")" "$*" >&2
    exit 1
}

# The directory that Python's tempfile.gettempdir() chooses.
temp_dir() {
    local dir
    for dir in "${TMPDIR:-}" "${TEMP:-}" "${TMP:-}" /tmp /var/tmp; do
        if [[ -n $dir && -d $dir && -w $dir ]]; then
            (cd -- "$dir" && pwd)
            return
        fi
    done
    die "no directory for temporary files; set TMPDIR"
}

# socket_path ROOT NAME: instance/NAME, or a private directory under the temporary one when that path is too long for a socket or
# holds characters that a URL would have to quote (redis-py stumbles over a space in it).
socket_path() {
    local LC_ALL=C # lengths are bytes
    local root=$1 path="$1/instance/$2" reference="$1/instance/redis.sock"
    if ((${#reference} > UNIX_PATH_LIMIT)) || [[ $reference == *[!A-Za-z0-9/._-]* ]]; then
        path="$(temp_dir)/facho-$(printf %s "$root" | sha256sum | cut -c1-12)/$2"
    fi
    printf '%s\n' "$path"
}

redis_socket() { socket_path "$1" redis.sock; }
supervisor_socket() { socket_path "$1" sv.sock; }
default_redis_url() { printf 'unix://%s?db=0\n' "$(redis_socket "$1")"; }

# private_dir PATH: make it if needed; nobody else may own it or look into it.
private_dir() {
    mkdir -p -m 700 -- "$1"
    [[ -O $1 && ! -L $1 ]] || die "$1 belongs to somebody else; remove it or set TMPDIR"
    chmod 700 -- "$1"
}

# NAME=value pairs, NUL-separated, of those names in .env that are asked for; read as config.py reads them.
dotenv_pairs() {
    "$ROOT/.venv/bin/python" -c '
import sys
from dotenv import dotenv_values
values = dotenv_values(sys.argv[1])
sys.stdout.write("".join(f"{name}={values[name]}\0" for name in sys.argv[2:] if values.get(name)))
' "$ROOT/.env" "$@"
}

# Export REDIS_URL, BIND, PORT and DEMO: environment first, then .env, then the default. EMBEDDED_REDIS=1: the server is ours to start.
load_env() {
    local pair name
    if [[ -f $ROOT/.env ]]; then
        while IFS= read -r -d '' pair; do
            name=${pair%%=*}
            [[ -v $name ]] || export "$name=${pair#*=}"
        done < <(dotenv_pairs REDIS_URL BIND PORT DEMO)
    fi
    EMBEDDED_REDIS=0
    if [[ -z ${REDIS_URL:-} ]]; then
        EMBEDDED_REDIS=1
        REDIS_URL=$(default_redis_url "$ROOT")
    fi
    export REDIS_URL BIND=${BIND:-127.0.0.1} PORT=${PORT:-8000} DEMO=${DEMO:-1}
}
