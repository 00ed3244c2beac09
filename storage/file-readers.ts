/**
 * Callers that read jobs and files. A caller with a browser token sees only what belongs to the token's end
 * user: jobs by their metadata, and the files that were uploaded with its tokens.
 */
import { sql, type CommonQueryMethods, type FragmentSqlToken } from 'slonik';
import { endUserPair } from '../domain/end-users.ts';
import { command } from '../platform/database.ts';

/** Caller of an organization, with the end user of its browser token if it has one. */
export interface FileReader {
  organizationId: string;
  token?: { endUser: string } | null | undefined;
}

const everything = sql.fragment`true`;

/** Builds the condition that a reader may see the job with this id. */
export const seesJob = ({ token }: FileReader, jobId: FragmentSqlToken): FragmentSqlToken =>
  token
    ? sql.fragment`EXISTS (SELECT FROM job j
        WHERE j.id = ${jobId} AND j.metadata->>${endUserPair} = ${token.endUser})`
    : everything;

/** Builds the condition that selects the artifacts `x` of a list, by the index of the end user's jobs. */
export const listsArtifact = ({ organizationId, token }: FileReader): FragmentSqlToken =>
  token
    ? sql.fragment`x.job_id IN (SELECT p.id FROM metadata_pair p
        WHERE p.organization_id = ${organizationId} AND p.name = ${endUserPair} AND p.value = ${token.endUser})`
    : everything;

/** Builds the condition that selects the uploads `x` that a reader may see. */
export const seesUpload = ({ token }: FileReader): FragmentSqlToken =>
  token ? sql.fragment`x.end_user = ${token.endUser}` : everything;

/** Returns whether a reader may see a job of its organization; an archived one only without a token. */
export const isJobSeen = (
  pool: CommonQueryMethods,
  reader: FileReader,
  jobId: string,
): Promise<boolean> =>
  pool.exists(command`SELECT FROM job x
    WHERE x.id = ${jobId} AND x.organization_id = ${reader.organizationId} AND ${seesJob(reader, sql.fragment`x.id`)}`);

/** Returns whether a reader may see an upload of its organization. */
export const isUploadSeen = (
  pool: CommonQueryMethods,
  reader: FileReader,
  uploadId: string,
): Promise<boolean> =>
  pool.exists(command`SELECT FROM upload x
    WHERE x.id = ${uploadId} AND x.organization_id = ${reader.organizationId} AND ${seesUpload(reader)}`);
