#!/usr/bin/env bash
# The web pages: types, tests with and without a browser, and that web/dist is what its sources give. Without npm it says so and checks nothing: the
# built pages are committed, so that neither building nor running minfer needs it.
set -euo pipefail
cd "$(dirname "$0")/../web"

if ! command -v npm >/dev/null; then
  echo "SKIPPED: the web pages are not checked, since npm is not installed"
  exit 0
fi
npm ci --no-audit --no-fund
npm run check
npm test
npm run reproducible
npm run pages
npm run graph
