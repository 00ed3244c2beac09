/** Saved recipes of an endpoint: fill the form with one, save the form as one, delete one. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, requestJson, unwrap, type Schemas } from '../../gateway/client.ts';
import { useSessionKey } from '../../gateway/session.ts';
import { ActionButton } from '../../parts/action-button.tsx';
import { ConfirmButton } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/fields.tsx';
import { ErrorMessage } from '../../parts/states.tsx';
import { showToast } from '../../parts/toast.tsx';
import type { FormValues } from './capability.ts';

interface SavedRecipesProps {
  /** Endpoint of the form: its path below /studio. */
  use: string;
  /** Request body of the form. */
  body: FormValues;
  /** Fills the form with the body of a recipe. */
  load: (body: FormValues) => void;
}

const queryKey = ['recipes'];

/** Shows the recipes of an endpoint, folded until they are opened. */
export function SavedRecipes({ use, body, load }: SavedRecipesProps) {
  const denial = useSessionKey().explainDenial('studio:read');
  const { data, error } = useQuery({
    queryKey,
    queryFn: () => unwrap(api.GET('/api/v1/studio/recipes')),
    enabled: denial === null,
  });
  if (denial !== null) return null;
  const recipes = data?.data.filter((recipe) => recipe.use === use) ?? [];
  return (
    <details>
      <summary>Saved recipes{recipes.length > 0 && ` (${recipes.length})`}</summary>
      <div className="stack">
        <ErrorMessage error={error} />
        {recipes.map((recipe) => (
          <RecipeRow key={recipe.name} recipe={recipe} load={load} />
        ))}
        <SaveButton use={use} body={body} />
      </div>
    </details>
  );
}

interface RecipeRowProps extends Pick<SavedRecipesProps, 'load'> {
  recipe: Schemas['ListedRecipe'];
}

function RecipeRow({ recipe: { name, version, versions }, load }: RecipeRowProps) {
  const client = useQueryClient();
  const params = { path: { recipe: name } };
  const fill = useMutation({
    mutationFn: () => unwrap(api.GET('/api/v1/studio/recipes/{recipe}', { params })),
    onSuccess({ data }) {
      load(data.body);
      showToast(`The form has the fields of ${name}`);
    },
  });
  const remove = async (): Promise<void> => {
    await unwrap(api.DELETE('/api/v1/studio/recipes/{recipe}', { params }));
    await client.invalidateQueries({ queryKey });
  };
  return (
    <div className="row">
      <bdi>{name}</bdi>
      <code className="hint">
        {version.slice(0, 8)}
        {versions > 1 && `, ${versions} versions`}
      </code>
      <ActionButton
        disabled={fill.isPending}
        aria-label={`Use ${name}`}
        onClick={() => fill.mutate()}
      >
        Use
      </ActionButton>
      <ConfirmButton
        label="Delete"
        title={`Delete ${name}`}
        verb="Delete"
        done="Recipe deleted"
        isDangerous
        perform={remove}
      >
        <p>Requests that name it are rejected from then on. Its jobs stay.</p>
      </ConfirmButton>
      <ErrorMessage error={fill.error} />
    </div>
  );
}

function SaveButton({ use, body }: Pick<SavedRecipesProps, 'use' | 'body'>) {
  const client = useQueryClient();
  return (
    <div>
      <ConfirmButton
        label="Save as a recipe"
        title="Save as a recipe"
        verb="Save"
        done="Recipe saved"
        perform={async (read) => {
          const { async: _, ...saved } = body;
          const name = encodeURIComponent(read('name'));
          const request = { method: 'PUT', body: { use, body: saved } };
          await requestJson(`/api/v1/studio/recipes/${name}`, request);
          await client.invalidateQueries({ queryKey });
        }}
      >
        <TextField
          label="Name"
          name="name"
          required
          maxLength={64}
          pattern="[A-Za-z0-9][A-Za-z0-9_.\-]*"
          placeholder="product-shot"
        />
        <p>Everyone in the organization can use it. An existing name gets a new version.</p>
      </ConfirmButton>
    </div>
  );
}
