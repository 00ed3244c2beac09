/** /api/v1/studio/recipes: saves, lists and deletes named bodies of Studio requests (docs/recipes.md). */
import { z } from 'zod';
import { fieldsError, prefixError } from '../../domain/errors.ts';
import { anyJsonObject, objectBounds } from '../../domain/body-schema.ts';
import { parseMetadata } from '../../domain/metadata.ts';
import { parsePresent, parseWith } from '../../domain/parsing.ts';
import { toResponse, type JsonObject } from '../../domain/json.ts';
import { authorize, type Caller } from '../../identity/access.ts';
import { findByUse, getRequiredScope, useOf } from '../../studio/capabilities/capability.ts';
import { jobKinds } from '../../studio/pipelines/job-kinds.ts';
import {
  listedRecipe,
  recipe,
  recipeName,
  recipeReference,
  recipesMax,
  saveRecipe,
  recipeVersion,
  versionsMax,
} from '../../studio/requests/recipe-versions.ts';
import { bulkBody } from './bulk-requests.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import { dataSchema, listSchema, responseSchema, toData } from './fields.ts';

const path = '/api/v1/studio/recipes';
const viewerError = 'A viewer may not change recipes.';
const params = z.object({ recipe: recipeReference });
/** Maximum size of the request that saves a recipe, in bytes. */
const saveBytesMax = 1024 * 1024;

const version = responseSchema(recipeVersion).meta({ id: 'RecipeVersion' });
const resource = responseSchema(recipe)
  .extend({ body: z.record(z.string(), z.unknown()) })
  .meta({ id: 'Recipe' });

const uses: readonly [string, ...string[]] = ['bulk', ...jobKinds.map(useOf)];
/** Fields that belong to one request, so that no recipe has them. */
const ownFields = ['recipe', 'webhookUrl', 'webhookEvents'];

/** Checks that a key may make the requests of a recipe. @throws GatewayError FORBIDDEN */
function authorizeUse(caller: Caller, use: string): void {
  const capability = findByUse(jobKinds, use);
  authorize(caller, capability ? getRequiredScope(capability) : 'bulk:*');
}

/**
 * Checks the fields of a body. Missing fields are no error, because requests can add them.
 * @throws GatewayError INVALID_REQUEST naming each invalid field
 */
function checkBody(use: string, body: JsonObject): void {
  const own = ownFields.filter((name) => Object.hasOwn(body, name));
  if (own.length > 0)
    throw fieldsError('INVALID_REQUEST', own, 'must be absent: it is a field of one request');
  const { metadata, endUser, ...fields } = body;
  parseMetadata({ metadata, endUser });
  parsePresent(findByUse(jobKinds, use)?.request ?? bulkBody, fields);
}

/** Endpoints that manage recipes. */
export const recipeEndpoints = defineSection('Studio: recipes', {
  listRecipes: defineEndpoint({
    route: `GET ${path}`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'List saved recipes by name, each with its newest version',
    response: listSchema(responseSchema(listedRecipe).meta({ id: 'ListedRecipe' })),
    handle: async ({ caller: { organizationId } }, { recipes }) =>
      toData((await recipes.list(organizationId)).map((row) => toResponse(row))),
  }),

  getRecipe: defineEndpoint({
    route: `GET ${path}/:recipe`,
    scope: 'studio:read',
    bucket: 'polls',
    summary: 'Get a recipe with its body and its versions',
    description: 'The path names a recipe, or a version of it as `name@version`.',
    request: { params },
    response: dataSchema(
      resource.extend({ versions: z.array(version) }).meta({ id: 'RecipeWithVersions' }),
    ),
    errors: ['NOT_FOUND'],
    async handle({ caller: { organizationId }, params: { recipe: reference } }, { recipes }) {
      const found = await recipes.read({ organizationId, reference });
      const versions = await recipes.versions({ organizationId, reference: found.name });
      return toData({ ...toResponse(found), versions: versions.map((row) => toResponse(row)) });
    },
  }),

  saveRecipe: defineEndpoint({
    route: `PUT ${path}/:recipe`,
    scope: 'studio:read',
    viewerError,
    summary: 'Save a recipe',
    description:
      'Adds a version, which requests with this name use from now on. The version is a hash of the content: the same content is the same version. ' +
      `Required fields may be missing, but each field that is present is checked. An organization can have ${recipesMax} recipes with ${versionsMax} versions each.`,
    request: {
      // The handler parses the name, so that an invalid one is a 400 instead of a 404.
      params: z.object({ recipe: z.string() }),
      bodyBytesMax: saveBytesMax,
      body: z.strictObject({
        use: z.enum(uses).meta({
          description: 'Studio endpoint that the recipe is for: its path after `/studio/`.',
        }),
        body: anyJsonObject.meta({
          description: 'Body of a request to this endpoint, also a part of it.',
          // The generated types of the clients then allow fields.
          override: { ...objectBounds, additionalProperties: true },
        }),
      }),
      example: {
        use: 'image/generate',
        body: { model: 'nano-banana', aspectRatio: '1:1' },
      },
    },
    response: dataSchema(resource),
    errors: ['RECIPE_QUOTA_REACHED'],
    async handle({ caller, params: ids, body: { use, body } }, { pool }) {
      const { recipe: name } = parseWith(z.object({ recipe: recipeName }), ids);
      authorizeUse(caller, use);
      try {
        checkBody(use, body);
      } catch (error) {
        throw prefixError(error, 'body');
      }
      const saved = await pool.transaction((connection) =>
        saveRecipe(connection, caller, { name, use, body }),
      );
      return toData(toResponse(saved));
    },
  }),

  deleteRecipe: defineEndpoint({
    route: `DELETE ${path}/:recipe`,
    scope: 'studio:read',
    viewerError,
    summary: 'Delete a recipe, or one of its versions',
    description:
      'The path names a recipe, or a version of it as `name@version`. Jobs that used it stay, and keep its name.',
    request: { params },
    response: z.object({ success: z.literal(true), recipe: z.string() }),
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { recipe: reference } }, { recipes }) {
      const { organizationId } = caller;
      const { use } = await recipes.read({ organizationId, reference });
      authorizeUse(caller, use);
      await recipes.remove({ organizationId, reference });
      return { success: true as const, recipe: reference };
    },
  }),
});
