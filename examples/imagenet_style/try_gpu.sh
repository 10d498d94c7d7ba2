#!/usr/bin/env bash
# Makes JPEGs, trains on them on this machine's GPU, and prints images per second beside the GPU alone, and the report of
# a traced run. Usage: try_gpu.sh DIRECTORY [OPTIONS of train.py]. Needs the package that benchmarks/gpu/on_gpu.sh builds, and Pillow.
set -euo pipefail
results=$(realpath "${1:?a directory for the results}"); shift
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
package=${PACKAGE:-build/gpu/python}
[ -d "$package/millrace" ] || { echo "$package does not hold the package; run benchmarks/gpu/on_gpu.sh --version first"; exit 1; }
PYTHONPATH=$(realpath "$package"); export PYTHONPATH
data=$(mktemp -d); trap 'rm -rf "$data"' EXIT
"$python" - "$data/train" "${IMAGES:-2560}" <<'PROGRAM'
import multiprocessing, pathlib, random, sys
from PIL import Image, ImageFilter

folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])

def make(number):  # noise of several scales: it compresses about as well as a photograph
    chance = random.Random(number)
    small = Image.frombytes("RGB", (40, 32), chance.randbytes(40 * 32 * 3)).resize((500, 400), Image.BICUBIC)
    fine = Image.frombytes("RGB", (250, 200), chance.randbytes(250 * 200 * 3)).resize((500, 400))
    image = Image.blend(small, fine.filter(ImageFilter.GaussianBlur(1)), 0.3)
    image.save(folder / f"{number % 16:02}" / f"{number:06}.jpg", quality=85)

for label in range(16):
    (folder / f"{label:02}").mkdir(parents=True)
with multiprocessing.Pool() as pool:
    pool.map(make, range(count), chunksize=32)
size = sum(file.stat().st_size for file in folder.rglob("*.jpg"))
print(f"{count} JPEGs, {size // count:,} bytes each")
PROGRAM
options=(--data "$data/train" --work "$data/run" --batch "${BATCH:-256}" --precision bf16 --epochs 1000
         --stop-after "${STEPS:-200}" --log-every 50 --checkpoint-every 100 "$@")
"$python" examples/imagenet_style/train.py --synthetic "${ALONE:-60}" --batch "${BATCH:-256}" --precision bf16 "$@"
"$python" examples/imagenet_style/train.py "${options[@]}" --alone "${ALONE:-60}" | tee "$results/imagenet_style.txt"
rm -rf "$data/run"
"$python" -m millrace.trace -o "$data/imagenet_style_trace" examples/imagenet_style/train.py "${options[@]}"
program=$package/millrace/bin/millrace
"$program" report "$data/imagenet_style_trace" | tee "$results/imagenet_style_report.txt"
tar czf "$results/imagenet_style_trace.tgz" -C "$data" imagenet_style_trace
