# shellcheck shell=bash
# Sourced by up, down and key: where things are, and the checks whose failure is ONE line that says what is wrong and what
# to do. Nothing here starts or changes anything.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
compose=$root/deploy/compose
me=${0##*/}

die() { echo "$me: $*" >&2; exit 1; }

need_docker() {
    command -v docker >/dev/null ||
        die "Docker is not installed: install Docker Engine 20.10 or newer, then try again"
    local answer
    if ! answer=$(docker version --format '{{.Server.Version}}' 2>&1); then
        case $answer in
            *"permission denied"*) die "this user may not use Docker: run this with sudo, or join the group docker" ;;
            *) die "the Docker daemon does not answer: start it (systemctl start docker), then try again" ;;
        esac
    fi
}

need_architecture() {
    local machine
    machine=$(uname -m)
    case $machine in
        x86_64 | amd64 | aarch64 | arm64) ;;
        *) die "this machine is $machine, and Arkvory is built for x86_64 and aarch64: use one of those" ;;
    esac
}

# Images, build cache and files lie below Docker's own folder.
need_disk() {
    local folder free
    folder=$(docker info --format '{{.DockerRootDir}}')
    # A daemon on another machine has its disk there.
    [[ -d $folder ]] || return 0
    free=$(df --output=avail -B1M "$folder" | tail -n 1)
    ((free >= 2048)) ||
        die "only ${free// /} MiB are free on the disk of $folder, 2048 are needed: make room (docker system prune), then try again"
}

# What Compose made of the shell's environment and .env.
settings=
read_settings() {
    "$compose" config --quiet || die "compose.yaml or .env can't be used as it is (see above): correct it, then try again"
    settings=$("$compose" config --environment)
    project=$("$compose" config | sed -n 's/^name: //p' | head -n 1)
}
setting() { # name, default
    local value
    value=$(sed -n "s/^$1=//p" <<<"$settings" | tail -n 1)
    echo "${value:-$2}"
}

# A port that our own running stack has is not "taken".
need_port() { # setting, default
    local publish host port other
    publish=$(setting "$1" "$2")
    port=${publish##*:}
    host=${publish%"$port"}
    host=${host%:}
    case $host in "" | 0.0.0.0) host=127.0.0.1 ;; "[::]") host=::1 ;; esac
    host=${host#[}
    host=${host%]}
    [[ $port =~ ^[0-9]+$ ]] || die "$1=$publish is not an address with a port: write for example $1=$2"
    # 0 means "any free one".
    ((port != 0)) || return 0
    if [[ -n $(docker ps --quiet --filter "label=com.docker.compose.project=$project" \
        --filter label=com.docker.compose.service=haproxy --filter "publish=$port") ]]; then
        return 0
    fi
    if (exec 3<>"/dev/tcp/$host/$port") 2>/dev/null; then
        other=$(docker ps --filter "publish=$port" --format '{{.Names}}' | head -n 1)
        die "port $host:$port is taken by ${other:+the container }${other:-another program}: stop it, or set $1 to another address and port in .env"
    fi
}
