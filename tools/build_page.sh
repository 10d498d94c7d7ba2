#!/usr/bin/env bash
# Rebuilds the page of `millrace report --html`: src/report/page/dist/index.html, which is committed. Only needed
# after a change of the page. Needs node 20, npm and an npm registry.
set -euo pipefail
cd "$(dirname "$0")/../src/report/page"

if [ ! -d node_modules ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  npm ci
fi
npm run build
cd ../../..
exec python3 tools/check_page.py --stamp
