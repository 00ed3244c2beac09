/** `studio recipes list|show|save|delete`. */
import { Command } from 'commander';
import { addAction } from '../actions.ts';
import { readObject } from '../fields.ts';
import { addListing } from '../listings.ts';
import { openSession } from '../session.ts';
import { formatList, objectResponse, toCells, type Columns, type Fields } from '../output.ts';

const path = '/studio/recipes';

const columns: Columns = {
  name: 'name',
  version: 'version',
  use: 'use',
  bytes: 'sizeBytes',
  saved: 'savedAt',
};

const formatRecipe = (recipe: Fields): string =>
  `${formatList(toCells(recipe, columns))}\n${JSON.stringify(recipe['body'], null, 2)}\n`;

/** Creates the command `studio recipes`. */
export function createRecipesCommand(): Command {
  const recipes = new Command('recipes').description(
    'save named request bodies, which the organization shares (docs/recipes.md)',
  );
  addListing({
    as: 'caller',
    command: recipes.command('list').description('list recipes with their newest versions'),
    path: () => path,
    columns: { ...columns, versions: 'versions' },
    isUnpaged: true,
  });
  addAction({
    command: recipes.command('show <recipe>').description('show a recipe, or name@version'),
    path: (recipe) => `${path}/${recipe}`,
    text: formatRecipe,
  });
  recipes
    .command('save <name> <file>')
    .description('save the body in a JSON file, or - for stdin, as the newest version')
    .requiredOption('--use <use>', 'endpoint, such as image/generate, pipelines or bulk')
    .action(async (...[name, file, { use }, self]: [string, string, { use: string }, Command]) => {
      const session = openSession(self);
      const body = { use, body: await readObject(file) };
      const url = `/api/v1${path}/${encodeURIComponent(name)}`;
      const answer = await session
        .client('caller')
        .send(url, objectResponse, { method: 'PUT', body });
      session.output.show(answer.raw, () => formatRecipe(answer.body.data));
    });
  addAction({
    command: recipes
      .command('delete <recipe>')
      .description('delete a recipe, or the version name@version; jobs stay'),
    method: 'DELETE',
    path: (recipe) => `${path}/${recipe}`,
    isUnwrapped: true,
    text: (_, [recipe]) => `deleted ${recipe}\n`,
  });
  return recipes;
}
