#!/usr/bin/env bash
# Builds the page of `millrace report --html` anew: src/report/page/dist/index.html, which is committed.
# Only those who change the page run this; it needs node 20, npm and a registry of npm packages.
set -euo pipefail
cd "$(dirname "$0")/../src/report/page"

if [ ! -d node_modules ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  npm ci
fi
npm run build
cd ../../..
exec python3 tools/check_page.py --stamp
