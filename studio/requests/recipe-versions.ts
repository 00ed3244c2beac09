/**
 * Saved recipes: named bodies of Studio requests that an organization shares (docs/recipes.md). A
 * request names one in `recipe`. Its body is completed before it is parsed, so that each later step
 * treats it like a request that contains all fields.
 */
import { createHash } from 'node:crypto';
import { sql, type CommonQueryMethods } from 'slonik';
import { z } from 'zod';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { isRecord, stringifySorted, type Json } from '../../domain/json.ts';
import { parseWith } from '../../domain/parsing.ts';
import { command, type DatabasePool } from '../../platform/database.ts';

/** Maximum numbers of recipes of an organization, and of versions of a recipe. */
export const recipesMax = 200;
export const versionsMax = 50;
/** Maximum size of all versions of an organization's recipes together, in bytes of JSON. */
export const recipeBytesMax = 16 * 1024 * 1024;

const nameFormat = '[A-Za-z0-9][A-Za-z0-9_.-]{0,63}';
const versionFormat = '[0-9a-f]{16}';

/** Schema of the name of a recipe. */
export const recipeName = z
  .string()
  .max(64)
  .regex(
    new RegExp(`^${nameFormat}$`),
    'must be 1–64 characters of A–Z a–z 0–9 _ . - and begin with a letter or digit',
  );

/** Schema of the name of a recipe, or of a name with a version. */
export const recipeReference = z
  .string()
  .max(81)
  .regex(
    new RegExp(`^${nameFormat}(@${versionFormat})?$`),
    'must be the name of a recipe, or name@version with a version of 16 hexadecimal digits',
  );

const referenceField = z.object({ recipe: recipeReference });

/** Field `recipe` of every Studio request, with its description. */
export const recipeFields = {
  recipe: recipeReference.optional().meta({
    description:
      'Name of a saved recipe, whose fields are added to the body: `name` for the newest version, or `name@version`. If the recipe and the request have the same field, the value of the request is used.',
    example: 'product-shot',
  }),
};

/** Schema of a version of a recipe without its body; times are in Unix milliseconds. */
export const recipeVersion = z.object({
  name: z.string(),
  version: z.string().meta({ description: 'Start of the hash of `use` and `body`.' }),
  use: z.string().meta({ description: 'Studio endpoint: its path after `/studio/`.' }),
  sizeBytes: z.int(),
  keyId: z.string().meta({ description: 'API key that saved the version.' }),
  savedAtMs: z.number(),
});
/** Schema of the newest version of a recipe, with the number of its versions. */
export const listedRecipe = recipeVersion.extend({ versions: z.int() });
/** Schema of a version of a recipe with its body. */
export const recipe = recipeVersion.extend({ body: z.record(z.string(), z.json()) });
export type Recipe = z.infer<typeof recipe>;

/** Body of a request after its recipe was applied. */
interface CompletedBody<Value> {
  body: Record<string, Value | Json>;
  /** Applied recipe as `name@version`; null if the request names none. */
  recipe: string | null;
}

interface RecipeIds {
  organizationId: string;
  /** Name of a recipe, or `name@version`. */
  reference: string;
}

const totalsRow = z.object({
  names: z.int(),
  versions: z.int(),
  bytes: z.number(),
  use: z.string().nullable(),
  exists: z.boolean(),
});
const countRow = z.object({ count: z.int() });

const columns = sql.fragment`name, version, use, size_bytes AS "sizeBytes", key_id AS "keyId", saved_at AS "savedAtMs"`;

/** Builds the condition that selects the versions of a reference. */
function matches({ organizationId, reference }: RecipeIds) {
  const [name = '', version = null] = reference.split('@');
  return sql.fragment`organization_id = ${organizationId} AND name = ${name}
    AND (${version}::text IS NULL OR version = ${version})`;
}

/** Completes a body by its recipe, which `load` reads. @throws GatewayError INVALID_REQUEST */
async function complete<Value>(
  load: (reference: string) => Promise<Recipe | null>,
  use: string | undefined,
  { recipe: reference, ...sent }: Record<string, Value>,
): Promise<CompletedBody<Value>> {
  if (reference === undefined) return { body: sent, recipe: null };
  const named = parseWith(referenceField, { recipe: reference }).recipe;
  const found = await load(named);
  if (!found) {
    const message = `must be a recipe of this organization (received ${named})`;
    throw fieldError('INVALID_REQUEST', 'recipe', message);
  }
  if (use !== undefined && found.use !== use) {
    const message = `must be a recipe for ${use}; ${found.name} is one for ${found.use}`;
    throw fieldError('INVALID_REQUEST', 'recipe', message);
  }
  return { body: { ...found.body, ...sent }, recipe: `${found.name}@${found.version}` };
}

export type Recipes = ReturnType<typeof createRecipes>;

