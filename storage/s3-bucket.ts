/** Bucket of an S3-compatible store: its address, and signatures of requests (Version 4). */
import { AwsV4Signer } from 'aws4fetch';
import type { S3Credentials } from './s3-credentials.ts';

/** Bucket, and the account for it. */
export interface S3Bucket {
  endpoint: string;
  region: string;
  bucket: string;
  readCredentials: () => Promise<S3Credentials>;
}

/** Request to sign, as aws4fetch receives it. */
type UnsignedRequest = Pick<
  ConstructorParameters<typeof AwsV4Signer>[0],
  'method' | 'url' | 'headers' | 'signQuery' | 'allHeaders'
>;

/** Returns the URL of the bucket, to which keys are appended. */
export function bucketUrl({ endpoint, bucket }: S3Bucket): string {
  return `${endpoint.replace(/\/$/, '')}/${bucket}/`;
}

/** Signs a request with the current credentials; returns its URL, its headers and the expiry. */
export async function signRequest(
  { region, readCredentials }: S3Bucket,
  unsigned: UnsignedRequest,
) {
  const { expiration, ...credentials } = await readCredentials();
  const signer = new AwsV4Signer({ ...unsigned, ...credentials, region, service: 's3' });
  return { ...(await signer.sign()), credentialsExpireAtMs: expiration?.getTime() ?? Infinity };
}
