#!/bin/sh
# Creates the Temporal namespace and the search attributes of domain/job-contract.ts. Retains closed workflows for a week, so that
# they can be inspected and replayed. Safe to run again.
set -eu
until temporal operator cluster health --address "$TEMPORAL_ADDRESS"; do sleep 2; done
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" --address "$TEMPORAL_ADDRESS" ||
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --address "$TEMPORAL_ADDRESS" \
    --retention 168h
# Retries, because it takes a moment until all Temporal services know a new namespace.
until temporal operator search-attribute create --namespace "$TEMPORAL_NAMESPACE" --address "$TEMPORAL_ADDRESS" \
  --name OrganizationId --type Keyword \
  --name KeyId --type Keyword \
  --name Model --type Keyword \
  --name Provider --type Keyword \
  --name ProviderRequestId --type KeywordList \
  --name JobStatus --type Keyword \
  --name BillingState --type Keyword \
  --name ErrorCode --type Keyword \
  --name Metadata --type KeywordList; do sleep 2; done
