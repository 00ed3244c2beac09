/** URL of a bucket in an S3-compatible store, and signed requests to it (Signature V4). */
import { AwsV4Signer } from 'aws4fetch';
import type { S3Credentials } from './s3-credentials.ts';

/** S3 bucket, with the function that reads the credentials to access it. */
export interface S3Bucket {
  endpoint: string;
  region: string;
  bucket: string;
  readCredentials: () => Promise<S3Credentials>;
}

/** Request to sign, in the form that aws4fetch expects. */
type UnsignedRequest = Pick<
  ConstructorParameters<typeof AwsV4Signer>[0],
  'method' | 'url' | 'headers' | 'signQuery' | 'allHeaders'
>;

/** Returns the base URL of a bucket, to which storage keys are appended. */
export function buildBucketUrl({ endpoint, bucket }: S3Bucket): string {
  return `${endpoint.replace(/\/$/, '')}/${bucket}/`;
}

/**
 * Signs a request with the current credentials. Returns the signed URL and headers, and the time
 * when the credentials expire.
 */
export async function signRequest(
  { region, readCredentials }: S3Bucket,
  unsigned: UnsignedRequest,
) {
  const { expiration, ...credentials } = await readCredentials();
  const signer = new AwsV4Signer({ ...unsigned, ...credentials, region, service: 's3' });
  return { ...(await signer.sign()), credentialsExpireAtMs: expiration?.getTime() ?? Infinity };
}
