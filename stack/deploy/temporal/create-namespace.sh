#!/bin/sh
# Creates the namespace; kept for a week, so that a job's workflow can be looked at and replayed.
set -eu
until temporal operator cluster health --address "$TEMPORAL_ADDRESS"; do sleep 2; done
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" --address "$TEMPORAL_ADDRESS" ||
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --address "$TEMPORAL_ADDRESS" \
    --retention 168h
