#!/usr/bin/env bash
# pip install of the package as strangers do it: from this tree, from its source distribution and from git, each into an
# environment that is new, without nvcc on the path and, if there is one, with it. Every one must compute, and say
# whether it has CUDA. What git does not have is not in it, so commit first.
#
# conan makes packages of the C library instead, shared and static, and builds and runs a program with each; conda renders
# the recipe for it, as its channels may be out of reach.
#
#   packaging/installs.sh [tree|sdist|git|conan|conda]...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CUDAARCHS=${CUDAARCHS:-90} # one architecture: what is tested is the way, not the code
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The path without the directories that nvcc is in.
without_nvcc() {
  local directory kept=()
  while IFS= read -r directory; do
    [[ -x $directory/nvcc ]] || kept+=("$directory")
  done < <(tr : '\n' <<<"$PATH")
  (IFS=: && echo "${kept[*]}")
}

# source_of KIND: what pip is to install
source_of() {
  case $1 in
    tree) echo "$PWD" ;;
    git) echo "git+file://$PWD" ;;
    sdist)
      if [[ ! -e $scratch/sdist ]]; then
        python3 -m venv "$scratch/build"
        "$scratch/build/bin/python" -m pip install --quiet --disable-pip-version-check build
        "$scratch/build/bin/python" -m build --sdist -o "$scratch/sdist" . >/dev/null
      fi
      echo "$scratch/sdist"/*.tar.gz
      ;;
    *) echo "unknown source $1: expected tree, sdist, git, conan or conda" >&2 && exit 2 ;;
  esac
}

# install KIND CUDA: CUDA is cuda or "no cuda", as build_info says it
install() {
  local fresh="$scratch/fresh" source
  source=$(source_of "$1")
  printf '\n==> pip install %s, expecting %s\n' "$source" "$2"
  python3 -m venv "$fresh"
  "$fresh/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir "$source"
  (cd "$fresh" && bin/python -c '
import sys, libsdtw
info = libsdtw.build_info()
print(info)
assert ("no cuda" in info) == (sys.argv[1] == "no cuda"), sys.argv[1]
assert abs(libsdtw.soft_dtw([1, 2, 2, 3], [1, 2, 3, 4]) + 0.8954437807) < 1e-9' "$2")
  rm -rf "$fresh"
}

create_conan_packages() {
  local bin="$scratch/conan/bin" shared
  export CONAN_HOME=$scratch/conan/home
  python3 -m venv "$scratch/conan"
  "$bin/python" -m pip install --quiet --disable-pip-version-check conan
  "$bin/conan" profile detect --name default >/dev/null
  for shared in True False; do
    printf '\n==> conan create, shared: %s\n' "$shared"
    "$bin/conan" create packaging/conan --no-remote --build=missing -o "&:shared=$shared"
  done
}

render_conda_recipe() {
  printf '\n==> the recipe for conda\n'
  python3 -m venv "$scratch/conda"
  "$scratch/conda/bin/python" -m pip install --quiet --disable-pip-version-check py-rattler-build
  "$scratch/conda/bin/python" packaging/conda/render.py
}

sources=("$@")
[[ ${#sources[@]} -gt 0 ]] || sources=(tree sdist git conan conda)
for source in "${sources[@]}"; do
  case $source in
    conan) create_conan_packages; continue ;;
    conda) render_conda_recipe; continue ;;
  esac
  (PATH=$(without_nvcc) && export PATH && ! command -v nvcc >/dev/null && install "$source" "no cuda")
  if command -v nvcc >/dev/null; then install "$source" cuda; fi
done
printf '\nall of %s: done\n' "${sources[*]}"
