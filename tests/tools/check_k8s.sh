#!/bin/sh
# check_k8s.sh - is examples/k8s/job.yaml what the Kubernetes API takes?
#
# By hand, with the package kubernetes-validate of PyPI, which brings the schemas
# of the API's releases along, so that no cluster and no network is needed:
#
#     python3 -m venv v && v/bin/pip install kubernetes-validate
#     tests/tools/check_k8s.sh v/bin/kubernetes-validate
#
# What a schema cannot say (that FailIndex goes with backoffLimitPerIndex, say) is
# not checked; what the commands do, is: tests/cli/examples-shards.bats.
set -eu

validate=${1:-kubernetes-validate}
job=$(dirname "$0")/../../examples/k8s/job.yaml
bad=$(mktemp --suffix .yaml)
trap 'rm -f "$bad"' EXIT

# the oldest with backoffLimitPerIndex switched on, and later ones
for version in 1.29 1.31 1.33 1.35; do
    "$validate" --strict -k "$version" "$job"
done
# does it see a mistake?
for mistake in 's/completionMode/completonMode/' 's/completions: 8 /completions: "8" /' \
    's/mountPath: \/cache/mountpath: \/cache/'; do
    sed "$mistake" "$job" >"$bad"
    if "$validate" --strict --quiet "$bad" >/dev/null 2>&1; then
        echo "not found: $mistake" >&2
        exit 1
    fi
done
