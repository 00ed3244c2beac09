/** Files of items as spreadsheets and editors write them, read by the console and the command line. */
import { describe, expect, it } from 'vitest';
import {
  buildItemsBody,
  describeSkipped,
  findRowError,
  listChatSchemas,
  nameRow,
  readItemsFile,
  type ApiDescription,
} from '../../clients/items/items-file.ts';
import { createDescriptions } from '../../api/openapi/document.ts';
import { endpoints } from '../../api/endpoints/index.ts';
import { toFieldValue } from '../../clients/items/cell-values.ts';

const text = { type: 'string' };
const schemas = new Map([
  [
    'image/generate',
    {
      properties: {
        prompt: text,
        negativePrompt: text,
        seed: { type: 'integer' },
        numImages: { type: 'integer' },
        strength: { type: 'number' },
        generateAudio: { type: 'boolean' },
        imageUrls: { anyOf: [text, { type: 'array' }] },
        size: { type: 'object' },
        scaleFactor: { enum: [2, 4] },
      },
    },
  ],
]);
const read = (content: string | Uint8Array, otherEncoding?: string) =>
  readItemsFile(typeof content === 'string' ? new TextEncoder().encode(content) : content, {
    readSchemas: async () => schemas,
    otherEncoding,
  });
const readItems = async (content: string | Uint8Array, otherEncoding?: string) =>
  (await read(content, otherEncoding)).rows.map(({ item }) => item);
const bytes = (content: string, encoding: BufferEncoding) => Buffer.from(content, encoding);
const lamp = (id: string, prompt: string) => ({ id, use: 'image/generate', body: { prompt } });
const head = 'id,use,prompt';

