/**
 * Credentials of the S3 driver: fixed keys of the configuration, or credentials that AWS issues to
 * the process and that expire.
 */

/** Credentials of an account at the store. */
export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  /** Token of credentials that expire. */
  sessionToken?: string;
  /** Expiry; absent if the credentials do not expire. */
  expiration?: Date;
}

/** Time limits of requests to the Security Token Service in milliseconds. */
const stsTimeouts = { connectionTimeout: 2000, requestTimeout: 5000 };

/**
 * Makes the reader of the credentials that AWS issues to this process, from the first of its usual
 * sources: AWS_ACCESS_KEY_ID, a profile, AWS_WEB_IDENTITY_TOKEN_FILE (EKS with IRSA),
 * AWS_CONTAINER_CREDENTIALS_…_URI (ECS, EKS Pod Identity), EC2 instance metadata version 2. The
 * library keeps the credentials, and replaces them five minutes before they expire. Its requests to
 * metadata addresses do not pass the outbound guard, because no caller decides about them.
 * @param region region of the Security Token Service
 */
export async function createAwsCredentials(region: string): Promise<() => Promise<S3Credentials>> {
  // Loaded only here, because it is large and most processes have fixed keys.
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
      throw new Error(`no AWS credentials for the storage: ${reason}`, { cause });
    }
  };
}
