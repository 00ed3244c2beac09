/**
 * Credentials of the S3 driver: fixed keys from the configuration, or temporary credentials that
 * AWS issues to the process.
 */

export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  /** Session token of temporary credentials. */
  sessionToken?: string;
  /** Expiry of temporary credentials; absent for fixed keys. */
  expiration?: Date;
}

/** Timeouts of requests to the Security Token Service, in milliseconds. */
const stsTimeouts = { connectionTimeout: 2000, requestTimeout: 5000 };

/**
 * Returns a function that reads the credentials that AWS issues to this process. It tries the usual
 * sources in order: AWS_ACCESS_KEY_ID, a profile, AWS_WEB_IDENTITY_TOKEN_FILE (EKS with IRSA),
 * AWS_CONTAINER_CREDENTIALS_…_URI (ECS, EKS Pod Identity), EC2 instance metadata version 2. The
 * library caches the credentials and replaces them five minutes before they expire. Its requests to
 * metadata addresses bypass the outbound guard, because no caller can influence them.
 * @param region region of the Security Token Service
 */
export async function createAwsCredentials(region: string): Promise<() => Promise<S3Credentials>> {
  // Imported only when needed: the library is large, and most processes use fixed keys.
  const { fromNodeProviderChain } = await import('@aws-sdk/credential-providers');
  const readCredentials = fromNodeProviderChain({
    clientConfig: { region, requestHandler: stsTimeouts },
    ec2MetadataV1Disabled: true,
  });
  return async () => {
    try {
      return await readCredentials();
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new Error(`the AWS credentials for the storage cannot be read: ${reason}`, { cause });
    }
  };
}