describe('a table', () => {
  it.each([
    ['a quote inside a cell', `${head}\na,image/generate,a 24" monitor`, 'a 24" monitor'],
    [
      'quoted quotes and separators',
      `${head}\na,image/generate,"a ""red"", lamp"`,
      'a "red", lamp',
    ],
    ['a line break inside a cell', `${head}\r\na,image/generate,"a\r\nlamp"\r\n`, 'a\nlamp'],
    ['semicolons', 'id;use;prompt\r\na;image/generate;a lamp, red\r\n', 'a lamp, red'],
    ['tabs', 'id\tuse\tprompt\na\timage/generate\ta lamp, red', 'a lamp, red'],
    ['a named separator', 'sep=|\r\nid|use|prompt\r\na|image/generate|a; lamp', 'a; lamp'],
    ['a quoted header', '"id";"use";"prompt"\n"a";"image/generate";"a lamp"', 'a lamp'],
    ['spaces in the header', ' id , use , prompt \na, image/generate ,a lamp', 'a lamp'],
    ['carriage returns', `${head}\ra,image/generate,a lamp\r`, 'a lamp'],
    ['mixed line ends', `${head}\r\na,image/generate,a lamp\n`, 'a lamp'],
    ['spaces at the ends of a text', `${head}\na,image/generate, a lamp `, ' a lamp '],
    ['a byte order mark', `\uFEFF${head}\na,image/generate,café`, 'café'],
    [
      'UTF-16 with a byte order mark',
      bytes(`\uFEFF${head}\na,image/generate,café`, 'utf16le'),
      'café',
    ],
    ['UTF-16 without one', bytes(`${head}\na,image/generate,café`, 'utf16le'), 'café'],
    [
      'UTF-16 in the other byte order',
      bytes(`\uFEFF${head}\na,image/generate,東京`, 'utf16le').swap16(),
      '東京',
    ],
    ['a list in brackets', `${head}\na,image/generate,[soft light]`, '[soft light]'],
    ['valid JSON as a text', `${head}\na,image/generate,"[""a""]"`, '["a"]'],
    ['braces', `${head}\na,image/generate,{a}`, '{a}'],
    ['a year', `${head}\na,image/generate,2024`, '2024'],
    ['leading zeros', `${head}\na,image/generate,007`, '007'],
    ['an exponent', `${head}\na,image/generate,1e3`, '1e3'],
    ['a logical value', `${head}\na,image/generate,TRUE`, 'TRUE'],
  ])('keeps each text with %s', async (_, content, prompt) => {
    expect(await readItems(content)).toEqual([lamp('a', prompt)]);
  });

  it('skips empty rows, and counts and names them', async () => {
    const file = await read(
      `\n${head}\na,image/generate,a lamp\n\n , ,\nb,image/generate,b lamp\n,,\n`,
    );
    expect(file.rows.map(({ number, item }) => [number, item])).toEqual([
      [3, lamp('a', 'a lamp')],
      [6, lamp('b', 'b lamp')],
    ]);
    expect(describeSkipped(file)).toBe('3 empty rows were skipped: 4, 5, 7.');
  });

  it('names the row and the column of a cell too many, and keeps the others', async () => {
    const file = await read(`${head}\na,image/generate,a lamp\nb,image/generate,red, blue\n`);
    expect(file.rows.map(({ problem }) => problem)).toEqual([
      null,
      'has a cell in column 4, which has no name in the header: " blue"',
    ]);
    const [, row] = file.rows;
    expect(row && nameRow(file, row)).toBe('row 3 (b)');
    const lines = (await buildItemsBody(file, { skipInvalid: true }).text()).split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      { options: { skipInvalid: true } },
      lamp('a', 'a lamp'),
    ]);
  });

  it.each([
    ['', 'The file is empty.'],
    [`${head}\n`, 'The table has a header, but no rows.'],
    ['id,prompt,prompt\n1,a,b', 'The table has more than one column prompt.'],
    [
      `${head}\na,image/generate,"a lamp" on a desk\nb,image/generate,b`,
      /^Row 2 has a cell that begins with a quote/,
    ],
    [
      `${head}\na,image/generate,a\nb,image/generate,"open`,
      /^Row 3 has a cell that begins with a quote/,
    ],
    [
      bytes(`${head}\na,image/generate,a caf\u00E9`, 'latin1'),
      /^The file is not UTF-8: see line 2 after "image\/generate,a caf"/,
    ],
    ['[]', 'The file has no items.'],
    ['{"options":{"maxCredits":1}}', 'The file has no items.'],
  ])('is rejected as a whole: %j', async (content, message) => {
    await expect(read(content)).rejects.toThrow(message);
  });

  it('is read in a named encoding, unless its bytes show another one', async () => {
    const content = `${head}\na,image/generate,`;
    expect(
      await readItems(bytes(`${content}a caf\u00E9 \u0096 10 \u0080`, 'latin1'), 'windows-1252'),
    ).toEqual([lamp('a', 'a café – 10 €')]);
    await expect(read(bytes(`${content}\u0081\u00E9`, 'latin1'), 'windows-1252')).rejects.toThrow(
      'The file is neither UTF-8 nor windows-1252',
    );
    expect(await readItems(`${content}café`, 'windows-1252')).toEqual([lamp('a', 'café')]);
  });

  it('converts cells only as the schema of their field says', async () => {
    const columns = [
      'use',
      'prompt',
      'seed',
      'strength',
      'generateAudio',
      'imageUrls',
      'size',
      'scaleFactor',
      'metadata.team',
      'unknown',
    ];
    const rows = [
      ['image/generate', '12', '12', '1e3', 'TRUE', '["a","b"]', '{"width":1}', '4', '7', '12'],
      ['image/generate', '1', '12345678901234567890', '1,5', 'yes', '[a]', '{a}', '3', '', ''],
    ].map((cells) => cells.join('\t'));
    const [converted, kept] = await readItems(
      [
        columns.join('\t'),
        ...rows.map((row) =>
          row.replaceAll('"', '""').replaceAll(/(?<=\t|^)([[{][^\t]*)/g, '"$1"'),
        ),
      ].join('\n'),
    );
    expect(converted?.body).toEqual({
      prompt: '12',
      seed: 12,
      strength: 1000,
      generateAudio: true,
      imageUrls: ['a', 'b'],
      size: { width: 1 },
      scaleFactor: 4,
      metadata: { team: '7' },
      unknown: '12',
    });
    expect(kept?.body).toEqual({
      prompt: '1',
      seed: '12345678901234567890',
      strength: '1,5',
      generateAudio: 'yes',
      imageUrls: '[a]',
      size: '{a}',
      scaleFactor: '3',
    });
    expect(toFieldValue(' ', { type: 'number' })).toBe(' ');
    expect(toFieldValue('0x10', { type: 'number' })).toBe('0x10');
  });
});

