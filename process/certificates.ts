/**
 * Client certificates of a process, for Temporal and for Postgres: the days until they end, in the
 * metrics and the readiness of the process.
 */
import { X509Certificate } from 'node:crypto';
import type { Config } from '../platform/config.ts';
import { parseDatabaseUrl } from '../platform/database-url.ts';
import type { Metrics } from '../platform/metrics.ts';
import { connectionOptions } from '../platform/temporal-connection.ts';
import type { Readiness } from './readiness.ts';

const dayMs = 86_400_000;
/** Share of its lifetime that a certificate has left when its renewal is late. */
const lateShare = 0.1;

interface CertificateState {
  /** Days until the certificate ends; negative afterwards. */
  daysLeft: number;
  isLate: boolean;
}

/** Reads a certificate from a file in PEM format, which may contain its issuers too. */
function readState(pem: string | Buffer): CertificateState {
  const { validFromDate, validToDate } = new X509Certificate(pem);
  const leftMs = validToDate.getTime() - Date.now();
  const isLate = leftMs < lateShare * (validToDate.getTime() - validFromDate.getTime());
  return { daysLeft: Math.floor((leftMs / dayMs) * 100) / 100, isLate };
}

/**
 * Reads the client certificates from their files, by the variable that names the file.
 * @throws Error if a file cannot be read
 */
async function readCertificates(config: Config): Promise<Record<string, CertificateState>> {
  const { tls } = await connectionOptions(config);
  const pems: Record<string, unknown> = { TEMPORAL_TLS_CERT_PATH: tls?.clientCertPair?.crt };
  for (const name of ['DATABASE_URL', 'DATABASE_LISTEN_URL'] as const) {
    const { ssl } = parseDatabaseUrl(config[name] ?? config.DATABASE_URL);
    pems[name] = ssl && ssl.cert;
  }
  return Object.fromEntries(
    Object.entries(pems)
      .filter((entry): entry is [string, string | Buffer] => Boolean(entry[1]))
      .map(([name, pem]) => [name, readState(pem)]),
  );
}

/**
 * Measures the client certificates at each scrape. Returns their part of the readiness: a process
 * whose certificate should have been renewed is degraded.
 */
export function observeCertificates(
  config: Config,
  { onScrape, certificateDays }: Metrics,
): Pick<Readiness, 'optional' | 'readCertificateDays'> {
  const readDays = async () =>
    Object.entries(await readCertificates(config)).map(
      ([file, { daysLeft }]) => [file, daysLeft] as const,
    );
  onScrape(async () => {
    certificateDays.reset();
    for (const [file, days] of await readDays().catch(() => []))
      certificateDays.set({ file }, days);
  });
  return {
    optional: {
      certificates: async () =>
        Object.values(await readCertificates(config)).every(({ isLate }) => !isLate),
    },
    readCertificateDays: async () => Object.fromEntries(await readDays().catch(() => [])),
  };
}
