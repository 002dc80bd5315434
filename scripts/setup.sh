# Sourced by scripts/quickstart and scripts/test: installs what is missing, configures, builds.
# Installs nothing and asks nothing when everything is there, so it also works offline.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

packages_without_torch=(
  g++ cmake ninja-build ccache git ca-certificates
  libfmt-dev libabsl-dev nlohmann-json3-dev
  libsqlite3-dev zlib1g-dev liblzma-dev libssl-dev libcurl4-openssl-dev libzstd-dev libtomlplusplus-dev
  libgtest-dev libgmock-dev
)
packages_build=(
  "${packages_without_torch[@]}"
  libtorch-dev libopenblas-dev libcli11-dev
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler libbenchmark-dev
  libopenmpi-dev openmpi-bin
  dataset-fashion-mnist
)

say() { printf '\n== %s\n' "$*"; }

# install_packages NAME...: only those that are not installed yet.
install_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
      echo "Packages are missing and this is neither root nor a user with sudo. As root, run:" >&2
      echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
      exit 2
    }
    sudo=(sudo)
  fi
  say "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  "${sudo[@]}" apt-get update -q
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# build PRESET [TARGET...]: configures once, then lets ninja decide what is out of date.
build() {
  local preset=$1
  shift
  [ -f "build/$preset/build.ninja" ] || { say "Configuring ($preset)"; cmake --preset "$preset"; }
  say "Building ($preset)"
  # libtorch's headers need about 1.2 GB per compiler: fewer jobs than cores where memory is short.
  local memory jobs
  memory=$(awk '/MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)
  jobs=$(nproc)
  [ "$memory" -ge "$jobs" ] || jobs=$((memory > 0 ? memory : 1))
  cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}
}
