#!/usr/bin/env bash
# Wheels of the Python package, built from its source distribution, repaired, and each tested where nothing of this tree
# is: ./dev wheels. They come to lie in dist/: libsdtw-*.tar.gz, cpu/libsdtw-*.whl and, where nvcc is, cuda13/ or so.
#
# A wheel serves one version of Python. The CUDA one is for every GPU that nvcc knows (all-major), or for those that
# CUDAARCHS names, and serves machines without a GPU and without a driver as well.
#
# auditwheel puts OpenMP's runtime into the wheel, under a name of its own, since many machines have none. The library
# asks that runtime for the number of threads and for its limits, but starts its threads itself: so it does no harm that
# PyTorch brings another. tests/python/test_openmp.py holds it to that.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
developer=${DEVELOPER_PYTHON:-.venv/bin/python} # has what the tests need
limit=$((100 * 1000 * 1000))                    # bytes: what package indices take
tools=build/wheel-tools
export SDTW_JAX=1 # with the handlers for JAX, built against the oldest jaxlib that pyproject.toml names

say() { printf '\n==> %s\n' "$*"; }

need_tools() {
  if cmp -s packaging/requirements.txt "$tools/requirements.txt"; then return; fi
  say "installing build and auditwheel into $tools"
  python3 -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check -r packaging/requirements.txt
  cp packaging/requirements.txt "$tools/requirements.txt"
}

# build_wheel FLAVOUR OPTION...
build_wheel() {
  local flavour=$1 options=() made
  for option in "${@:2}"; do options+=("--config-settings=cmake.define.$option"); done
  made=$(mktemp -d)
  say "building the wheel for $flavour from the source distribution"
  "$tools/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps -w "$made" "${options[@]}" \
    dist/libsdtw-*.tar.gz
  rm -rf "dist/$flavour"
  PATH="$PWD/$tools/bin:$PATH" "$tools/bin/auditwheel" repair -w "dist/$flavour" "$made"/*.whl
  rm -r "$made"
  check_wheel "dist/$flavour"/*.whl
}

# No policy of manylinux is broken, and indices take it.
check_wheel() {
  local bytes
  bytes=$(stat -c %s "$1")
  say "$1: $((bytes / 1000)) kB"
  "$tools/bin/auditwheel" show "$1" | sed -n '/following/,/^$/p'
  [[ $1 == *manylinux* ]] || { echo "the wheel is for no manylinux" >&2; exit 1; }
  ((bytes < limit)) || { echo "the wheel is larger than $limit bytes" >&2; exit 1; }
}

# test_wheel WHEEL: in an environment that has it and NumPy alone; then its tests, with pytest, PyTorch and so on from
# the developer's environment, behind the wheel's.
test_wheel() {
  local fresh
  fresh=$(mktemp -d)
  say "testing $1 in a fresh environment"
  python3 -m venv "$fresh"
  "$fresh/bin/python" -m pip install --quiet --disable-pip-version-check "$1"
  (cd "$fresh" && bin/python -c '
import sys, libsdtw
assert libsdtw.__file__.startswith(sys.prefix), libsdtw.__file__
print(libsdtw.build_info(), "and CUDA here:", libsdtw.device_available("cuda"))
assert abs(libsdtw.soft_dtw([1, 2, 2, 3], [1, 2, 3, 4]) + 0.8954437807) < 1e-9')
  if [[ -x $developer ]]; then
    # What the tests need was installed for the developer's NumPy, and may not load with a newer one.
    "$fresh/bin/python" -m pip install --quiet --disable-pip-version-check \
      "numpy==$("$developer" -c 'import numpy; print(numpy.__version__)')"
    "$developer" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
      >"$("$fresh/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/developer.pth"
    cp -r "$suite"/. "$fresh/"
    (cd "$fresh" && bin/python -c 'import sys, libsdtw; assert libsdtw.__file__.startswith(sys.prefix)' &&
      bin/python -m pytest -q -x --timeout 900 ${WHEEL_TESTS:-})
  fi
  rm -r "$fresh"
}

need_tools
# The tests as they are now, which are those of what is built. What needs the tree is not about the package.
suite=$(mktemp -d)
trap 'rm -rf "$suite"' EXIT
mkdir "$suite/tests" "$suite/benchmarks"
cp -r tests/python "$suite/tests/"
cp benchmarks/{lines,capi}.py "$suite/benchmarks/" # which tests import
cp -r include pyproject.toml "$suite/"
(cd "$suite/tests/python" && grep -l '^from programs import' ./test_*.py | xargs rm -f)
say "building the source distribution"
mkdir -p dist
rm -f dist/libsdtw-*.tar.gz
"$tools/bin/python" -m build --sdist -o dist . >/dev/null
build_wheel cpu SDTW_CUDA=OFF
test_wheel dist/cpu/*.whl
if command -v nvcc >/dev/null; then
  major=$(nvcc --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  build_wheel "cuda$major" SDTW_CUDA=ON "CMAKE_CUDA_ARCHITECTURES=${CUDAARCHS:-all-major}"
  test_wheel "dist/cuda$major"/*.whl
fi
say "built $(ls dist/*.tar.gz dist/*/*.whl | tr '\n' ' ')"
