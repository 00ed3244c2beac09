/**
 * The cases that the libraries of Standard Webhooks test, and forgeries with the key of a missing secret, given to the
 * verifiers of the TypeScript and the Python client.
 */
import { createHmac } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { root, run } from '../../dev/clients/tools.ts';
import { verifyWebhook } from '../../clients/typescript/webhooks.ts';

const secret = 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const body = '{"test": 2432232314}';
const foreign = 'Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=';
const nowSeconds = Math.floor(Date.now() / 1000);

interface Vector {
  secret: string | null;
  body: string;
  headers: Record<string, string>;
}

function sign(key: Buffer, timestamp = String(nowSeconds)): Vector['headers'] {
  const id = 'msg_p5jXN8AQM9LWM0D4loKWxJek';
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signature}`,
  };
}

const signed = sign(Buffer.from(secret, 'base64'));
const signature = signed['webhook-signature'] ?? '';
const right: Vector = { secret, body, headers: signed };
const at = (timestamp: string) => ({
  ...right,
  headers: sign(Buffer.from(secret, 'base64'), timestamp),
});
const withSignature = (text: string) => ({
  ...right,
  headers: { ...signed, 'webhook-signature': text },
});
function without(name: string): Vector {
  const { [name]: _, ...headers } = signed;
  return { ...right, headers };
}
/** Webhook that anyone can sign, for a receiver without a secret. */
const forged = (missing: string | null) => ({
  ...right,
  secret: missing,
  headers: sign(Buffer.alloc(0)),
});

const accepted: Readonly<Record<string, Vector>> = {
  'a signature': right,
  'a secret with its prefix': { ...right, secret: `whsec_${secret}` },
  'a secret with the line break of its file': { ...right, secret: `whsec_${secret}\n` },
  'names in capital letters': {
    ...right,
    headers: Object.fromEntries(
      Object.entries(signed).map(([name, value]) => [name.toUpperCase(), value]),
    ),
  },
  'one of several signatures': withSignature(
    `v1,${foreign} v2,${foreign} ${signature} v1,${foreign}`,
  ),
  'a clock that differs by four minutes': at(String(nowSeconds - 240)),
};
const rejected: Readonly<Record<string, Vector>> = {
  'no id': without('webhook-id'),
  'no timestamp': without('webhook-timestamp'),
  'no signature': without('webhook-signature'),
  'a timestamp that is no number': at('hello'),
  'an old timestamp': at(String(nowSeconds - 301)),
  'a new timestamp': at(String(nowSeconds + 360)),
  'another signature': withSignature('v1,dawfeoifkpqwoekfpqoekf'),
  'a part of the signature': withSignature(signature.slice(0, 8)),
  'an empty signature': withSignature('v1,'),
  'a signature of another version': withSignature(signature.replace('v1', 'v2')),
  'another body': { ...right, body: `${body} ` },
  'the secret of another organization': { ...right, secret: `whsec_${foreign}` },
};
const forgeries: Readonly<Record<string, Vector>> = {
  'an empty secret': forged(''),
  'a missing secret': forged(null),
  'a prefix without a secret': forged('whsec_'),
  'a secret of blanks': forged(' \n'),
  'a secret that is not base64': forged('whsec_!!!!'),
};
const vectors = { ...accepted, ...rejected, ...forgeries };

type Verifier = () => Promise<Record<string, unknown>>;

/** Returns the event of each vector, or the message of its error, by the title of the vector. */
const verifiers: Readonly<Record<string, Verifier>> = {
  async TypeScript() {
    const verified = Object.entries(vectors).map(async ([title, vector]) => {
      // A program without types passes the value of a missing environment variable.
      const received = { ...vector, secret: vector.secret as string }; // oxlint-disable-line no-unsafe-type-assertion
      const result: unknown = await verifyWebhook(received).catch((error: Error) => error.message);
      return [title, result] as const;
    });
    return Object.fromEntries(await Promise.all(verified));
  },
  async Python() {
    const program = `
import json, runpy, sys
verify = runpy.run_path(sys.argv[1])["verify_webhook"]
def result(vector):
    try: return verify(vector["body"], vector["headers"], vector["secret"])
    except ValueError as error: return str(error)
print(json.dumps({title: result(vector) for title, vector in json.loads(sys.argv[2]).items()}))`;
    const file = `${root}clients/python/src/studio_gateway/_webhooks.py`;
    const { stdout } = await run('python3', ['-c', program, file, JSON.stringify(vectors)]);
    return JSON.parse(stdout);
  },
};

describe.each(Object.entries(verifiers))('the verifier in %s', (_name, verify) => {
  let results: Awaited<ReturnType<Verifier>>;
  beforeAll(async () => {
    results = await verify();
  });

  it.each(Object.keys(accepted))('accepts %s', (title) => {
    expect(results[title]).toEqual({ test: 2_432_232_314 });
  });

  it.each(Object.keys(rejected))('rejects %s', (title) => {
    expect(results[title]).toMatch(/^The webhook/);
  });

  it.each(Object.keys(forgeries))('rejects a forgery for %s', (title) => {
    expect(results[title]).toMatch(/^secret must be whsec_ and base64 text/);
  });
});
