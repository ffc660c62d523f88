#!/usr/bin/env bash
# Writes the package coxswain_train with its generated stubs into FOLDER/coxswain_train.
#   controller/python/generate.sh FOLDER
set -euo pipefail
source=$(cd "$(dirname "$0")" && pwd)
proto=$source/../../proto/coxswain/v1
package=${1:?folder of the package}/coxswain_train
plugin=$(command -v grpc_python_plugin) || { echo "generate.sh: grpc_python_plugin is missing: run deploy/install-deps.sh" >&2; exit 1; }
staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT

# Python's name of the messages: `coxswain` is another product's package.
mkdir -p "$staged/coxswain_train/v1" "$package"
for file in common job job_event plan jobs_service; do
  sed 's|^import "coxswain/v1/|import "coxswain_train/v1/|' "$proto/$file.proto" >"$staged/coxswain_train/v1/$file.proto"
done
rm -rf "$package"
cp -r "$source/coxswain_train" "$package"
rm -rf "$package/__pycache__"
protoc -I"$staged" --python_out="$package/.." --pyi_out="$package/.." "$staged"/coxswain_train/v1/*.proto
protoc -I"$staged" --plugin=protoc-gen-grpc_python="$plugin" --grpc_python_out="$package/.." \
  "$staged/coxswain_train/v1/jobs_service.proto"
touch "$package/v1/__init__.py"
