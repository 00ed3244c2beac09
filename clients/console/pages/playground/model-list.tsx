/** List from which the model of a request is chosen, loaded when it is opened first. */
import * as Ariakit from '@ariakit/react';
import { useEffect } from 'react';
import { toTitle } from './capability.ts';
import { ChosenModel, ModelLine, findModel, type ModelPickerProps } from './model-picker.tsx';

/** Shows the open list of models and its button. */
export default function ModelList(props: ModelPickerProps) {
  const { capability, field, change } = props;
  const { name, schema } = field;
  const list = Ariakit.useSelectStore({
    value: findModel(props)?.selectedBy[name] ?? '',
    setValue: (id: string) => change(id === schema.default ? undefined : id),
  });
  useEffect(() => {
    list.show();
  }, [list]);
  return (
    <div className="field">
      <Ariakit.SelectProvider store={list}>
        <Ariakit.SelectLabel>{toTitle(name)}</Ariakit.SelectLabel>
        <Ariakit.Select className="picker">
          <ChosenModel {...props} />
        </Ariakit.Select>
        <Ariakit.SelectPopover className="popup" gutter={4} sameWidth fixed>
          {capability.models.map((model) => (
            <Ariakit.SelectItem
              key={model.id}
              className="item picker"
              value={model.selectedBy[name] ?? model.id}
            >
              <ModelLine capability={capability} model={model} />
            </Ariakit.SelectItem>
          ))}
        </Ariakit.SelectPopover>
      </Ariakit.SelectProvider>
    </div>
  );
}
