#!/bin/sh
# The tests run on real engines and in a real browser: Spark needs a Java runtime, a PostgreSQL server is started from
# its package, pages are opened in Chromium, and the client for R runs in R.
# Installs what is missing on a Debian machine; elsewhere says what to install.
set -eu

missing=""
command -v java >/dev/null || missing="default-jre-headless"
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
    missing="$missing chromium"
r=""
command -v Rscript >/dev/null || r="r-base-core r-cran-jsonlite"
[ -z "$missing$r" ] && exit 0

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

if ! command -v apt-get >/dev/null; then
    echo "The tests need a Java runtime (17 or newer), PostgreSQL, Chromium and R: please install $missing $r" >&2
    exit 1
fi
as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of packages
[ -z "$missing" ] || as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing
# What R recommends is compilers, which the client does not need.
# shellcheck disable=SC2086
[ -z "$r" ] || as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $r
