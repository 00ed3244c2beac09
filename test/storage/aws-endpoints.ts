/**
 * HTTP server that issues credentials like AWS: Security Token Service (EKS with IRSA), container
 * credentials (ECS, EKS Pod Identity) and EC2 instance metadata version 2.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import type { S3Server } from '../../dev/stack/s3-server.ts';
import { startHttpServer } from '../harness/http-server.ts';

/** Tokens that the clients must present. */
export const tokens = { web: 'web-token', container: 'container-token', imds: 'imds-token' };
export const roleArn = 'arn:aws:iam::123456789012:role/media';
/** Path of the container credentials. */
export const containerPath = '/v1/credentials';

/** Starts the server; `lifetimeMs` is the validity of the next issued credentials. */
export async function startAwsEndpoints(
  account: Pick<S3Server, 'accessKeyId' | 'secretAccessKey'>,
) {
  /** Sources of the issued credentials, in order. */
  const issued: string[] = [];
  const state = { lifetimeMs: 3_600_000, isAway: false };

  function issue(source: string) {
    issued.push(source);
    return {
      AccessKeyId: account.accessKeyId,
      SecretAccessKey: account.secretAccessKey,
      Token: `session-${issued.length}`,
      Expiration: new Date(Date.now() + state.lifetimeMs).toISOString(),
    };
  }

  async function respond(request: IncomingMessage): Promise<string | null> {
    const { url = '', method = '', headers } = request;
    if (state.isAway) return null;
    if (method === 'POST' && url === '/') {
      const form = new URLSearchParams(await text(request));
      if (form.get('Action') !== 'AssumeRoleWithWebIdentity') return null;
      if (form.get('WebIdentityToken') !== tokens.web || form.get('RoleArn') !== roleArn)
        return null;
      return assumedRole(issue('sts'));
    }
    if (url === containerPath && headers.authorization === tokens.container) {
      return JSON.stringify(issue('container'));
    }
    if (method === 'PUT' && url === '/latest/api/token') return tokens.imds;
    if (headers['x-aws-ec2-metadata-token'] !== tokens.imds) return null;
    const role = '/latest/meta-data/iam/security-credentials/';
    if (url === role) return 'media';
    return url === `${role}media` ? JSON.stringify({ Code: 'Success', ...issue('imds') }) : null;
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await respond(request);
    response.writeHead(body === null ? 403 : 200, { 'content-type': 'text/xml' });
    response.end(body ?? '');
  }

  const server = await startHttpServer((request, response) => void answer(request, response));
  return { ...server, issued, state };
}

function assumedRole(credentials: { AccessKeyId: string; Token: string; [name: string]: string }) {
  const { Token: SessionToken, ...fields } = credentials;
  const elements = Object.entries({ ...fields, SessionToken }).map(
    ([name, value]) => `<${name}>${value}</${name}>`,
  );
  return `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
    <AssumeRoleWithWebIdentityResult>
      <AssumedRoleUser><Arn>${roleArn}/session</Arn><AssumedRoleId>id</AssumedRoleId></AssumedRoleUser>
      <Credentials>${elements.join('')}</Credentials>
    </AssumeRoleWithWebIdentityResult>
    <ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>
  </AssumeRoleWithWebIdentityResponse>`;
}
