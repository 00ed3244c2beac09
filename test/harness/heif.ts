/**
 * Makes HEIC and AVIF files from the coded picture of another one: as a grid of tiles like those of
 * iPhones, turned, with other colors, or with numbers that are not true.
 */

/** Properties of a file to make. */
export interface HeifOptions {
  /** File with one coded picture, from which the tiles are taken. */
  from: Buffer;
  /** Width and height of a tile. */
  tile: [width: number, height: number];
  /** Columns and rows of the grid; one coded picture without them. */
  grid?: [columns: number, rows: number];
  /** Stated size, if it is not that of the tiles. */
  size?: [width: number, height: number];
  /** Content of the box `colr`: an ICC profile, or the primaries of H.273. */
  color?: Buffer | number;
  /** Quarter turns, counterclockwise. */
  turns?: number;
  /** Profile of another item, in front of that of the picture. */
  otherProfile?: Buffer;
}

const number = (bytes: number, ...values: number[]): Buffer => {
  const buffer = Buffer.alloc(bytes * values.length);
  for (const [index, value] of values.entries()) buffer.writeUIntBE(value, index * bytes, bytes);
  return buffer;
};
const text = (value: string): Buffer => Buffer.from(value, 'latin1');

function box(type: string, ...content: Buffer[]): Buffer {
  const body = Buffer.concat(content);
  return Buffer.concat([number(4, body.length + 8), text(type), body]);
}
/** Box with a version. */
const fullBox = (type: string, version: number, ...content: Buffer[]): Buffer =>
  box(type, number(4, version * 0x1000000), ...content);

/** Returns the whole box of this type in a file. */
function cutBox(file: Buffer, type: string): Buffer {
  const at = file.indexOf(type) - 4;
  return file.subarray(at, at + file.readUInt32BE(at));
}

const colorBox = (color: Buffer | number): Buffer =>
  typeof color === 'number'
    ? box('colr', text('nclx'), number(2, color, 13, 6), number(1, 0x80))
    : box('colr', text('prof'), color);

/** Makes a file. */
export function makeHeif(options: HeifOptions): Buffer {
  const { from, tile, grid, turns = 0, color, otherProfile } = options;
  const isAvif = from.includes('av1C');
  const [codec, config] = isAvif ? ['av01', 'av1C'] : ['hvc1', 'hvcC'];
  const [columns, rows] = grid ?? [1, 1];
  const size = options.size ?? [tile[0] * columns, tile[1] * rows];
  const data = cutBox(from, 'mdat').subarray(8);
  const tiles = Array.from({ length: columns * rows }, (_, index) => index + 1);
  const primary = grid ? tiles.length + 1 : 1;
  const ispe = ([width, height]: [number, number]) => fullBox('ispe', 0, number(4, width, height));
  // The first three properties are those of a tile, the others those of the picture.
  const pixi = fullBox('pixi', 0, number(1, 3, 8, 8, 8));
  const properties = [
    ...(otherProfile ? [colorBox(otherProfile)] : []),
    cutBox(from, config),
    ispe(grid ? tile : size),
    pixi,
    ...(grid ? [ispe(size)] : []),
    box('irot', number(1, turns)),
    ...(color === undefined ? [] : [colorBox(color)]),
  ];
  const first = otherProfile ? 2 : 1;
  const ofTile = [first, first + 1, first + 2];
  const ofPicture = properties.map((_, index) => index + 1).filter((index) => index >= first + 3);
  const associate = (id: number, indexes: number[]): Buffer =>
    Buffer.concat([number(2, id), number(1, indexes.length, ...indexes)]);
  const associations = tiles.map((id) => associate(id, grid ? ofTile : [...ofTile, ...ofPicture]));
  if (grid) associations.push(associate(primary, ofPicture));
  // Tiles are hidden.
  const entry = (id: number, type: string): Buffer =>
    box(
      'infe',
      number(4, 0x2000000 + (id === primary ? 0 : 1)),
      number(2, id, 0),
      text(type),
      number(1, 0),
    );
  const entries = tiles.map((id) => entry(id, codec));
  if (grid) entries.push(entry(primary, 'grid'));
  const derived = Buffer.concat([number(1, 0, 1, rows - 1, columns - 1), number(4, ...size)]);
  const brand = isAvif ? 'avif' : 'heic';
  const start = box('ftyp', text(brand), number(4, 0), text(`mif1${brand}`));

  /** Builds the description for tiles that begin at this place of the file. */
  const describe = (dataAt: number): Buffer => {
    // Method 0 counts places in the file, method 1 in the box `idat`.
    const place = (id: number, method: number, at: number, length: number): Buffer =>
      Buffer.concat([number(2, id, method, 0, 1), number(4, at, length)]);
    const places = tiles.map((id) => place(id, 0, dataAt, data.length));
    if (grid) places.push(place(primary, 1, 0, derived.length));
    const references = box('dimg', number(2, primary, tiles.length, ...tiles));
    return fullBox(
      'meta',
      0,
      fullBox('hdlr', 0, number(4, 0), text('pict'), Buffer.alloc(13)),
      fullBox('pitm', 0, number(2, primary)),
      fullBox('iinf', 0, number(2, entries.length), ...entries),
      ...(grid ? [fullBox('iref', 0, references)] : []),
      box(
        'iprp',
        box('ipco', ...properties),
        fullBox('ipma', 0, number(4, associations.length), ...associations),
      ),
      fullBox('iloc', 1, number(2, 0x4400, places.length), ...places),
      ...(grid ? [box('idat', derived)] : []),
    );
  };
  const dataAt = start.length + describe(0).length + 8;
  return Buffer.concat([start, describe(dataAt), box('mdat', data)]);
}
