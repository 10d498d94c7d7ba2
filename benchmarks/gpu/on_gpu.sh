#!/usr/bin/env bash
# Builds the Python package on this machine, with the libraries that it has, and runs a program with it:
#
#     benchmarks/gpu/on_gpu.sh benchmarks/gpu/gpu_feeding.py [ARGUMENTS]
#     benchmarks/gpu/on_gpu.sh benchmarks/gpu/gpu_trace.py --output results
#     benchmarks/gpu/on_gpu.sh benchmarks/gpu/training_results.py --folder cifar-10 --out results.json
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
folder=build/gpu
mkdir -p build
cmake -S . -B "$folder" -DCMAKE_BUILD_TYPE=Release -DMILLRACE_PYTHON_EXECUTABLE="$(command -v "$python")" \
  ${CMAKE_ARGS:-} > "$folder.log" 2>&1 || { tail -20 "$folder.log"; exit 1; }
grep 'part ' "$folder.log" || true
cmake --build "$folder" --parallel "$(nproc)" --target python_package > "$folder.build.log" 2>&1 ||
  { tail -20 "$folder.build.log"; exit 1; }
PYTHONPATH="$folder/python" exec "$python" "$@"
