/** Form for one Studio endpoint. */
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { useDeferredValue, type SubmitEvent } from 'react';
import { ApiError } from '../../gateway/client.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { useDebounced } from '../../parts/debounced.ts';
import { ErrorMessage } from '../../parts/states.tsx';
import { ActionButton } from '../../parts/action-button.tsx';
import { formatType } from '../../parts/names.ts';
import { MostCredits } from '../../parts/amounts.tsx';
import { startJob } from '../job/job-query.ts';
import { formatPrice } from '../models/price-text.ts';
import {
  findModel,
  buildBody,
  endpointPath,
  listFields,
  type Capability,
  type FieldSchema,
  type FormValues,
} from './capability.ts';
import { CopyAsCode } from './copy-as.tsx';
import { estimateQuery } from './estimate-query.ts';
import { markAccepted, readRequestKey } from './draft.ts';
import { RequestFields } from './request-fields.tsx';
import { Shortfall, useShortfall } from './shortfall.tsx';

interface CapabilityFormProps {
  capability: Capability;
  values: FormValues;
  setValues: (values: FormValues) => void;
  /** Called when the user enters the form. */
  onFocus: () => void;
  /** Receives the id of each started job. */
  onStart: (jobId: string) => void;
}

/** Shows a capability's fields, the price and the button that starts a job. */
export function CapabilityForm(props: CapabilityFormProps) {
  const { capability, values, setValues, onFocus, onStart } = props;
  const path = endpointPath(capability);
  const body = buildBody(capability, values);
  const start = useStartJob(capability, body, onStart);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    start.mutate();
  };
  const messages = collectFieldMessages(start.error);
  const fields = listFields(capability, values);
  const otherError =
    start.error && !fields.some(({ name }) => messages.has(name)) ? start.error : null;
  return (
    // oxlint-disable-next-line no-noninteractive-element-interactions -- the focus of any field counts
    <form
      onSubmit={submit}
      onFocus={onFocus}
      id="endpoint"
      className="card"
      aria-label={formatType(capability.type)}
    >
      <RequestFields {...{ capability, values, setValues, messages }} />
      <CopyAsCode path={path} body={body} />
      <div className="run">
        <ErrorMessage error={otherError} />
        <RunRow capability={capability} body={body} isPending={start.isPending} />
      </div>
    </form>
  );
}

/** Returns the mutation that starts a job with the body. */
function useStartJob(capability: Capability, body: FormValues, onStart: (jobId: string) => void) {
  return useMutation({
    mutationFn: () =>
      startJob(endpointPath(capability), body, readRequestKey(capability.type, body)),
    onSuccess(jobId) {
      markAccepted(capability.type);
      onStart(jobId);
    },
  });
}

/** Returns the estimated credits of a request. Undefined while they are unknown. */
export function useEstimate(capability: Capability, body: FormValues): number | undefined {
  const denial = useDenial(capability);
  const { required = [] }: FieldSchema = capability.request;
  const debouncedJson = useDebounced(useDeferredValue(JSON.stringify(body)), 350);
  const debouncedBody: FormValues = JSON.parse(debouncedJson);
  const { data, error } = useQuery({
    ...estimateQuery(endpointPath(capability), debouncedJson),
    enabled:
      debouncedJson !== '{}' && required.every((name) => name in debouncedBody) && denial === null,
    placeholderData: keepPreviousData,
  });
  return error ? undefined : data?.data.credits;
}

interface RunRowProps {
  capability: Capability;
  body: FormValues;
  isPending: boolean;
}

/** Shows the estimated price of the form values, and the button that starts the job. */
function RunRow({ capability, body, isPending }: RunRowProps) {
  const denial = useDenial(capability);
  const credits = useEstimate(capability, body);
  const shortfall = useShortfall(credits);
  return (
    <>
      <Shortfall reason={shortfall} />
      <div className="price">
        <p>
          {credits !== undefined ? (
            <MostCredits credits={credits} />
          ) : (
            <span className="dim">
              {denial ?? <ListPrice capability={capability} body={body} />}
            </span>
          )}
        </p>
        <ActionButton
          type="submit"
          className="primary"
          disabled={isPending}
          disabledReason={denial ?? shortfall}
        >
          {isPending ? 'Starting…' : shortfall ? 'Not enough credits' : 'Generate'}
        </ActionButton>
      </div>
    </>
  );
}

/** Shows the list prices of the chosen model, as long as there is no estimate. */
function ListPrice({ capability, body }: { capability: Capability; body: FormValues }) {
  const model = findModel(capability, body);
  return model
    ? `Credits: ${formatPrice(model.price)}`
    : 'The price appears when the form is complete.';
}

/** Returns the reason why the session may not start jobs of an endpoint. Null if it may. */
export function useDenial({ scope }: Capability): string | null {
  const sessionKey = useSessionKey();
  // oxlint-disable-next-line no-unsafe-type-assertion -- the scopes of endpoints are scopes of keys
  return sessionKey.explainDenial(scope as Parameters<typeof sessionKey.explainDenial>[0]);
}

/** Returns the error messages by field. An error in `inputs.0.text` belongs to `inputs`. */
function collectFieldMessages(error: Error | null): Map<string, string> {
  const details = error instanceof ApiError ? error.details : [];
  return new Map(details.map(({ path, message }) => [path.split(/[.[]/)[0] ?? path, message]));
}