describe('NDJSON', () => {
  const line = (id: string) => JSON.stringify(lamp(id, 'a lamp'));

  it('may begin with a byte order mark and options, and have blank lines', async () => {
    const file = await read(
      `\uFEFF{"options":{"maxCredits":50}}\r\n\r\n${line('a')}\r\n  \r\n${line('b')}\r\n`,
    );
    expect(file.options).toEqual({ maxCredits: 50 });
    expect(file.rows.map(({ number, item }) => [number, item.id])).toEqual([
      [3, 'a'],
      [5, 'b'],
    ]);
    expect(describeSkipped(file)).toBe('2 empty lines were skipped: 2, 4.');
  });

  it('names the line that is not valid JSON, and sends the others as they are', async () => {
    const exact = `{"id":"b","use":"image/generate","body":{"prompt":"b","seed":12345678901234567890}}`;
    const file = await read(`${line('a')}\n{oops\n7\n${exact}`);
    expect(file.rows.map(({ number, problem }) => [number, problem])).toEqual([
      [1, null],
      [2, 'is not valid JSON'],
      [3, 'must be a JSON object, such as {"use": …}'],
      [4, null],
    ]);
    expect((await buildItemsBody(file, {}).text()).split('\n').at(-1)).toBe(exact);
    const error = findRowError(file, { path: 'items.1.body.seed', message: 'must be a number' });
    expect(error).toMatchObject({ row: { number: 4 }, field: 'seed' });
    expect(findRowError(file, { path: 'items.0', message: 'line 2 must be' })).toMatchObject({
      row: { number: 1 },
      field: '',
      message: 'must be',
    });
    expect(findRowError(file, { path: 'maxCredits', message: 'x' })).toBeNull();
  });

  it('may be one JSON document, as the API accepts it', async () => {
    expect(await readItems(JSON.stringify([lamp('a', 'b')], null, 2))).toEqual([lamp('a', 'b')]);
    const file = await read(JSON.stringify({ items: [lamp('a', 'b')], maxCredits: 3 }, null, 2));
    expect(file).toMatchObject({ noun: 'item', options: { maxCredits: 3 } });
    const [row] = file.rows;
    expect(row && nameRow(file, row)).toBe('item 1 (a)');
  });

  it('is rejected in an encoding that the API rejects', async () => {
    await expect(read(bytes('{"id":"caf\u00E9"}', 'latin1'))).rejects.toThrow(
      'The file is not UTF-8: see line 1 after',
    );
    expect(await readItems(bytes(`\uFEFF${line('a')}`, 'utf16le'))).toEqual([lamp('a', 'a lamp')]);
  });
});

it('reads a table of chats by the schemas in the description of the API', async () => {
  const values = { baseUrl: 'http://127.0.0.1:4000', prices: [] };
  const described = JSON.parse(createDescriptions(values, endpoints).callers) as ApiDescription;
  const content = [
    'id,use,model,input,max_output_tokens',
    'a,responses,gpt-5-nano,"Describe a lamp, in one line.",200',
    'b,responses,gpt-5-nano,007,50',
  ].join('\n');
  const { rows } = await readItemsFile(new TextEncoder().encode(content), {
    readSchemas: async () => new Map(listChatSchemas(described)),
  });
  const body = (input: string, max: number) => ({
    model: 'gpt-5-nano',
    input,
    max_output_tokens: max,
  });
  expect(rows.map(({ item }) => item)).toEqual([
    { id: 'a', use: 'responses', body: body('Describe a lamp, in one line.', 200) },
    { id: 'b', use: 'responses', body: body('007', 50) },
  ]);
});