/** Creates the functions that read, apply and delete recipes. */
export function createRecipes(pool: DatabasePool) {
  const find = (ids: RecipeIds): Promise<Recipe | null> =>
    pool.maybeOne(sql.type(recipe)`SELECT ${columns}, body FROM recipe WHERE ${matches(ids)}
      ORDER BY saved_at DESC LIMIT 1`);

  return {
    /** Lists the newest version of each recipe, by name. */
    list: (organizationId: string): Promise<readonly z.infer<typeof listedRecipe>[]> =>
      pool.any(sql.type(listedRecipe)`
        SELECT DISTINCT ON (name) ${columns}, count(*) OVER (PARTITION BY name) AS versions
        FROM recipe WHERE organization_id = ${organizationId} ORDER BY name, saved_at DESC`),
    /** Lists the versions of a recipe, newest first. */
    versions: (ids: RecipeIds): Promise<readonly z.infer<typeof recipeVersion>[]> =>
      pool.any(sql.type(recipeVersion)`
        SELECT ${columns} FROM recipe WHERE ${matches(ids)} ORDER BY saved_at DESC`),
    /** @throws GatewayError NOT_FOUND if the organization has no such recipe */
    async read(ids: RecipeIds): Promise<Recipe> {
      const found = await find(ids);
      if (!found) throw new GatewayError('NOT_FOUND', 'No such recipe.');
      return found;
    },
    /** Deletes a version, or all versions of a name. Jobs keep the name. @throws GatewayError NOT_FOUND */
    async remove(ids: RecipeIds): Promise<void> {
      const count = await pool.oneFirst(sql.type(countRow)`
        WITH removed AS (DELETE FROM recipe WHERE ${matches(ids)} RETURNING 1)
        SELECT count(*) FROM removed`);
      if (count === 0) throw new GatewayError('NOT_FOUND', 'No such recipe.');
    },
    /**
     * Completes the body of a request to `use` by the recipe that it names.
     * @throws GatewayError INVALID_REQUEST if the organization has no such recipe for `use`
     */
    complete: <Value>(
      organizationId: string,
      use: string,
      body: Record<string, Value>,
    ): Promise<CompletedBody<Value>> =>
      complete((reference) => find({ organizationId, reference }), use, body),
    /**
     * Creates a function that completes many bodies of one request, as `complete` does. Each recipe is
     * read once, so that all of them use the same version.
     */
    completeMany(organizationId: string) {
      const found = new Map<string, Promise<Recipe | null>>();
      const load = (reference: string): Promise<Recipe | null> => {
        const pending = found.get(reference) ?? find({ organizationId, reference });
        found.set(reference, pending);
        return pending;
      };
      return (use: string | undefined, body: unknown): Promise<CompletedBody<unknown>> =>
        complete(load, use, isRecord(body) ? body : {});
    },
  };
}

/** @throws GatewayError RECIPE_QUOTA_REACHED if a further version exceeds a limit */
function throwIfFull(
  { names, versions, bytes }: z.infer<typeof totalsRow>,
  sizeBytes: number,
): void {
  const limit =
    (versions === 0 && names >= recipesMax && `${recipesMax} recipes`) ||
    (versions >= versionsMax && `${versionsMax} versions of a recipe`) ||
    (bytes + sizeBytes > recipeBytesMax && `${recipeBytesMax} bytes of recipes`);
  if (limit === false) return;
  const message = `An organization can have at most ${limit}. Delete a recipe or a version first.`;
  throw new GatewayError('RECIPE_QUOTA_REACHED', message);
}

/**
 * Saves a version within a transaction. The same content is the same version, which becomes the
 * newest one.
 * @throws GatewayError RECIPE_QUOTA_REACHED; INVALID_REQUEST if other versions have another `use`
 */
export async function saveRecipe(
  connection: CommonQueryMethods,
  { organizationId, keyId }: { organizationId: string; keyId: string },
  { name, use, body }: Pick<Recipe, 'name' | 'use' | 'body'>,
): Promise<Recipe> {
  const content = stringifySorted({ use, body });
  const version = createHash('sha256').update(content).digest('hex').slice(0, 16);
  const sizeBytes = Buffer.byteLength(content);
  await connection.query(
    command`SELECT FROM organization WHERE id = ${organizationId} FOR NO KEY UPDATE`,
  );
  const totals = await connection.one(sql.type(totalsRow)`
    SELECT count(DISTINCT name) FILTER (WHERE name <> ${name}) AS names,
      count(*) FILTER (WHERE name = ${name}) AS versions, coalesce(sum(size_bytes), 0)::float8 AS bytes,
      min(use) FILTER (WHERE name = ${name}) AS use,
      coalesce(bool_or(name = ${name} AND version = ${version}), false) AS exists
    FROM recipe WHERE organization_id = ${organizationId}`);
  if (totals.use !== null && totals.use !== use) {
    const message = `must be ${totals.use}, as in the other versions of ${name} (received ${use})`;
    throw fieldError('INVALID_REQUEST', 'use', message);
  }
  if (!totals.exists) throwIfFull(totals, sizeBytes);
  return connection.one(sql.type(recipe)`
    INSERT INTO recipe (organization_id, name, version, use, body, size_bytes, key_id)
    VALUES (${organizationId}, ${name}, ${version}, ${use}, ${sql.jsonb(body)}, ${sizeBytes}, ${keyId})
    ON CONFLICT (organization_id, name, version)
      DO UPDATE SET saved_at = clock_timestamp(), key_id = excluded.key_id
    RETURNING ${columns}, body`);
}
