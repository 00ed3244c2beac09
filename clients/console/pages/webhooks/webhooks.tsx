/** Webhooks page: endpoints, deliveries, the signing secret, a test, and account notices. */
import { useSessionKey, type SessionKey } from '../../gateway/session.ts';
import { Empty } from '../../parts/states.tsx';
import { Deliveries } from './deliveries.tsx';
import { NewEndpoint } from './endpoints.tsx';
import { Notices } from './notices.tsx';
import { SigningSecret } from './signing-secret.tsx';
import { TestWebhook } from './test-webhook.tsx';

/** Shows the webhooks page. */
export default function Webhooks() {
  const sessionKey = useSessionKey();
  const readDenial = sessionKey.explainDenial('studio:read');
  const settingsDenial = explainSettingsDenial(sessionKey);
  return (
    <>
      <div className="head">
        <h1>Webhooks</h1>
        <NewEndpoint denial={settingsDenial} />
      </div>
      <div className="stack">
        {readDenial ? (
          <Empty title="Deliveries">{readDenial}</Empty>
        ) : (
          <Deliveries denial={settingsDenial} />
        )}
        <div className="halves">
          <SigningSecret denial={settingsDenial} />
          <TestWebhook denial={settingsDenial} />
          <Notices denial={settingsDenial} />
        </div>
      </div>
    </>
  );
}

function explainSettingsDenial({ role, explainDenial }: SessionKey): string | null {
  const denial = explainDenial('keys:write');
  return denial && role === 'viewer'
    ? 'A viewer may not see or change the signing secret and the account notices.'
    : denial;
}
