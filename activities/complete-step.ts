/**
 * Activity `completeStep`: completes the calls of a pipeline step with the results of the steps
 * before it, and calculates their true prices. Calls no provider.
 */
import { ApplicationFailure } from '@temporalio/common';
import { buffer } from 'node:stream/consumers';
import { asRecord, isRecord } from '../domain/json.ts';
import type { CallOutputs, PlannedCall } from '../domain/job-plan.ts';
import {
  completeCalls,
  StepRejected,
  type PipelineStep,
  type ReferenceValue,
  type StepReference,
} from '../domain/pipeline-plan.ts';
import { StorageFailure, type Storage } from '../storage/storage.ts';
import { attempt } from './attempt.ts';

/** Input of `completeStep`: the planned calls, and the outputs to which their tokens refer. */
export interface StepToComplete {
  organizationId: string;
  step: PipelineStep;
  calls: PlannedCall[];
  sources: { token: string; outputs: CallOutputs | undefined }[];
}

/** Completed calls of a step, and the texts that they contain, by the path of the request field. */
export interface CompletedStep {
  calls: PlannedCall[];
  texts: Record<string, string>;
}

/**
 * Completes the calls of a step.
 * @throws ApplicationFailure PRICE_LIMIT_EXCEEDED, INVALID_REQUEST or SKIPPED, which are not retried
 */
export function completeStep(
  { storage }: { storage: Storage },
  { step, calls, sources }: StepToComplete,
): Promise<CompletedStep> {
  return attempt(async () => {
    const values = new Map<string, ReferenceValue>();
    const texts: Record<string, string> = {};
    try {
      for (const reference of step.references) {
        const source = sources.find(({ token }) => token === reference.token);
        const value = await readValue(storage, reference, source?.outputs);
        values.set(reference.token, value);
        if (value.kind === 'text')
          texts[reference.field.replace(/^steps\.\d+\.body\./, '')] = value.text;
      }
      return { calls: completeCalls(step, calls, values), texts };
    } catch (error) {
      if (!(error instanceof StepRejected)) throw error;
      throw ApplicationFailure.nonRetryable(error.message, error.code);
    }
  });
}

/** Reads the result to which a reference refers. @throws StepRejected SKIPPED if it is missing */
async function readValue(
  storage: Storage,
  { takes, from, output, text }: StepReference,
  outputs: CallOutputs | undefined,
): Promise<ReferenceValue> {
  if (takes === 'file') {
    const artifact = outputs?.artifacts[output.artifactIndex];
    if (artifact) return { kind: 'file', artifact };
    throw new StepRejected(
      'SKIPPED',
      `the step ${from} did not deliver the output that this step takes`,
    );
  }
  const data = asRecord(outputs?.data);
  if (takes === 'composition') {
    if (isRecord(outputs?.data)) return { kind: 'composition', plan: outputs.data };
    throw new StepRejected('SKIPPED', `the step ${from} delivered no composition plan`);
  }
  const name = text?.name ?? '';
  const [document] = outputs?.artifacts ?? [];
  const isDocument = document?.contentType === 'application/json';
  const content = isDocument ? await readDocument(storage, document.storageKey) : data;
  const value = content[name] ?? data[name];
  if (typeof value === 'string') return { kind: 'text', text: value };
  throw new StepRejected('SKIPPED', `the result of the step ${from} has no ${name}`);
}

/** Reads a JSON artifact. @throws StorageFailure that is retryable */
async function readDocument(storage: Storage, key: string): Promise<Record<string, unknown>> {
  try {
    const stored = await storage.open(key);
    if (!stored) throw new Error('the document is missing from storage');
    return asRecord(JSON.parse((await buffer(stored.stream)).toString('utf8')));
  } catch (cause) {
    throw new StorageFailure('the result of an earlier step could not be read', {
      retryable: true,
      cause,
    });
  }
}
